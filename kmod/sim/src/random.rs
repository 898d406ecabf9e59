// SPDX-License-Identifier: GPL-3.0-or-later
//! Random requests against core, in all sizes, everything drawn from one seed; now and then a stop or a cut.

use std::collections::BTreeMap;

use crate::crash::Failure;
use crate::disk::Luck;
use crate::engine::{Core, Geometry, Mode, Region};
use crate::play::{Act, Choice, Script};
use crate::streams::WriteStream;
use crate::trace::Trace;
use crate::workload::{Workload, pick};
use crate::world::{Cut, Machine, World};

/// Requests between two quiet moments.
const ROUND: u64 = 2000;

/// Totals of a run, to see that it exercised something.
#[derive(Default, Debug)]
pub struct Summary {
    /// Requests submitted.
    pub requests: u64,
    /// Counters of core, added up over all its engines, by name.
    pub counters: BTreeMap<String, u64>,
}

impl Summary {
    /// Adds another run's totals.
    pub fn add(&mut self, other: &Summary) {
        self.requests += other.requests;
        for (name, value) in &other.counters {
            let total = self.counters.entry(name.clone()).or_default();
            *total = total.wrapping_add(*value);
        }
    }

    fn collect(&mut self, core: &Core, world: &World) {
        world.add_counters(core, &mut self.counters);
    }
}

/// A run under way.
struct Run {
    world: World,
    rng: fastrand::Rng,
    /// Says when promotion is off.
    pauses: fastrand::Rng,
    stream: WriteStream,
    script: Script,
    keep: bool,
    writeback: bool,
    summary: Summary,
}

type Step = Result<(), Box<Failure>>;

impl Run {
    fn act(&mut self, act: Act) -> Step {
        let choice = Choice::new(act, &mut self.rng);
        self.apply(choice)
    }

    fn apply(&mut self, choice: Choice) -> Step {
        if self.keep {
            self.script.choices.push(choice);
        }
        choice.apply(&mut self.world).map_err(|fault| {
            Box::new(Failure {
                fault,
                script: self.script.clone(),
            })
        })
    }
}

/// Runs `requests` requests from `seed`. With `keep` a failure's script is complete, else empty.
///
/// # Errors
/// What went wrong.
pub fn run(core: &Core, seed: u64, requests: u64, keep: bool) -> Result<Summary, Box<Failure>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let most = *pick(&mut rng, &[40, 700, 5000, 20000]);
    let sectors = rng.u64(1..=most);
    let geometry = any_geometry(core, sectors, &mut rng);
    let writeback = geometry.block_sectors == 1;
    let stream = WriteStream::new(seed, sectors, 1);
    let machine = Machine {
        geometry,
        disk_block: 1,
        mode: any_mode(&mut rng, writeback),
        stream: stream.threshold(),
        flaw: None,
    };
    let mut workload = Workload::new(sectors);
    let script = Script {
        machine,
        choices: Vec::new(),
    };
    let world = World::new(core, &machine, Trace::default());
    let mut run = Run {
        world,
        rng,
        pauses: fastrand::Rng::with_seed(!seed),
        stream,
        script,
        keep,
        writeback,
        summary: Summary::default(),
    };
    while run.summary.requests < requests {
        let count = ROUND.min(requests - run.summary.requests);
        round(&mut run, &mut workload, count)?;
        let failed = run.world.engine.state() != crate::engine::State::Active;
        if failed || run.rng.u8(..4) == 0 {
            run.summary.collect(core, &run.world);
            let mode = any_mode(&mut run.rng, run.writeback);
            run.act(Act::Mode(mode))?;
            if failed || run.rng.bool() {
                run.act(Act::Cut(Cut::Power(Luck::Writes(128), Luck::Blocks(128))))?;
            } else {
                run.act(Act::Stop(mode))?;
            }
        }
    }
    run.summary.collect(core, &run.world);
    if run.world.engine.state() == crate::engine::State::Active {
        let mode = any_mode(&mut run.rng, run.writeback);
        run.act(Act::Drain(mode))?;
    }
    Ok(run.summary)
}

fn any_mode(rng: &mut fastrand::Rng, writeback: bool) -> Mode {
    match rng.u8(..6) {
        0..=1 if writeback => Mode::WriteBack,
        0 | 2 => Mode::WriteAround,
        _ => Mode::WriteThrough,
    }
}

/// The geometry that a new superblock would have, or a smaller and odder geometry.
fn any_geometry(core: &Core, sectors: u64, rng: &mut fastrand::Rng) -> Geometry {
    let mut geometry = Geometry {
        origin_sectors: sectors,
        ssd_sectors: 40_000,
        block_sectors: *pick(rng, &[1, 1, 1, 2, 8]),
        ..Geometry::default()
    };
    if rng.u8(..8) == 0 && core.plan(&mut geometry) {
        return geometry;
    }
    geometry.run_shift = rng.u32(0..=6);
    geometry.way_shift = rng.u32(0..=4).min(10 - geometry.run_shift);
    let shift = geometry.run_shift + geometry.way_shift;
    geometry.groups = rng.u32(1..=(1024 >> shift));
    if rng.u8(..4) == 0 {
        geometry.made_groups = rng.u32(1..=(1024 >> shift));
    }
    let slots = u64::from(geometry.groups) << shift;
    let mut at = 2048;
    let mut region = |length: u64| {
        let region = Region { start: at, length };
        at += length;
        region
    };
    geometry.journal = region(8 * rng.u64(16..=64));
    geometry.checkpoint = region(16 * (1 + slots.div_ceil(511)));
    geometry.parts = u32::from(!geometry.groups.is_multiple_of(3));
    geometry.intent = region(8);
    geometry.data = region(slots * 32);
    geometry
}

fn round(run: &mut Run, workload: &mut Workload, count: u64) -> Step {
    let rng = &mut run.rng;
    workload.next_phase(rng);
    run.stream.turn();
    let mut depth = *pick(rng, &[1, 2, 4, 8, 32, 128]);
    let groups = run.world.engine.layout().groups;
    let end = run.summary.requests + count;
    let mut shortage = *pick(rng, &[0, 0, 0, 0, 0, 20, 128, 255]);
    let disk_failing = *pick(rng, &[0, 0, 0, 0, 0, 0, 0, 300]);
    let ssd_failing = *pick(rng, &[0, 0, 0, 0, 0, 0, 0, 20]);
    let mut pace = (
        *pick(rng, &[0, 0, 128, 230, 250]),
        *pick(rng, &[0, 0, 0, 128, 230]),
        *pick(rng, &[0, 16, 64]),
    );
    if rng.u8(..3) == 0 {
        // As with real disks: the hard disk is slow, the SSD is fast, except for some requests.
        pace = (240, 0, 64);
        shortage = 0;
    }
    let duel = rng.u8(..5) == 0;
    if duel {
        // A read from the SSD, or a write to it, takes far longer than the disk, or than the next request.
        workload.duel(rng);
        depth = *pick(rng, &[4, 8]);
        pace = *pick(
            rng,
            &[(0, 230, 64), (0, 128, 64), (128, 128, 64), (240, 0, 64)],
        );
        shortage = 0;
    }
    let dies_at = if rng.u8(..24) == 0 {
        run.summary.requests + rng.u64(..count)
    } else {
        u64::MAX
    };
    let changes_mode = match rng.u8(..4) {
        _ if duel => 1200,
        0 => 1020,
        _ => 1000,
    };
    let drops = rng.u8(..4) == 0;
    let cleans = *pick(rng, &[0, 0, 200, 2000]);
    let limit = *pick(rng, &[u64::MAX, u64::MAX, 40, 400]);
    if duel && run.writeback {
        run.act(Act::Mode(Mode::WriteBack))?;
    }
    run.act(Act::Limit(limit))?;
    // Drawn apart from all else, so that the other acts of a seed stay what they are.
    let promotes = run.pauses.u8(..12) != 0;
    let salt = run.pauses.u64(..);
    run.apply(Choice {
        act: Act::Promotion(promotes),
        salt,
    })?;
    run.act(Act::Pace(pace.0, pace.1, pace.2))?;
    run.act(Act::Faults(disk_failing, ssd_failing, shortage))?;
    let mut died = false;
    while run.summary.requests < end {
        if run.world.under_way() < depth && run.rng.u8(..4) == 0 {
            let request = run.stream.draw();
            let request = request.unwrap_or_else(|| workload.next(&mut run.rng));
            run.act(Act::Submit(request))?;
            run.summary.requests += 1;
            if !died && run.summary.requests > dies_at {
                died = true;
                run.act(Act::SsdDies)?;
            }
        } else {
            run.act(Act::Step)?;
        }
        let ticket = run.rng.u16(..);
        match ticket {
            0..=1000 => run.act(Act::Disturb)?,
            1001.. if ticket <= changes_mode => {
                let mode = any_mode(&mut run.rng, run.writeback);
                run.act(Act::Mode(mode))?;
            }
            1201..=1480 if drops => {
                let group = run.rng.u32(..groups + 1);
                run.act(if group < groups {
                    Act::Forget(group)
                } else {
                    Act::ForgetAll
                })?;
            }
            1481..=1580 => run.act(Act::Tick)?,
            2000.. if ticket < 2000 + cleans => run.act(Act::Clean)?,
            _ => {}
        }
    }
    run.act(Act::Settle)
}

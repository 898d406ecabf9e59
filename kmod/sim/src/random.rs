// SPDX-License-Identifier: GPL-3.0-or-later
//! Random requests against core, everything drawn from one seed.

use crate::engine::{Core, Engine, Layout, Mode};
use crate::trace::Trace;
use crate::workload::{Workload, pick};
use crate::world::{Fault, World};

/// Requests between two quiet moments.
const ROUND: u64 = 2000;

/// A run that found something.
#[derive(Debug)]
pub struct Failure {
    /// What.
    pub fault: Fault,
    /// Requests submitted until then, in this run.
    pub requests: u64,
    /// What happened near the place.
    pub trace: Vec<String>,
}

/// Totals of a run, to see that it exercised something.
#[derive(Default, Debug)]
pub struct Summary {
    /// Requests submitted.
    pub requests: u64,
    /// Counters of core, added up over all its engines, by name.
    pub counters: std::collections::BTreeMap<String, u64>,
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

    fn collect(&mut self, core: &Core, engine: &Engine) {
        for (name, value) in core.counter_names().into_iter().zip(engine.counters()) {
            let total = self.counters.entry(name).or_default();
            *total = total.wrapping_add(value);
        }
    }
}

/// Runs `requests` requests from `seed`.
///
/// # Errors
/// What went wrong. If `place` names sectors `(first, end)`, with a trace of what happened to them.
pub fn run(
    core: &Core,
    seed: u64,
    requests: u64,
    place: Option<(u64, u64)>,
) -> Result<Summary, Box<Failure>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let most = *pick(&mut rng, &[40, 700, 5000, 20000]);
    let sectors = rng.u64(1..=most);
    let ssd_sectors = 40_000;
    let layout = any_layout(core, sectors, ssd_sectors, &mut rng);
    let engine = Engine::new(core, layout, any_mode(&mut rng));
    let trace = place.map_or_else(Trace::default, |(first, end)| Trace::of(first, end));
    let mut workload = Workload::new(sectors);
    let mut world = World::new(core, engine, sectors, ssd_sectors, rng.fork(), trace);
    let mut summary = Summary::default();
    while summary.requests < requests {
        let count = ROUND.min(requests - summary.requests);
        if let Err(fault) = round(&mut world, &mut workload, &mut rng, count, &mut summary) {
            let trace = world.trace.lines().map(str::to_owned).collect();
            return Err(Box::new(Failure {
                fault,
                requests: summary.requests,
                trace,
            }));
        }
        if !world.engine.active() || rng.u8(..4) == 0 {
            summary.collect(core, &world.engine);
            let layout = any_layout(core, sectors, ssd_sectors, &mut rng);
            world.renew(Engine::new(core, layout, any_mode(&mut rng)));
        }
    }
    summary.collect(core, &world.engine);
    Ok(summary)
}

fn any_mode(rng: &mut fastrand::Rng) -> Mode {
    if rng.u8(..5) == 0 {
        Mode::WriteAround
    } else {
        Mode::WriteThrough
    }
}

/// A layout as a superblock gives it, or one that is smaller and odder.
fn any_layout(core: &Core, sectors: u64, ssd_sectors: u64, rng: &mut fastrand::Rng) -> Layout {
    let block_sectors = *pick(rng, &[1, 1, 2, 8]);
    if rng.u8(..8) == 0
        && let Some(layout) = core.plan(sectors, ssd_sectors, block_sectors)
    {
        return layout;
    }
    let run_shift = rng.u32(0..=6);
    let way_shift = rng.u32(0..=4).min(10 - run_shift);
    let groups = rng.u32(1..=(1024 >> (run_shift + way_shift)));
    Layout {
        origin_sectors: sectors,
        cached_sectors: sectors & !(u64::from(block_sectors) - 1),
        data_start: 2048 + 8 * rng.u64(..4),
        groups,
        lanes: groups << way_shift,
        slots: groups << (way_shift + run_shift),
        run_shift,
        run_mask: (1 << run_shift) - 1,
        way_shift,
        block_mask: block_sectors - 1,
    }
}

fn round(
    world: &mut World,
    workload: &mut Workload,
    rng: &mut fastrand::Rng,
    count: u64,
    summary: &mut Summary,
) -> Result<(), Fault> {
    workload.next_phase(rng);
    let depth = *pick(rng, &[1, 2, 4, 8, 32, 128]);
    let groups = world.engine.layout().groups;
    let end = summary.requests + count;
    world.memory_shortage = *pick(rng, &[0, 0, 0, 0, 0, 20, 128, 255]);
    world.disk.failing = *pick(rng, &[0, 0, 0, 0, 0, 0, 0, 300]);
    world.ssd.failing = *pick(rng, &[0, 0, 0, 0, 0, 0, 0, 20]);
    world.queue.lazy = *pick(rng, &[0, 16, 64]);
    world.queue.disk_reluctance = *pick(rng, &[0, 0, 128, 230, 250]);
    world.queue.ssd_reluctance = *pick(rng, &[0, 0, 0, 128, 230]);
    if rng.u8(..3) == 0 {
        // As disks are: the hard one slow, the SSD fast, but for some requests.
        (
            world.queue.disk_reluctance,
            world.queue.ssd_reluctance,
            world.queue.lazy,
        ) = (240, 0, 64);
        world.memory_shortage = 0;
    }
    let dies_at = if rng.u8(..24) == 0 {
        summary.requests + rng.u64(..count)
    } else {
        u64::MAX
    };
    let changes_mode = rng.u8(..4) == 0;
    let drops = rng.u8(..4) == 0;
    while summary.requests < end {
        if world.under_way() < depth && rng.u8(..4) == 0 {
            let request = workload.next(rng);
            world.submit(request);
            summary.requests += 1;
            world.ssd.dead |= summary.requests > dies_at;
        } else if !world.step()? && world.under_way() > 0 {
            world.finish()?;
        }
        match rng.u16(..) {
            0..=1000 => world.disturb(),
            1001..=1020 if changes_mode => world.engine.set_mode(any_mode(rng)),
            1021..=1300 if drops => world.engine.forget_group(rng.u32(..groups)),
            _ => {}
        }
    }
    world.settle()?;
    world.ssd.dead = false;
    world.ssd.failing = 0;
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Small worlds that are cut again and again. One seed determines everything.

mod author;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use self::author::{Author, any_machine};
use crate::engine::{Core, LoadError};
use crate::flaw::Flaw;
use crate::play::{Act, Choice, Script};
use crate::streams::WriteStream;
use crate::trace::Trace;
use crate::world::{Fault, Machine, World};

/// Cuts of one seed.
pub const CUTS: u64 = 100;

/// What happened right before the cuts, and between them.
#[derive(Default, Debug)]
pub struct Coverage {
    /// Cuts, by the words for the event before the cut.
    pub cuts: BTreeMap<&'static str, u64>,
    /// Counters of core, added up, by name.
    pub counters: BTreeMap<String, u64>,
    /// Acts.
    pub acts: u64,
}

impl Coverage {
    /// Adds another run's.
    pub fn add(&mut self, other: &Coverage) {
        for (&name, count) in &other.cuts {
            *self.cuts.entry(name).or_default() += count;
        }
        for (name, count) in &other.counters {
            let total = self.counters.entry(name.clone()).or_default();
            *total = total.wrapping_add(*count);
        }
        self.acts += other.acts;
    }

    /// Cuts in all.
    pub fn total(&self) -> u64 {
        self.cuts.get("in all").copied().unwrap_or(0)
    }

    fn cut(&mut self, world: &World) {
        let facts = world.engine.facts();
        let mut note = |name: &'static str, holds: bool| {
            if holds {
                *self.cuts.entry(name).or_default() += 1;
            }
        };
        note("in all", true);
        note("before a request was served", world.is_starting());
        note(world.last, true);
        note("beside a sweep", facts.sweep_on);
        note("beside a checkpoint", facts.checkpoint_on);
        note("with marks set", facts.marks_set > 0);
        note("with writes to the disk under way", facts.inflight > 0);
        note("with something dirty", facts.dirty > 0);
        let slots = u64::from(world.engine.layout().slots);
        note("with all dirty", facts.dirty >= slots * 4);
        note("with half dirty", facts.dirty >= slots * 2);
        let block = facts.head;
        note("at the journal's begin", block <= 1);
        note("at the journal's end", block + 8 > facts.ring_blocks);
        note("with a full journal", facts.used + 8 > facts.ring_blocks);
        note("bypassed or stranded", facts.state != 0);
        let streaming = world.streaming() > 0;
        note("in a stream of writes", streaming);
        note(
            "in a stream of writes beside dirty data",
            streaming && facts.dirty > 0,
        );
    }

    fn collect(&mut self, core: &Core, world: &World) {
        world.add_counters(core, &mut self.counters);
    }
}

/// A run that found something wrong.
pub struct Failure {
    /// What was wrong.
    pub fault: Fault,
    /// The acts that show it again.
    pub script: Script,
}

/// Runs `cuts` cuts from `seed`. With `keep` the failure's script is complete, else empty.
///
/// # Errors
/// What went wrong.
pub fn run(
    core: &Core,
    seed: u64,
    cuts: u64,
    flaw: Option<Flaw>,
    keep: bool,
) -> Result<Coverage, Box<Failure>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut machine = Machine {
        flaw,
        ..any_machine(&mut rng)
    };
    let sectors = machine.geometry.origin_sectors;
    let stream = WriteStream::new(seed, sectors, machine.disk_block);
    machine.stream = stream.threshold();
    let mut script = Script {
        machine,
        choices: Vec::new(),
    };
    let mut world = World::new(core, &machine, Trace::default());
    let mut author = Author::new(rng, &machine, stream);
    let mut coverage = Coverage::default();
    let mut done = 0;
    let mut plan: Vec<Act> = author.new_life();
    plan.reverse();
    loop {
        let act = match plan.pop() {
            Some(act) => act,
            None if done == cuts => break,
            None => author.act(&world),
        };
        let choice = Choice::new(act, &mut author.rng);
        if keep {
            script.choices.push(choice);
        }
        coverage.acts += 1;
        let ends = done < cuts && matches!(act, Act::Cut(_) | Act::Stop(_));
        if ends {
            coverage.cut(&world);
            coverage.collect(core, &world);
            done += 1;
            plan = author.new_life();
            if done == cuts {
                plan = vec![
                    Act::Faults(0, 0, 0),
                    Act::Settle,
                    Act::Stop(author.mode),
                    Act::Drain(author.any_mode()),
                    Act::Settle,
                ];
            }
            plan.reverse();
        }
        if let Err(fault) = choice.apply(&mut world) {
            return Err(Box::new(Failure { fault, script }));
        }
    }
    coverage.collect(core, &world);
    Ok(coverage)
}

/// The seed and the words of the first failure that was found.
pub type Failed = Option<(u64, String)>;

/// Tries at least `cuts` cuts, from the seed `first` on, on this many threads; each thread calls `core`. `flaw`: a bug
/// that must be found. `brief`: a failure is not made shorter. `says`: a failure without these words is passed over,
/// since a bug may break several rules.
///
/// # Errors
/// There is no core.
pub fn run_many(
    core: &(impl Fn() -> Result<Core, LoadError> + Sync),
    first: u64,
    cuts: u64,
    threads: usize,
    flaw: Option<Flaw>,
    brief: bool,
    says: Option<&str>,
) -> Result<(Coverage, Failed), LoadError> {
    let each = cuts.clamp(1, CUTS);
    let next = AtomicU64::new(first);
    let end = first + cuts.div_ceil(each);
    let result = Mutex::new((Coverage::default(), None));
    let worker = || -> Result<(), LoadError> {
        let core = core()?;
        let mut total = Coverage::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            match run(&core, seed, each, flaw, false) {
                Ok(coverage) => total.add(&coverage),
                Err(failure)
                    if says.is_some_and(|says| !failure.fault.to_string().contains(says)) => {}
                Err(failure) => {
                    next.store(end, Ordering::Relaxed);
                    let script = match run(&core, seed, each, flaw, !brief) {
                        Ok(_) => failure.script,
                        Err(again) => again.script,
                    };
                    let mut again = format!(
                        "cargo run -p tandem-sim --release -- crash --seed {seed} --cuts {each}"
                    );
                    if let Some(flaw) = flaw {
                        again += &format!(" --flaw {}", flaw.name());
                    }
                    let words = crate::replay::explain(&core, &failure.fault, script, &again);
                    let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
                    result.1.get_or_insert((seed, words));
                    break;
                }
            }
        }
        let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
        result.0.add(&total);
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect::<Result<Vec<()>, _>>()
    })?;
    Ok(result.into_inner().unwrap_or_else(PoisonError::into_inner))
}

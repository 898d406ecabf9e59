// SPDX-License-Identifier: GPL-3.0-or-later
//! Small cases, tried completely: some requests, submitted one after the other, over two slots. I/O is completed in
//! every order, and a cut falls in every state.
//!
//! The search is depth first. Each state is reached by playing its decisions from the start; a state that was met
//! before is not followed again. What core does between two I/Os is one step, and each I/O moves all its data at once:
//! the random walk covers the orders of events within them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::Luck;
use crate::engine::{Core, Geometry, LoadError, Mode, Region};
use crate::flaw::Flaw;
use crate::trace::Trace;
use crate::workload::{Request, Verb};
use crate::world::{Cut, Fault, Machine, World};

/// What the outside may do in one step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// An application submits a request.
    Ask(Verb, u64, u64),
    /// The cleaner goes on.
    Clean,
    /// Something outside of this world finds that the SSD has failed, though the SSD still answers.
    SsdFails,
    /// First everything that is under way ends.
    Settle,
}

const WRITE: Verb = Verb::Write { fua: false };

/// Three frames compete for two slots; some requests overlap in a part, and one writes parts of quarters.
pub const DEEDS: [Deed; 12] = [
    Deed::Ask(WRITE, 0, 8),
    Deed::Ask(WRITE, 0, 16),
    Deed::Ask(WRITE, 4, 8),
    Deed::Ask(WRITE, 32, 32),
    Deed::Ask(WRITE, 64, 8),
    Deed::Ask(Verb::Write { fua: true }, 0, 8),
    Deed::Ask(Verb::Read, 0, 8),
    Deed::Ask(Verb::Read, 64, 8),
    Deed::Ask(Verb::Discard, 0, 8),
    Deed::Ask(Verb::Flush, 0, 0),
    Deed::Clean,
    Deed::SsdFails,
];

/// Cases with more deeds than can be tried in all combinations. Each begins on a cache with a clean copy of eight
/// sectors, from this sector on.
pub const LONG: [(u64, &[Deed]); 5] = [
    // A write takes over the copy's slot, and waits for a reader of the write's other slot. Then the SSD fails, with
    // data of the write on it.
    (
        96,
        &[
            Deed::Ask(WRITE, 0, 8),
            Deed::Settle,
            Deed::Ask(Verb::Read, 0, 8),
            Deed::Ask(WRITE, 8, 56),
            Deed::SsdFails,
        ],
    ),
    // A write over the copy has to go to the disk after all, and a request reads the copy.
    (
        0,
        &[
            Deed::Ask(WRITE, 0, 8),
            Deed::SsdFails,
            Deed::Ask(Verb::Read, 0, 8),
        ],
    ),
    // Two writes of parts of a quarter that is not on the SSD, in a frame that is.
    (
        0,
        &[
            Deed::Ask(WRITE, 10, 4),
            Deed::Ask(WRITE, 14, 8),
            Deed::Ask(Verb::Flush, 0, 0),
            Deed::Ask(Verb::Read, 8, 8),
        ],
    ),
    // A discard comes while the rest of its quarter is read for a write, and for another one behind it.
    (
        96,
        &[
            Deed::Ask(WRITE, 34, 4),
            Deed::Ask(Verb::Discard, 32, 8),
            Deed::Ask(WRITE, 33, 2),
            Deed::Clean,
        ],
    ),
    // The SSD fails while a write reads both its rests, or stores them.
    (
        96,
        &[
            Deed::Ask(WRITE, 6, 20),
            Deed::Ask(Verb::Write { fua: true }, 4, 2),
            Deed::SsdFails,
            Deed::Ask(Verb::Read, 0, 8),
        ],
    ),
];

/// The disks, and the deeds.
#[derive(Clone, Debug)]
pub struct Case {
    machine: Machine,
    deeds: Vec<Deed>,
}

const MODES: [Mode; 3] = [Mode::WriteBack, Mode::WriteThrough, Mode::WriteAround];

/// What a cut leaves of both volatile caches.
const LUCKS: [Luck; 3] = [Luck::Lose, Luck::Keep, Luck::Blocks(128)];

/// How much was tried.
#[derive(Clone, Copy, Default, Debug)]
pub struct Extent {
    /// Combinations of a mode and deeds.
    pub cases: u64,
    /// Different states, summed over the cases.
    pub states: u64,
    /// Cuts.
    pub cuts: u64,
}

/// A case in which something was wrong.
#[derive(Debug, thiserror::Error)]
#[error("{mode:?} {deeds:?}, decisions {decisions:?}: {fault}")]
pub struct Wrong {
    mode: Mode,
    deeds: Vec<Deed>,
    decisions: Vec<usize>,
    fault: Fault,
}

/// The `number`th case of `length` deeds, if there are that many.
fn short(number: u64, length: u32) -> Option<Case> {
    let mode = *MODES.get((number / (DEEDS.len() as u64).pow(length)) as usize)?;
    let deed = |at| DEEDS[(number / (DEEDS.len() as u64).pow(at)) as usize % DEEDS.len()];
    Some(Case {
        machine: machine(mode, 0),
        deeds: (0..length).map(deed).collect(),
    })
}

/// The `number`th long case. Here one request can cover two neighbouring frames of a run.
fn long(number: usize) -> Option<Case> {
    let (at, deeds) = LONG.get(number)?;
    let copied = [
        Deed::Ask(WRITE, *at, 8),
        Deed::Settle,
        Deed::Ask(Verb::Flush, 0, 0),
        Deed::Settle,
        Deed::Clean,
        Deed::Settle,
    ];
    Some(Case {
        machine: machine(Mode::WriteBack, 1),
        deeds: [&copied[..], deeds].concat(),
    })
}

/// A machine with two slots: either slot takes any frame, or, with runs of two, one takes the even frames and one the
/// odd.
fn machine(mode: Mode, run_shift: u32) -> Machine {
    let region = |start, length| Region { start, length };
    Machine {
        geometry: Geometry {
            origin_sectors: 128,
            ssd_sectors: 232,
            journal: region(0, 128),
            checkpoint: region(128, 32),
            intent: region(160, 8),
            data: region(168, 64),
            block_sectors: 1,
            groups: 1,
            run_shift,
            way_shift: 1 - run_shift,
            ..Geometry::default()
        },
        disk_block: 1,
        mode,
        stream: u32::MAX,
        flaw: None,
    }
}

/// The world after these decisions, how many deeds are left, and how many choices there are: to go on with the next deed,
/// or with one of the I/Os.
fn play(
    core: &Core,
    machine: &Machine,
    deeds: &[Deed],
    decisions: &[usize],
) -> Result<(World, usize, usize), Fault> {
    let mut world = World::new(core, machine, Trace::default());
    world.finish()?;
    let mut done = 0;
    for &decision in decisions {
        let under_way = world.queue.len();
        if decision < under_way {
            world.complete(decision)?;
            continue;
        }
        match deeds[done] {
            Deed::Ask(verb, first, count) => world.submit(Request {
                verb,
                first,
                count,
                restless: false,
            }),
            Deed::Clean => world.clean(true)?,
            Deed::SsdFails => world.ssd_fails()?,
            Deed::Settle => {}
        }
        done += 1;
        world.run_tasks()?;
    }
    let next = match deeds.get(done) {
        Some(Deed::Settle) => world.queue.is_empty(),
        next => next.is_some(),
    };
    let choices = world.queue.len() + usize::from(next);
    Ok((world, deeds.len() - done, choices))
}

/// Tries one case completely.
///
/// # Errors
/// The case is wrong: the first decisions after which that showed.
pub fn explore(
    core: &Core,
    Case { machine, deeds }: &Case,
    flaw: Option<Flaw>,
) -> Result<Extent, Box<Wrong>> {
    let machine = Machine { flaw, ..*machine };
    let mode = machine.mode;
    let mut extent = Extent {
        cases: 1,
        ..Extent::default()
    };
    let mut met = HashSet::new();
    let mut open = vec![Vec::new()];
    while let Some(decisions) = open.pop() {
        let wrong = |fault| {
            Box::new(Wrong {
                mode,
                deeds: deeds.clone(),
                decisions: decisions.clone(),
                fault,
            })
        };
        let again = || play(core, &machine, deeds, &decisions);
        let (mut world, left, choices) = again().map_err(wrong)?;
        let asked = decisions.len();
        if !met.insert((world.digest(), left)) {
            continue;
        }
        for luck in LUCKS {
            let (mut world, ..) = again().map_err(wrong)?;
            world.rng = fastrand::Rng::with_seed(asked as u64);
            world.cut(Cut::Power(luck, luck)).map_err(wrong)?;
            world.finish().map_err(wrong)?;
            extent.cuts += 1;
        }
        if choices == 0 {
            world.settle().map_err(wrong)?;
            world.drain(mode).map_err(wrong)?;
        }
        open.extend((0..choices).map(|choice| [&decisions[..], &[choice]].concat()));
    }
    extent.states = met.len() as u64;
    Ok(extent)
}

/// Something was wrong, or there is no core.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A case.
    #[error("{0}")]
    Wrong(#[from] Box<Wrong>),
    /// There is no core.
    #[error("{0}")]
    Load(#[from] LoadError),
}

/// The long cases, and every `every`th of so many deeds, on so many threads. `core` is called in each. `flaw`: a bug that
/// is to be found.
///
/// # Errors
/// The first case with something wrong.
pub fn explore_all(
    core: &(impl Fn() -> Result<Core, LoadError> + Sync),
    length: u32,
    every: u64,
    threads: usize,
    flaw: Option<Flaw>,
) -> Result<Extent, Error> {
    let next = AtomicU64::new(0);
    let cases = |turn: u64| {
        long(turn as usize).or_else(|| short((turn - LONG.len() as u64) * every, length))
    };
    let worker = || -> Result<Extent, Error> {
        let core = core()?;
        let mut total = Extent::default();
        while let Some(case) = cases(next.fetch_add(1, Ordering::Relaxed)) {
            let extent = explore(&core, &case, flaw)
                .inspect_err(|_| next.store(u64::MAX / 2, Ordering::Relaxed))?;
            total.cases += extent.cases;
            total.states += extent.states;
            total.cuts += extent.cuts;
        }
        Ok(total)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let mut total = Extent::default();
        for thread in threads {
            let extent = thread.join().unwrap_or_else(|_| Ok(Extent::default()))?;
            total.cases += extent.cases;
            total.states += extent.states;
            total.cuts += extent.cuts;
        }
        Ok(total)
    })
}

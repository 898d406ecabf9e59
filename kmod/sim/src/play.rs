// SPDX-License-Identifier: GPL-3.0-or-later
//! A run as a list of acts, so that it can be played again, and made shorter.

use crate::engine::{Core, Mode};
use crate::trace::Trace;
use crate::workload::Request;
use crate::world::{Cut, Fault, Machine, World};

/// What happens to the machine from outside, and the passing of time.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// An application submits a request.
    Submit(Request),
    /// An application changes the buffer of a request that is under way.
    Disturb,
    /// One step of a task that is due, or of an I/O that is under way.
    Step,
    /// A second passes.
    Tick,
    /// The cleaner goes on where it was.
    Clean,
    /// The mode changes.
    Mode(Mode),
    /// The limit of dirty quarters changes.
    Limit(u64),
    /// Frames that have no slot may get one, or not.
    Promotion(bool),
    /// Clean copies of a group are dropped.
    Forget(u32),
    /// Clean copies of all groups are dropped, one group after the other.
    ForgetAll,
    /// Error rates: of 65536 requests to the hard disk, of 65536 to the SSD, of 256 requests for memory.
    Faults(u32, u32, u8),
    /// Of 65536 reads of the SSD, this many fail, until the next start.
    Unreadable(u32),
    /// The SSD is gone for this life.
    SsdDies,
    /// Reluctance, of 256: hard disk, SSD; and how many hardly go on.
    Pace(u8, u8, u8),
    /// A power cut, or the death of the machine; then recovery.
    Cut(Cut),
    /// A clean stop, and a start in this mode.
    Stop(Mode),
    /// Everything ends and is compared.
    Settle,
    /// All dirty data goes to the disk, in this mode.
    Drain(Mode),
}

/// An act and the seed of all that is random in it.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// What.
    pub act: Act,
    /// The seed.
    pub salt: u64,
}

impl Choice {
    /// An act with a seed from `rng`.
    pub fn new(act: Act, rng: &mut fastrand::Rng) -> Choice {
        Choice {
            act,
            salt: rng.u64(..),
        }
    }

    /// Has the world do what was chosen.
    ///
    /// # Errors
    /// Something was wrong with core.
    pub fn apply(self, world: &mut World) -> Result<(), Fault> {
        world.rng = fastrand::Rng::with_seed(self.salt);
        match self.act {
            Act::Submit(request) => world.submit(request),
            Act::Disturb => world.disturb(),
            Act::Step => drop(world.step()?),
            Act::Tick => world.second(),
            Act::Clean => drop(world.clean_near(true, false)?),
            Act::Mode(mode) => world.set_mode(mode),
            Act::Limit(quarters) => world.set_limit(quarters),
            Act::Promotion(on) => world.set_promotion(on),
            Act::Forget(group) => world.forget_group(group),
            Act::ForgetAll => world.forget_all(),
            Act::Faults(disk, ssd, memory) => {
                (world.disk.failing, world.ssd.failing) = (disk, ssd);
                world.memory_shortage = memory;
            }
            Act::Unreadable(share) => world.unreadable = share,
            Act::SsdDies => world.ssd.dead = true,
            Act::Pace(disk, ssd, lazy) => {
                world.queue.disk_reluctance = disk;
                world.queue.ssd_reluctance = ssd;
                world.queue.lazy = lazy;
            }
            Act::Cut(cut) => {
                world.ssd.dead = false;
                world.unreadable = 0;
                world.cut(cut)?;
            }
            Act::Stop(mode) => {
                world.stop(mode)?;
                world.ssd.dead = false;
            }
            Act::Settle => world.settle()?,
            Act::Drain(mode) => world.drain(mode)?,
        }
        Ok(())
    }
}

/// A run that can be played again.
#[derive(Clone)]
pub struct Script {
    /// The disks.
    pub machine: Machine,
    /// What happens.
    pub choices: Vec<Choice>,
}

impl Script {
    /// Plays it until something is wrong; keeps a trace of the sectors `place`.
    pub fn play(&self, core: &Core, place: Option<(u64, u64)>) -> Option<(usize, Fault, World)> {
        let trace = place.map_or_else(Trace::default, |(first, end)| Trace::of(first, end));
        let mut world = World::new(core, &self.machine, trace);
        for (at, choice) in self.choices.iter().enumerate() {
            if let Err(fault) = choice.apply(&mut world) {
                return Some((at, fault, world));
            }
        }
        None
    }

    /// Leaves out what is not needed for something like `fault` to go wrong, for so long.
    pub fn shrink(&mut self, core: &Core, fault: &Fault, patience: std::time::Duration) {
        let wanted = kind(fault);
        let deadline = std::time::Instant::now() + patience;
        let mut piece = self.choices.len().next_power_of_two() / 2;
        while piece > 0 {
            let mut at = 0;
            let mut progress = false;
            while at < self.choices.len() {
                if std::time::Instant::now() > deadline {
                    return;
                }
                let mut shorter = self.clone();
                let end = (at + piece).min(self.choices.len());
                shorter.choices.drain(at..end);
                match shorter.play(core, None) {
                    Some((last, fault, _)) if kind(&fault) == wanted => {
                        shorter.choices.truncate(last + 1);
                        *self = shorter;
                        progress = true;
                    }
                    _ => at += piece,
                }
            }
            if !progress || piece > 1 {
                piece /= 2;
            }
        }
    }
}

/// The words of a fault without its numbers.
fn kind(fault: &Fault) -> String {
    let text = fault.to_string();
    let words = text
        .split(' ')
        .filter(|word| word.chars().all(char::is_alphabetic));
    words.take(6).collect()
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Lets a caller choose each step, and gives equal states the same number.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Fault, Task, World};
use crate::oracle::Time;
use crate::queue::Turn;

/// Tasks that may run one after the other before an I/O has to go on. A task that repeats itself is then left for
/// later.
const TASKS: usize = 64;

impl World {
    /// Runs the tasks that are due, in the order in which they became due; no I/O is completed meanwhile.
    ///
    /// # Errors
    /// Core did something that it must not do.
    pub fn run_tasks(&mut self) -> Result<(), Fault> {
        for _ in 0..TASKS {
            if self.tasks.is_empty() {
                break;
            }
            let (task, _) = self.tasks.remove(0);
            self.run(task)?;
        }
        Ok(())
    }

    /// Completes the `at`th I/O under way, as a whole.
    ///
    /// # Errors
    /// Core did something that it must not do.
    pub fn complete(&mut self, at: usize) -> Result<(), Fault> {
        let turns = self.queue.complete(at);
        self.take_turns(turns)
    }

    /// Ends the `at`th I/O under way with an error, after its first `moved` sectors.
    ///
    /// # Errors
    /// Core did something that it must not do.
    pub fn fail(&mut self, at: usize, moved: u64) -> Result<(), Fault> {
        let turns = self.queue.fail(at, moved);
        self.take_turns(turns)
    }

    fn take_turns(&mut self, turns: Vec<Turn>) -> Result<(), Fault> {
        for turn in turns {
            self.tick();
            self.take_turn(turn)?;
        }
        self.run_tasks()
    }

    /// A number for the state: what core, the disks, the requests and the model know. Of times only the order counts.
    pub fn digest(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        self.engine.digest().hash(&mut hash);
        let mut times: Vec<Time> = self.ops.values().map(|op| op.start).collect();
        times.extend(self.oracle.times());
        times.extend(self.disk.times().chain(self.ssd.times()));
        times.extend(self.queue.starts());
        times.sort_unstable();
        times.dedup();
        let rank: HashMap<Time, usize> = times.into_iter().zip(0..).collect();
        let rank = |time: Time| rank.get(&time).copied().unwrap_or(usize::MAX);
        let rank = &rank;
        let name = |stamp| self.bytes.digest(stamp);
        self.oracle.digest(rank, &mut hash);
        self.disk.digest(name, rank, &mut hash);
        self.ssd.digest(name, rank, &mut hash);
        self.queue.digest(rank, &mut hash);
        (self.guard.disk_written > self.guard.disk_flushed).hash(&mut hash);
        let mut ops: Vec<_> = self.ops.iter().collect();
        ops.sort_unstable_by_key(|(id, _)| **id);
        for (id, op) in ops {
            (id, op.left, op.failed, rank(op.start)).hash(&mut hash);
            op.buffer.map(|at| self.memory.get(at)).hash(&mut hash);
        }
        let mut subs: Vec<_> = self.subs.values().collect();
        subs.sort_unstable_by_key(|sub| (sub.op, sub.first));
        for sub in subs {
            let state = (sub.op, sub.first, sub.count, sub.hit, sub.ssd_left);
            (
                state,
                sub.done,
                sub.answered,
                sub.request.is_some(),
                sub.joined.len(),
                sub.rests,
                sub.merged,
            )
                .hash(&mut hash);
            sub.private
                .map(|(at, _)| self.memory.get(at))
                .hash(&mut hash);
        }
        for (task, _) in &self.tasks {
            if let Task::Map { op, first, count } = task {
                (op, first, count).hash(&mut hash);
            }
        }
        hash.finish()
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! How long each hold of the engine's lock lasts. All runs make the same calls in the same order, so the shortest time of a
//! call in all runs is free of what the machine did beside. Of two clocks the smaller time counts: that of the thread leaves out
//! other programs' turns, the other one costs less to read.

use std::fmt::Write;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// One hold.
struct Hold {
    phase: &'static str,
    call: &'static str,
    ns: u32,
}

/// Nanoseconds that this thread has run.
fn thread_ns() -> u128 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u128 * 1_000_000_000 + time.tv_nsec as u128
}

/// The holds of all runs.
#[derive(Default)]
pub struct Holds {
    holds: Vec<Hold>,
    next: usize,
    first_run_ended: bool,
    phase: &'static str,
}

impl Holds {
    /// What follows belongs to `phase`.
    pub fn phase(&mut self, phase: &'static str) {
        self.phase = phase;
    }

    /// Makes calls that the module makes under one hold of the lock.
    pub fn time<T>(&mut self, call: &'static str, calls: impl FnOnce() -> T) -> T {
        self.named(|| (calls(), call))
    }

    /// As [`Holds::time`]; what the calls were is known when they were made.
    pub fn named<T>(&mut self, calls: impl FnOnce() -> (T, &'static str)) -> T {
        let (of_thread, start) = (thread_ns(), Instant::now());
        let (result, call) = calls();
        let ns = start.elapsed().as_nanos().min(thread_ns() - of_thread);
        let ns = u32::try_from(ns).unwrap_or(u32::MAX);
        let phase = self.phase;
        if self.first_run_ended {
            let hold = &mut self.holds[self.next];
            assert_eq!((hold.phase, hold.call), (phase, call), "runs differ");
            hold.ns = hold.ns.min(ns);
        } else {
            self.holds.push(Hold { phase, call, ns });
        }
        self.next += 1;
        result
    }

    /// The next run begins.
    pub fn again(&mut self) {
        self.first_run_ended |= !self.holds.is_empty();
        self.next = 0;
    }

    /// A line for each kind of call in each phase.
    pub fn table(&self) -> String {
        let mut rows: Vec<(&Hold, u32, u32, u64)> = Vec::new();
        for hold in &self.holds {
            let same = |row: &&mut (&Hold, u32, u32, u64)| {
                (row.0.phase, row.0.call) == (hold.phase, hold.call)
            };
            match rows.iter_mut().rev().find(same) {
                Some((_, times, longest, sum)) => {
                    *times += 1;
                    *longest = hold.ns.max(*longest);
                    *sum += u64::from(hold.ns);
                }
                None => rows.push((hold, 1, hold.ns, u64::from(hold.ns))),
            }
        }
        let mut text = String::from(
            "| phase | calls under one hold | times | longest, us | sum, ms |\n|---|---|--:|--:|--:|\n",
        );
        for (hold, times, longest, sum) in rows {
            let _ = writeln!(
                text,
                "| {} | {} | {times} | {:.1} | {:.1} |",
                hold.phase,
                hold.call,
                f64::from(longest) / 1e3,
                sum as f64 / 1e6
            );
        }
        text
    }
}

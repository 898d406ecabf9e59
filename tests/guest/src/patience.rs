// SPDX-License-Identifier: GPL-3.0-or-later
//! The limits of waits for a guest, in the guest's own time: the load of this computer makes no wait end too early.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// Longest time between two looks at a guest. A longer time counts as this one: this process, or the whole computer, has
/// stood still meanwhile.
pub const LOOK: Duration = Duration::from_secs(2);

/// Time that a guest has for something. The time in which QEMU's threads wait for a processor, because other programs have
/// it, does not count.
pub struct Patience {
    /// QEMU's process.
    guest: u32,
    left: Duration,
    seen: Instant,
    /// How long each of QEMU's threads has waited for a processor so far.
    waited: HashMap<String, Duration>,
}

impl Patience {
    /// The wait begins now.
    pub fn new(guest: u32, limit: Duration) -> Self {
        Self {
            guest,
            left: limit,
            seen: Instant::now(),
            waited: waited(guest),
        }
    }

    /// Whether the guest has had its time; to be called at least once in [`LOOK`].
    pub fn is_over(&mut self) -> bool {
        let (now, waited) = (Instant::now(), waited(self.guest));
        let lost = waited.iter().map(|(thread, time)| {
            let before = self.waited.get(thread).copied().unwrap_or_default();
            time.saturating_sub(before)
        });
        // A thread that waits may be the one that all others wait for.
        let spent = spent(now - self.seen, lost.max().unwrap_or_default());
        self.left = self.left.saturating_sub(spent);
        (self.seen, self.waited) = (now, waited);
        self.left.is_zero()
    }
}

/// How much of the time between two looks the guest has had.
fn spent(passed: Duration, lost: Duration) -> Duration {
    passed.saturating_sub(lost).min(LOOK)
}

/// How long each thread of a process has waited for a processor (`Documentation/scheduler/sched-stats.rst` of Linux).
fn waited(process: u32) -> HashMap<String, Duration> {
    let mut all = HashMap::new();
    for task in fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        // Nanoseconds on a processor, and nanoseconds in a processor's queue.
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let queued = text.split_whitespace().nth(1).and_then(|n| n.parse().ok());
        if let Some(queued) = queued {
            let thread = task.file_name().to_string_lossy().into_owned();
            all.insert(thread, Duration::from_nanos(queued));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_guest_spends_no_time_in_the_queue_of_a_processor() {
        assert_eq!(spent(SECOND, Duration::ZERO), SECOND);
        assert_eq!(spent(SECOND, SECOND * 3 / 4), SECOND / 4);
        assert_eq!(spent(SECOND, SECOND * 2), Duration::ZERO);
    }

    #[test]
    fn a_computer_that_stood_still_takes_no_time_from_its_guest() {
        assert_eq!(spent(SECOND * 3600, Duration::ZERO), LOOK);
    }

    #[test]
    fn a_process_that_is_idle_spends_its_time() {
        let start = Instant::now();
        let mut patience = Patience::new(std::process::id(), SECOND / 10);
        while !patience.is_over() {
            assert!(start.elapsed() < SECOND * 600, "its time does not pass");
            std::thread::sleep(SECOND / 100);
        }
        assert!(start.elapsed() >= SECOND / 10);
    }
}

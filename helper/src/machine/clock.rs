// SPDX-License-Identifier: GPL-3.0-or-later
//! The clocks of the machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds of `CLOCK_BOOTTIME`.
pub fn boottime_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000
        + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000
}

/// Microseconds of Unix time; 0 if the clock of the machine is set before its beginning.
pub fn unix_us() -> u64 {
    u64::try_from(unix_time().as_micros()).unwrap_or(0)
}

/// Seconds of Unix time; see [`unix_us`].
pub fn unix_seconds() -> u64 {
    unix_time().as_secs()
}

fn unix_time() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

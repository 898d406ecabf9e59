// SPDX-License-Identifier: GPL-3.0-or-later
//! The kernel's figures of a process.

use std::fs;
use std::time::Duration;

use crate::Result;

/// Clock ticks a second in `/proc`, on all machines that Linux runs on.
const TICKS: u64 = 100;

/// Processor time of all threads of a process so far.
pub fn processor_time(process: u32) -> Result<Duration> {
    let line = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name of the program may have spaces and ends with the last bracket; user and system time follow as numbers 14
    // and 15 of the line.
    let (_, rest) = line.rsplit_once(')').ok_or("a line of another form")?;
    let mut ticks = 0;
    for number in rest.split_whitespace().skip(11).take(2) {
        ticks += number.parse::<u64>()?;
    }
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}

/// Memory of a process in KiB: its own, and its part of what it shares with others (PSS).
pub fn memory_kib(process: u32) -> Result<u64> {
    let all = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let number = all
        .lines()
        .find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB"));
    Ok(number.ok_or("the kernel counts no PSS")?.parse()?)
}

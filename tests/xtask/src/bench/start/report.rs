// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes the times to `tests/bench/START.md`.

use std::fmt::Write;

use anyhow::{Context, Result};

use super::{Cache, DISK_IOPS, Machine};
use tandem_guest::vm::Parts;
use tandem_harness::run;

/// Longest time beside the machine without Tandem: this many times as long, or so many seconds more, whichever is more.
const FACTOR: f64 = 1.1;
const MORE: f64 = 1.0;

/// The middle, the least and the greatest of some times.
struct Spread {
    median: f64,
    least: f64,
    greatest: f64,
}

impl Spread {
    fn of(times: &[f64]) -> Result<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().context("nothing was measured");
        Ok(Self {
            median: f64::midpoint(at((sorted.len() - 1) / 2)?, at(sorted.len() / 2)?),
            least: at(0)?,
            greatest: at(sorted.len() - 1)?,
        })
    }
}

/// The whole file.
pub fn text(parts: &Parts, commit: &str, runs: usize, all: &[Machine]) -> Result<String> {
    let today = run::output(&mut run::cmd("date", ["+%Y-%m-%d"]))?;
    let mut text = format!(
        "# Times of start and shutdown\n\n\
         `cargo xtask bench start` writes this file. Last on {}: Debian 12, kernel {}, module of commit {commit}.\n\
         QEMU emulates the machine (TCG) and counts one nanosecond for each instruction of its one processor\n\
         (`-icount shift=0`); while the processor waits, the clock goes as that of the computer below. The hard disk takes\n\
         {DISK_IOPS} requests a second; fstab mounts it at each start. No desktop starts.\n\n\
         A start is the time from the kernel's first moment to multi-user.target. A shutdown is the time from the order to\n\
         the kernel's last message. Both are in seconds of the guest's own clock, the median of {runs} with the least and\n\
         the greatest. The machines took turns. Limit: {FACTOR} of the time without Tandem or {MORE} s more, whichever is more.\n",
        today.trim(),
        parts.kernel.release,
    );
    for (title, times) in [
        ("Start", (|m| &m.starts) as fn(&Machine) -> &Vec<f64>),
        ("Shutdown", |m| &m.stops),
    ] {
        table(&mut text, title, all, times)?;
    }
    text.push_str("\n## Within a start\n\n| machine | tandem-assemble | mount of the disk | MiB on the SSD only |\n|---|---:|---:|---:|\n");
    for machine in all {
        let assembled = Spread::of(&machine.assembled)?.median;
        let mounted = Spread::of(&machine.mounted)?.median;
        let dirty: Vec<_> = machine.dirty.iter().map(|n| *n as f64 / 2048.0).collect();
        let dirty = Spread::of(&dirty)?.median;
        writeln!(
            text,
            "| {} | {assembled:.2} | {mounted:.2} | {dirty:.1} |",
            machine.cache.about()
        )?;
    }
    Ok(text)
}

fn table(
    text: &mut String,
    title: &str,
    all: &[Machine],
    times: fn(&Machine) -> &Vec<f64>,
) -> Result<()> {
    let plain = all.iter().find(|machine| machine.cache == Cache::None);
    let plain = Spread::of(times(plain.context("nothing to compare with")?))?.median;
    write!(
        text,
        "\n## {title}\n\n| machine | s | of all | ratio | difference | limit |\n|---|---:|---|---:|---:|---|\n"
    )?;
    for machine in all {
        let Spread {
            median,
            least,
            greatest,
        } = Spread::of(times(machine))?;
        let limit = (plain * FACTOR).max(plain + MORE);
        let verdict = match machine.cache {
            Cache::None => "",
            _ if median <= limit => "met",
            _ => "**missed**",
        };
        writeln!(
            text,
            "| {} | {median:.2} | {least:.2} to {greatest:.2} | {:.2} | {:+.2} s | {verdict} |",
            machine.cache.about(),
            median / plain,
            median - plain,
        )?;
    }
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! What `tests/bench/RESULTS.md` says of the figures.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};

use super::Figures;
use crate::cx::Cx;
use crate::run;

/// Read hits may cost this many instructions more than dm-linear.
const HIT_AIM: u64 = 200;
/// Warm reads come at least this fast, in percent of the bare SSD's.
const WARM_AIM: u64 = 97;
/// A synced write takes at most this long, in percent of the plain disk's.
const SYNC_AIM: u64 = 105;

impl Figures {
    fn get(&self, figure: &str) -> Result<u64> {
        let number = self.numbers.get(figure).copied();
        number.with_context(|| format!("{} has no {figure}", self.name))
    }
}

fn find<'a>(all: &'a [Figures], name: &str) -> Result<&'a Figures> {
    let mut all = all.iter();
    all.find(|figures| figures.name == name)
        .with_context(|| format!("{name} was not measured"))
}

/// The whole file.
pub fn text(cx: &Cx, release: &str, cost: &[Figures], time: &[Figures]) -> Result<String> {
    let commit = run::output(
        run::cmd("git", ["log", "-1", "--format=%h", "--", "kmod"]).current_dir(&cx.root),
    )?;
    let commit = commit.trim();
    ensure!(!commit.is_empty(), "kmod has no commit");
    let mut text = format!(
        "# Figures beside other caches\n\n\
         `cargo xtask bench` writes this file. QEMU counts one nanosecond of virtual time for each instruction\n\
         (`-icount shift=0`, one processor), so that the figures repeat exactly, but for bcache, whose threads run\n\
         beside. Kernel {release}, module of commit {commit}.\n\n"
    );
    costs(&mut text, cost)?;
    times(&mut text, time)?;
    Ok(text)
}

fn costs(text: &mut String, all: &[Figures]) -> Result<()> {
    text.push_str(
        "## Cost of a request, in instructions\n\n\
         Disk and SSD are RAM disks of the guest, so that only the software's work is counted, and of large requests\n\
         the copying. One O_DIRECT request at a time, in random order, on blocks that are all on the SSD. Of 4 KiB: 2000\n\
         requests, with the 10th, 50th and 90th of a hundred; else the 50th.\n\n\
         | device | | read hit p10 | p50 | p90 | above dm-linear | write |\n\
         |---|---|---:|---:|---:|---:|---:|\n",
    );
    let linear = find(all, "dm-linear")?.get("read-4-p50")?;
    for device in all {
        let middle = device.get("read-4-p50")?;
        writeln!(
            text,
            "| {} | {} | {} | {middle} | {} | {:+} | {} |",
            device.name,
            device.about,
            device.get("read-4-p10")?,
            device.get("read-4-p90")?,
            i128::from(middle) - i128::from(linear),
            device.get("write-4")?
        )?;
    }
    let above = find(all, "tandem")?
        .get("read-4-p50")?
        .saturating_sub(linear);
    writeln!(
        text,
        "\nAim for a read hit: at most {HIT_AIM} instructions above dm-linear; {} with {above}.\n",
        verdict(above <= HIT_AIM)
    )?;
    text.push_str(
        "| read hit of | 4 KiB | 16 KiB | 64 KiB | 256 KiB | 1 MiB |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for device in all {
        write!(text, "| {} |", device.name)?;
        for figure in ["read-4-p50", "read-16", "read-64", "read-256", "read-1024"] {
            write!(text, " {} |", device.get(figure)?)?;
        }
        text.push('\n');
    }
    Ok(())
}

fn times(text: &mut String, all: &[Figures]) -> Result<()> {
    text.push_str(
        "\n## Time on a disk that seeks\n\n\
         Disk and SSD are models over RAM disks (`tests/bench/model`): a disk of 7200 rpm with 8 ms for a random seek, a\n\
         queue of 32 and a volatile cache of 8 MiB; an SSD with 0.1 ms for a read, 80000 of them a second, 500 MB/s and a\n\
         volatile cache. Warm reads: 4 KiB each, of 1024 blocks all over the disk. Copy: a file of 32 MiB that was never\n\
         read, in requests of 128 KiB, then the same again a minute later. Synced write: 4 KiB anywhere, and a\n\
         flush. Random writes: 8192 of 4 KiB anywhere, without a flush, 32 at a time.\n\n\
         | device | | warm reads/s | at depth 32 | copy MB/s | second time | synced write us | writes/s at depth 32 |\n\
         |---|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for device in all {
        write!(text, "| {} | {} |", device.name, device.about)?;
        for figure in [
            "reads-1",
            "reads-32",
            "copy-first",
            "copy-second",
            "synced-write-us",
            "writes-32",
        ] {
            write!(text, " {} |", device.get(figure)?)?;
        }
        text.push('\n');
    }
    let (disk, ssd, tandem) = (find(all, "disk")?, find(all, "ssd")?, find(all, "tandem")?);
    text.push('\n');
    for (depth, figure) in [(1, "reads-1"), (32, "reads-32")] {
        let share = tandem.get(figure)? * 100 / ssd.get(figure)?.max(1);
        writeln!(
            text,
            "Aim for warm reads at depth {depth}: at least {WARM_AIM} % of the bare SSD's; {} with {share} %.\n",
            verdict(share >= WARM_AIM)
        )?;
    }
    let share = tandem.get("synced-write-us")? * 100 / disk.get("synced-write-us")?.max(1);
    writeln!(
        text,
        "Aim for a synced write in write-through: at most {SYNC_AIM} % of the plain disk's time; {} with {share} %.",
        verdict(share <= SYNC_AIM)
    )?;
    Ok(())
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

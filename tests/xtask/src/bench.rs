// SPDX-License-Identifier: GPL-3.0-or-later
//! Exact cost of requests, in guest instructions: QEMU counts one nanosecond of virtual time for each.
//!
//! Everything lies in the guest's memory and nothing in the guest depends on the host's clock, so that a figure
//! repeats to the nanosecond and a change of ten instructions shows.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::cx::{Cx, say};
use crate::qemu::Qemu;
use crate::{fetch, kernels, run, suite};

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Measure only these devices and write no file; may be given several times.
    #[arg(long, value_name = "DEVICE")]
    only: Vec<String>,
}

/// What is measured, and what it is.
const DEVICES: &[(&str, &str)] = &[
    ("brd", "RAM disk itself"),
    ("dm-linear", "device-mapper without any work"),
    ("tandem", "writethrough"),
    ("dm-writecache", "blocks of 4096 bytes"),
    ("dm-cache", "smq, writethrough, blocks of 32 KiB"),
    ("bcache", "writethrough, buckets of 64 KiB"),
];

const MODULES: &[&str] = &[
    "brd:rd_nr=3:rd_size=65536",
    "dm-mod",
    "dm-writecache",
    "dm-cache",
    "dm-cache-smq",
    "bcache",
];

/// A guest without KVM that counts its instructions.
const LIMIT: Duration = Duration::from_secs(900);

/// Read hits may cost this many instructions more than dm-linear.
const AIM: u64 = 200;

/// Figures of one device in instructions: 10th, 50th and 90th percentile.
struct Figures {
    name: &'static str,
    about: &'static str,
    read: [u64; 3],
    write: [u64; 3],
}

/// Runs the measurements and writes `tests/bench/RESULTS.md`.
pub fn command(cx: &Cx, args: &Args) -> Result<()> {
    if let Some(name) = args
        .only
        .iter()
        .find(|name| DEVICES.iter().all(|(known, _)| known != name))
    {
        bail!("there is no device {name}");
    }
    let log = cx.target.join("bench.log");
    let _ = fs::remove_file(&log);
    let target = kernels::target(cx, "6.12", &log)?;
    let tools = fetch::unpacked(cx, "bcache-tools", &[fetch::own(cx, "bcache-tools")?])?;
    let make_bcache = tools.join("usr/sbin/make-bcache");
    let (initramfs, modules) =
        kernels::initramfs(cx, &target, MODULES, &[(&make_bcache, "/make-bcache")])?;
    let qemu = Qemu::get(cx)?;
    let mut all = Vec::new();
    for (name, about) in DEVICES {
        if !args.only.is_empty() && !args.only.iter().any(|only| only == name) {
            continue;
        }
        let mut guest = qemu.command();
        guest.args([
            "-accel",
            "tcg,thread=single",
            "-machine",
            "q35",
            "-cpu",
            "max",
            "-smp",
            "1",
            "-m",
            "1024",
        ]);
        guest.args([
            "-icount",
            "shift=0,sleep=off",
            "-rtc",
            "base=2025-01-01,clock=vm",
            "-seed",
            "42",
        ]);
        let words = format!(
            "{modules} SUITE_BENCH={name} tsc=reliable clocksource=tsc random.trust_cpu=on mitigations=off"
        );
        kernels::boot(&mut guest, &target.kernel, &initramfs, &words);
        let mut figures = None;
        suite::follow(&mut guest, LIMIT, &log, |line| {
            if let Some(text) = line.strip_prefix(&format!("bench: {name} ")) {
                figures = parse(text);
            }
        })?;
        let (read, write) =
            figures.with_context(|| format!("{name} gave no figures; see {}", log.display()))?;
        say(format!(
            "{name:<14} read {:>6} write {:>6} instructions",
            read[1], write[1]
        ));
        all.push(Figures {
            name,
            about,
            read,
            write,
        });
    }
    if args.only.is_empty() {
        let path = cx.path("tests/bench/RESULTS.md");
        fs::write(&path, report(cx, &target.kernel.release, &all)?)?;
        say(format!("written to {}", path.display()));
    }
    Ok(())
}

/// `read 1 2 3 write 4 5 6`
fn parse(text: &str) -> Option<([u64; 3], [u64; 3])> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ["read", read @ .., "write", w1, w2, w3] = words.as_slice() else {
        return None;
    };
    let number = |word: &&str| word.parse::<u64>().ok();
    let read: Vec<u64> = read.iter().map(number).collect::<Option<_>>()?;
    Some((
        read.try_into().ok()?,
        [number(w1)?, number(w2)?, number(w3)?],
    ))
}

fn report(cx: &Cx, release: &str, all: &[Figures]) -> Result<String> {
    let commit = run::output(
        run::cmd("git", ["log", "-1", "--format=%h", "--", "kmod"]).current_dir(&cx.root),
    )?;
    let linear = all
        .iter()
        .find(|figures| figures.name == "dm-linear")
        .context("dm-linear was not measured")?;
    ensure!(!commit.trim().is_empty(), "kmod has no commit");
    let mut text = format!(
        "# Cost of a request, in instructions\n\n\
         `cargo xtask bench` writes this file. One 4096-byte O_DIRECT request at a time, 2000 requests on 512 blocks in\n\
         random order, all of them on the SSD; disk and SSD are RAM disks of the guest, so that only the software's\n\
         work is counted. QEMU counts instructions (`-icount shift=0`), one processor, kernel {release}, module of\n\
         commit {}. The figures repeat exactly, but for bcache, whose threads\n\
         run beside; p10 and p90 show what depends on the place of a block.\n\n\
         | device | | read hit p10 | p50 | p90 | above dm-linear | write p50 |\n\
         |---|---|---:|---:|---:|---:|---:|\n",
        commit.trim()
    );
    for Figures {
        name,
        about,
        read: [low, middle, high],
        write,
    } in all
    {
        let above = i128::from(*middle) - i128::from(linear.read[1]);
        writeln!(
            text,
            "| {name} | {about} | {low} | {middle} | {high} | {above:+} | {} |",
            write[1]
        )?;
    }
    let tandem = all
        .iter()
        .find(|figures| figures.name == "tandem")
        .context("tandem was not measured")?;
    let above = tandem.read[1].saturating_sub(linear.read[1]);
    let verdict = if above <= AIM { "met" } else { "missed" };
    writeln!(
        text,
        "\nAim for a read hit: at most {AIM} instructions above dm-linear; {verdict} with {above}."
    )?;
    Ok(text)
}

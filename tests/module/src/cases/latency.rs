// SPDX-License-Identifier: GPL-3.0-or-later
//! The histograms of how long requests take, held against disks that take a known time by a clock that is exact.

use std::collections::BTreeMap;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::Entry;
use crate::io;
use crate::rig::{Config, Rig};

/// By the guest's own clock: which requests are measured, and in which histogram each is counted.
pub const CASES: &[Entry] = &[(
    "latency: one request in 64 is measured, and counted where it was served",
    counted,
)];

/// By a clock that is exact.
pub const TIMED: &[Entry] = &[(
    "time: what is measured of requests is the time that they take",
    measured,
)];

/// The cache has room for all of them.
const FRAMES: u64 = 256;
const SAMPLES: u64 = FRAMES / 64;
/// Of 12 ms and of 0.3 ms, in microseconds.
const DISK: &str = "disk_us_16384";
const SSD: &str = "ssd_us_512";

/// Both histograms: what is in their buckets.
fn histograms(rig: &Rig) -> Result<BTreeMap<String, u64>> {
    let counters = rig.status()?.counters.into_iter();
    Ok(counters
        .filter(|(name, _)| name.starts_with("ssd_us_") || name.starts_with("disk_us_"))
        .collect())
}

/// By how much the buckets grow while `act` makes as many requests as there are frames.
fn added(rig: &Rig, act: impl Fn(u64) -> Result<()>) -> Result<BTreeMap<String, u64>> {
    let before = histograms(rig)?;
    (0..FRAMES).try_for_each(act)?;
    let mut after = histograms(rig)?;
    ensure!(after.len() == 36, "{} buckets", after.len());
    for (name, value) in &mut after {
        *value -= before[name];
    }
    Ok(after)
}

/// Each kind of request in turn, with what is to be true of the samples; `true`: they were at the disk.
fn each_kind(rig: &Rig, wanted: impl Fn(bool, &BTreeMap<String, u64>) -> Result<()>) -> Result<()> {
    let file = io::direct(&rig.path()?)?;
    // Not in order, so that it is no stream.
    let at = |number: u64| number * 7 % FRAMES * 16384;
    let read = |number| io::read(&file, at(number), 16384).map(drop);
    let write = |number| io::write(&file, at(number), &[7; 16384]);
    // The flushes in between are not measured.
    let sync = |number: u64| -> Result<()> {
        write(number)?;
        if number.is_multiple_of(32) {
            file.sync_data()?;
        }
        Ok(())
    };
    let check = |what, at_disk, samples: Result<BTreeMap<String, u64>>| {
        samples
            .and_then(|samples| wanted(at_disk, &samples))
            .context(what)
    };
    check("misses", true, added(rig, read))?;
    check("hits", false, added(rig, read))?;
    check("writes to both", true, added(rig, write))?;
    rig.mapped()?.message("mode writearound")?;
    check("writes past the cache", true, added(rig, write))?;
    check("misses after them", true, added(rig, read))?;
    rig.mapped()?.message("mode writeback")?;
    check("writes to the SSD", false, added(rig, sync))?;
    check("the same in place", false, added(rig, sync))
}

/// On one processor: each counts its own requests up to 64.
fn counted() -> Result<()> {
    thread::scope(|scope| {
        let alone = scope.spawn(|| {
            let mut first = CpuSet::new();
            first.set(0);
            sched_setaffinity(None, &first)?;
            counted_here()
        });
        alone.join().map_err(|_| anyhow!("the case panicked"))?
    })
}

fn counted_here() -> Result<()> {
    let (rig, _) = Rig::new(Config::default())?;
    each_kind(&rig, |at_disk, samples| {
        let of = |path: &str| -> u64 {
            let samples = samples.iter();
            samples
                .filter(|(name, _)| name.starts_with(path))
                .map(|(_, value)| value)
                .sum()
        };
        let (ssd, disk) = (of("ssd_us_"), of("disk_us_"));
        let wanted = if at_disk { (0, SAMPLES) } else { (SAMPLES, 0) };
        ensure!(
            (ssd, disk) == wanted,
            "{ssd} requests were counted with the SSD and {disk} with the disk, not {wanted:?}"
        );
        Ok(())
    })
}

fn measured() -> Result<()> {
    let mut config = Config::default();
    config.origin.delay_ns = 12_000_000;
    config.ssd.delay_ns = 300_000;
    // The SSD is so large that less than an eighth is dirty: the cleaner does nothing, and leaves the SSD to the
    // measured requests.
    config.ssd.mib *= 2;
    let (rig, _) = Rig::new(config)?;
    each_kind(&rig, |at_disk, samples| {
        // One request may wait behind the record that is written to the SSD once a second.
        let (bucket, behind) = if at_disk { (DISK, 0) } else { (SSD, 1) };
        ensure!(
            samples[bucket] + behind >= SAMPLES && samples.values().sum::<u64>() == SAMPLES,
            "not all {SAMPLES} samples are of {bucket}: {samples:?}"
        );
        Ok(())
    })
}

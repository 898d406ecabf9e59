// SPDX-License-Identifier: GPL-3.0-or-later
//! Devices that fail while something is dirty, or lost while nothing is (promises 18 to 20).

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use fastrand::Rng;

use super::Entry;
use super::failures::{break_ssd, broken, config, mend_ssd};
use super::time::{self, ms};
use super::writeback::write_quarters;
use crate::dm::{Dm, Line};
use crate::faults::Starved;
use crate::io::{self, MIB};
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[
    // promise 18: uml-plain/failures: SSD gone with dirty data, and is back
    ("failures: SSD gone with dirty data, and is back", stranded),
    // promise 18: uml-plain/failures: SSD gone with dirty data under load
    (
        "failures: SSD gone with dirty data under load",
        stranded_under_load,
    ),
    // promise 18: uml-plain/failures: a bad block with dirty data on the SSD
    (
        "failures: a bad block with dirty data on the SSD",
        bad_block,
    ),
    // promise 18: uml-plain/failures: SSD gone under a read and a write of the same copy
    (
        "failures: SSD gone under a read and a write of the same copy",
        gone_under_both,
    ),
    // promise 20: uml-plain/failures: the disk fails with dirty data, and is back
    (
        "failures: the disk fails with dirty data, and is back",
        disk_gone,
    ),
    // promise 19: uml-plain/failures: SSD lost, the disk written, the SSD back
    (
        "failures: SSD lost, the disk written, the SSD back",
        lost_and_back,
    ),
];

pub const TIMED: &[Entry] = &[
    // promise 20: uml-time/time: a disk that fails is tried every two seconds
    (
        "time: a disk that fails is tried every two seconds",
        retries,
    ),
    // promise 20: uml-time/time: a disk that fails only flushes is tried every two seconds
    (
        "time: a disk that fails only flushes is tried every two seconds",
        flushes_again,
    ),
];

fn is_stranded(rig: &Rig) -> Result<()> {
    let status = rig.status()?;
    ensure!(
        status.state == "stranded" && status.reason == "ssd-error-dirty" && status.dirty > 0,
        "{status:?}"
    );
    ensure!(status.get("ssd_errors")? > 0, "no SSD error was counted");
    Ok(())
}

/// Loads the same table again, as one does when the SSD is back.
pub fn reload(rig: &Rig) -> Result<()> {
    rig.mapped()?.load(rig.good_line(false))?;
    rig.mapped()?.suspend()?;
    rig.mapped()?.resume()
}

fn stranded() -> Result<()> {
    let (mut rig, mut model) = Rig::new(config("writeback").keeping())?;
    let event = rig.mapped()?.event()?;
    let disk = model.clone();
    write_quarters(&rig, &mut model, 150, 1)?;
    let file = io::direct(&rig.path()?)?;
    // The dirty quarter is written in place: on this shortest path an error has to be counted too.
    io::write(&file, 0, &model[..4096])?;
    file.sync_all()?;
    break_ssd(&rig)?;
    // From now on the cache itself has to keep writes from the disk.
    rig.keep(false)?;
    ensure!(
        io::write(&file, 0, &[1; 4096]).is_err(),
        "a write that went nowhere was acknowledged"
    );
    is_stranded(&rig)?;
    rig.mapped()?.event_after(event)?;
    // Reads of what the disk has succeed. Reads of what only the SSD has fail; they never return the disk's old data.
    let mut lost = 0;
    for start in (0..10 * MIB).step_by(4096) {
        match io::read(&file, start as u64, 4096) {
            Ok(read) => ensure!(
                read[..] == model[start..start + 4096],
                "old data at {start}"
            ),
            Err(_) => lost += 8,
        }
    }
    let dirty = rig.status()?.dirty;
    ensure!(lost == dirty, "{lost} sectors failed, {dirty} are dirty");
    for start in [0, 9 * MIB as u64, 30 * MIB as u64] {
        ensure!(
            io::write(&file, start, &[1; 4096]).is_err(),
            "a write at {start} was acknowledged"
        );
    }
    ensure!(file.sync_all().is_err(), "a flush was acknowledged");
    ensure!(
        rig.origin.content()? == disk,
        "the disk was written while stranded"
    );
    drop(file);
    // Suspend and resume end, and nothing is better after them.
    rig.mapped()?.suspend()?;
    rig.mapped()?.resume()?;
    is_stranded(&rig)?;
    rig.keep(true)?;
    mend_ssd(&rig)?;
    reload(&rig)?;
    let status = rig.status()?;
    ensure!(
        status.state == "active" && status.dirty == dirty,
        "{status:?}"
    );
    rig.shows(&model)?;
    write_quarters(&rig, &mut model, 20, 2)?;
    let file = io::direct(&rig.path()?)?;
    file.sync_all()?;
    break_ssd(&rig)?;
    rig.keep(false)?;
    ensure!(io::write(&file, 0, &[1; 4096]).is_err(), "acknowledged");
    drop(file);
    // The cache is removed while it is stranded; the next start finds its data.
    rig.detach()?;
    mend_ssd(&rig)?;
    rig.attach(false)?;
    rig.equals(&model)
}

fn stranded_under_load() -> Result<()> {
    let (mut rig, mut model) = Rig::new(config("writeback"))?;
    write_quarters(&rig, &mut model, 50, 1)?;
    io::direct(&rig.path()?)?.sync_all()?;
    let threads: Vec<_> = (0..4_u64)
        .map(|seed| {
            let path = rig.path();
            thread::spawn(move || -> Result<()> {
                let file = io::direct(&path?)?;
                let mut rng = Rng::with_seed(seed);
                // Away from the checked data.
                let base = (16 + seed * 4) * MIB as u64;
                let start = Instant::now();
                // Until the SSD is gone, however fast the machine is.
                while start.elapsed() < Duration::from_secs(30) {
                    let at = base + rng.u64(0..512) * 4096;
                    let done = match rng.u8(0..10) {
                        0 => file.sync_all().map_err(Into::into),
                        1 => io::zero(&file, at, 8192),
                        2..5 => io::read(&file, at, 8192).map(drop),
                        _ => io::write(&file, at, &[1; 8192]),
                    };
                    if done.is_err() && rng.u8(0..50) == 0 {
                        break;
                    }
                }
                Ok(())
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(500));
    break_ssd(&rig)?;
    for thread in threads {
        thread
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    is_stranded(&rig)?;
    rig.quiet()?;
    rig.detach()?;
    mend_ssd(&rig)?;
    rig.attach(false)?;
    let shown = io::whole(&rig.path()?)?;
    ensure!(
        io::difference(&shown[..16 * MIB], &model[..16 * MIB]).is_none(),
        "flushed data is lost"
    );
    rig.equals(&shown)
}

fn bad_block() -> Result<()> {
    let (rig, mut model) = Rig::new(config("writeback").keeping())?;
    let file = io::direct(&rig.path()?)?;
    let quarters = write_quarters(&rig, &mut model, 100, 1)?;
    file.sync_all()?;
    let below = rig.test_ssd()?;
    for sector in 4096..rig.ssd.sectors() {
        if sector % 64 == 0 {
            below.message(&format!("bad {sector}"))?;
        }
    }
    let mut bad = Vec::new();
    for start in (0..8 * MIB).step_by(4096) {
        match io::read(&file, start as u64, 4096) {
            Ok(read) => ensure!(
                read[..] == model[start..start + 4096],
                "old data at {start}"
            ),
            Err(_) => bad.push(start),
        }
    }
    let status = rig.status()?;
    ensure!(!bad.is_empty(), "no block was bad: {status:?}");
    let unread = bad.len() as u64;
    ensure!(
        status.state == "active" && unread < quarters && status.dirty == quarters * 8,
        "{unread} of {quarters} blocks bad, {status:?}"
    );
    // A drain leaves the bad blocks. It takes the rest, except what shares a frame with a bad block.
    let frames = |starts: &[usize]| starts.iter().map(|at| at / 16384).collect::<BTreeSet<_>>();
    let most = frames(&bad).len() as u64 * 32;
    rig.keep(false)?;
    rig.mapped()?.message("flush start")?;
    let status = rig.until("written back", |status| status.dirty <= most)?;
    ensure!(
        status.dirty >= bad.len() as u64 * 8,
        "a block that cannot be read became clean"
    );
    // A discard drops what it covers, so it need not be read.
    ensure!(bad.len() > 4, "only {} blocks were bad", bad.len());
    let start = bad.remove(1);
    io::discard(&file, start as u64, 4096)
        .with_context(|| format!("a discard of the bad block at {start}"))?;
    let shown = io::read(&file, start as u64, 4096)?;
    ensure!(
        shown[..] != model[start..start + 4096],
        "a discard of a block that cannot be read changed nothing"
    );
    model[start..start + 4096].copy_from_slice(&shown);
    // During the flush, a write without memory for a copy is done in place, unless the cleaner is just trying that
    // block.
    if let Some(&start) = bad.last()
        && Path::new("/sys/kernel/debug/fail_page_alloc").exists()
    {
        model[start..start + 4096].fill(6);
        let starved = Starved::of_pages("100")?;
        let write = || io::write(&file, start as u64, &model[start..start + 4096]);
        let written = write().or_else(|_| write()).or_else(|_| write());
        drop(starved);
        written.with_context(|| format!("overwriting the bad block at {start} in place"))?;
        ensure!(
            io::read(&file, start as u64, 4096)?[..] == model[start..start + 4096],
            "not healed in place"
        );
    }
    // A large write heals what it covers, together with neighbours that are not dirty.
    let around = bad[0] & !65535;
    model[around..around + 65536].fill(8);
    io::write(&file, around as u64, &model[around..around + 65536])
        .with_context(|| format!("overwriting what is around the bad block at {around}"))?;
    ensure!(
        io::read(&file, around as u64, 65536)?[..] == model[around..around + 65536],
        "not healed with its neighbours"
    );
    // The first of the other blocks is healed during the flush, the rest after it.
    bad.retain(|start| start & !65535 != around);
    ensure!(bad.len() > 1, "only one block was bad");
    for (number, start) in bad.into_iter().enumerate() {
        if number == 1 {
            rig.mapped()?.message("flush stop")?;
        }
        model[start..start + 4096].fill(7);
        io::write(&file, start as u64, &model[start..start + 4096])
            .with_context(|| format!("overwriting the bad block at {start}"))?;
        ensure!(
            io::read(&file, start as u64, 4096)?[..] == model[start..start + 4096],
            "not healed"
        );
    }
    drop(file);
    rig.equals(&model)
}

/// The disk has what the read began with, and gets what is written.
fn gone_under_both() -> Result<()> {
    let (rig, mut model) = Rig::new(config("writeback"))?;
    let file = io::direct(&rig.path()?)?;
    model[..16384].fill(1);
    io::write(&file, 0, &model[..16384])?;
    rig.drain()?;
    file.sync_all()?;
    rig.quiet()?;
    ensure!(rig.status()?.dirty == 0, "{:?}", rig.status()?);
    // What is on its way when the SSD goes is answered later, the read first.
    let linear = Under::Linear.line(&rig.ssd);
    let lower = Dm::with(&format!("{}-lower", rig.name), linear)?;
    let path = lower.path().display().to_string();
    let below = rig.ssd_target()?;
    below.swap(Line::new(rig.ssd.sectors(), "linear", format!("{path} 0")))?;
    let silent = below.suspended()?;
    let old = model[..4096].to_vec();
    let new = vec![2; 4096];
    model[..4096].copy_from_slice(&new);
    let hits = rig.status()?.get("read_hit")?;
    let reader = {
        let file = io::direct(&rig.path()?)?;
        thread::spawn(move || io::read(&file, 0, 4096))
    };
    rig.until("reading", |status| {
        status.get("read_hit").is_ok_and(|n| n > hits)
    })?;
    let writer = {
        let (file, new) = (io::direct(&rig.path()?)?, new.clone());
        thread::spawn(move || io::write(&file, 0, &new))
    };
    rig.until("writing", |status| status.dirty == 8)?;
    lower.swap(broken(&rig.ssd))?;
    drop(silent);
    let read = reader.join().map_err(|_| anyhow!("a thread panicked"))??;
    let written = writer.join().map_err(|_| anyhow!("a thread panicked"))?;
    ensure!(
        read[..] == old || read[..] == new,
        "read what nobody wrote there"
    );
    written.context("the disk could have taken it")?;
    ensure!(rig.status()?.state == "bypass", "{:?}", rig.status()?);
    rig.shows(&model)?;
    drop((file, rig));
    lower.remove()
}

/// Whether the plain disk lacks what was written at `start`.
fn rig_is_dirty(rig: &Rig, model: &[u8], start: usize) -> bool {
    io::direct(rig.origin.path())
        .and_then(|file| io::read(&file, start as u64, 4096))
        .is_ok_and(|plain| plain[..] != model[start..start + 4096])
}

fn disk_gone() -> Result<()> {
    let (mut rig, mut model) = Rig::new(config("writeback"))?;
    write_quarters(&rig, &mut model, 100, 1)?;
    let below = rig.origin_target()?;
    below.swap(broken(&rig.origin))?;
    // Writes are still taken, hits are served; what needs the disk fails.
    write_quarters(&rig, &mut model, 100, 2)?;
    {
        let file = io::direct(&rig.path()?)?;
        ensure!(
            io::read(&file, 20 * MIB as u64, 4096).is_err(),
            "read from a dead disk"
        );
    }
    rig.mapped()?.message("flush start")?;
    let status = rig.until("failing", |status| {
        status.get("disk_errors").is_ok_and(|n| n > 0)
    })?;
    ensure!(status.dirty > 0 && status.state == "flushing", "{status:?}");
    // A write to the disk that has to wait for what is dirty there fails as the disk does.
    {
        let start = (0..8 * MIB)
            .step_by(4096)
            .find(|start| rig_is_dirty(&rig, &model, *start))
            .context("nothing is dirty")?;
        let file = io::direct(&rig.path()?)?;
        rig.mapped()?.message("mode writethrough")?;
        ensure!(
            io::write(&file, start as u64, &[1; 4096]).is_err(),
            "a write to a dead disk was acknowledged"
        );
    }
    rig.mapped()?.suspend()?;
    rig.mapped()?.resume()?;
    rig.detach().context("removed while the disk fails")?;
    let below = rig.origin_target()?;
    below.swap(Under::Linear.line(&rig.origin))?;
    rig.attach(false)?;
    rig.equals(&model)
}

/// Promise 19, within one boot: what the SSD has when it is back is older than the disk.
fn lost_and_back() -> Result<()> {
    for again in ["reload", "create"] {
        // With the places of a file system untouched, and no sample, nothing but the note of the loss tells.
        let (mut rig, mut model) = Rig::formatted(config("writethrough"))?;
        let file = io::direct(&rig.path()?)?;
        io::read(&file, 0, 8 * MIB)?;
        rig.quiet()?;
        file.sync_all()?;
        break_ssd(&rig)?;
        let at = 6 * MIB + 12288;
        model[at] ^= 1;
        io::write(&file, at as u64, &model[at..at + 4096])?;
        drop(file);
        ensure!(rig.status()?.state == "bypass", "{:?}", rig.status()?);
        mend_ssd(&rig)?;
        if again == "reload" {
            reload(&rig)?;
        } else {
            rig.detach()?;
            rig.attach(false)?;
        }
        ensure!(
            rig.status()?.used == 0 && rig.status()?.state == "active",
            "{again}: {:?}",
            rig.status()?
        );
        rig.equals(&model).context(again)?;
        // The start has made up for the loss: the next one is warm.
        rig.quiet()?;
        let used = rig.status()?.used;
        rig.detach()?;
        rig.attach(false)?;
        ensure!(rig.status()?.used == used, "{:?}", rig.status()?);
        rig.equals(&model).context(again)?;
    }
    Ok(())
}

fn retries() -> Result<()> {
    let (rig, mut model) = Rig::new(Config {
        origin_under: Some(Under::Linear),
        ..time::config(1)
    })?;
    write_quarters(&rig, &mut model, 50, 1)?;
    let below = rig.origin_target()?;
    below.swap(broken(&rig.origin))?;
    tried_now_and_then(&rig)?;
    below.swap(Under::Linear.line(&rig.origin))?;
    clean_again(&rig)?;
    rig.equals(&model)
}

/// The disk takes each write, but cannot make its own cache durable.
fn flushes_again() -> Result<()> {
    let mut config = time::config(1);
    config.origin.failing = true;
    let (rig, mut model) = Rig::new(config)?;
    write_quarters(&rig, &mut model, 50, 1)?;
    rig.origin.fail_requests("flushes")?;
    tried_now_and_then(&rig)?;
    rig.origin.fail_requests("nothing")?;
    clean_again(&rig)?;
    rig.equals(&model)
}

/// A drain begins on a disk that fails.
fn tried_now_and_then(rig: &Rig) -> Result<()> {
    rig.mapped()?.message("flush start")?;
    // At first by large jobs, then frame by frame.
    thread::sleep(ms(5000));
    let before = rig.status()?.get("disk_errors")?;
    thread::sleep(ms(20_000));
    let errors = rig.status()?.get("disk_errors")? - before;
    ensure!(
        (5..=200).contains(&errors),
        "{errors} tries in 20 s of a failing disk"
    );
    ensure!(rig.status()?.dirty > 0, "{:?}", rig.status()?);
    Ok(())
}

/// The drain ends on the disk that is well again.
fn clean_again(rig: &Rig) -> Result<()> {
    thread::sleep(ms(15_000));
    ensure!(
        rig.status()?.dirty == 0,
        "not written back when the disk was well: {:?}",
        rig.status()?
    );
    Ok(())
}

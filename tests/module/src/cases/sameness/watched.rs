// SPDX-License-Identifier: GPL-3.0-or-later
//! Places that each use of a file system changes: what the SSD notes of them proves the disk unchanged (promises 13, 21).

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;

use super::{CHANGED, UNPROVEN, WARM, config, dirty, fill, is_cold, is_warm, with_test_disk};
use crate::dm::is_errno;
use crate::io::{self, MIB};
use crate::rig::{Rig, format};

/// After a cut in write-back what is dirty stays, and all that is clean.
pub(super) fn known_is_warm() -> Result<()> {
    for mode in ["writethrough", "writearound", "writeback"] {
        let (rig, mut model) = Rig::formatted(config(mode).cuttable())?;
        ensure!(rig.status()?.get("sure")? == 1, "{:?}", rig.status()?);
        let used = fill(&rig, 8)?;
        if mode == "writeback" {
            dirty(&rig, &mut model, 20 * MIB)?;
        }
        io::direct(&rig.path()?)?.sync_all()?;
        let used = if mode == "writeback" { used + 1 } else { used };
        let mut cut = rig.cut()?;
        cut.attach(false)?;
        is_warm(&cut.status()?, used).with_context(|| mode.to_owned())?;
        cut.equals(&model)?;
        // Once more, after reads alone.
        let used = cut.quiet()?.used;
        io::direct(&cut.path()?)?.sync_all()?;
        let mut again = cut.cut()?;
        again.attach(false)?;
        is_warm(&again.status()?, used).with_context(|| mode.to_owned())?;
        again.equals(&model)?;
    }
    Ok(())
}

/// A byte of a superblock, as each mount changes it; its quarter is not in the cache.
pub(super) fn known_is_changed() -> Result<()> {
    for mode in ["writethrough", "writearound", "writeback"] {
        let (rig, mut model) = Rig::formatted(config(mode).cuttable())?;
        let file = io::direct(&rig.path()?)?;
        io::read(&file, 6 * MIB as u64, MIB)?;
        rig.quiet()?;
        if mode == "writeback" {
            dirty(&rig, &mut model, 20 * MIB)?;
        }
        file.sync_all()?;
        let mut cut = rig.cut()?;
        model[1024 + 52] ^= 1;
        model[7 * MIB] ^= 1;
        cut.origin.put(0, &model[..4096])?;
        cut.origin.put(7 * MIB as u64, &model[7 * MIB..][..4096])?;
        let started = cut.attach(false);
        if mode == "writeback" {
            let error = started.err().context("a changed disk was taken")?;
            ensure!(is_errno(&error, Errno::STALE), "{error:#}");
            continue;
        }
        started?;
        is_cold(&cut.status()?, CHANGED)?;
        cut.equals(&model)?;
    }
    Ok(())
}

/// The checksums of before and after are on the SSD in front of each write to the place.
pub(super) fn watched_is_written() -> Result<()> {
    // Each of the rounds below differs in three ways from the next; they repeat after 12.
    let rounds = if crate::whole() { 24 } else { 12 };
    for mode in ["writethrough", "writearound", "writeback"] {
        let (rig, mut model) = Rig::formatted(config(mode).cuttable())?;
        fill(&rig, 8)?;
        let plain = io::direct(&rig.path()?)?;
        let durable = io::durable(&rig.path()?)?;
        for round in 0..rounds {
            let file = if round % 3 == 0 { &durable } else { &plain };
            let at = if round % 2 == 0 { 0 } else { 1024 };
            let length = if round % 2 == 0 { 4096 } else { 512 };
            // What names the file system stays as it is.
            let new = io::random(4096, round);
            model[1024 + 48..1024 + 52].copy_from_slice(&new[..4]);
            if length == 4096 {
                model[2048..4096].copy_from_slice(&new[2048..]);
            }
            io::write(file, at as u64, &model[at..at + length])?;
            if round % 4 == 3 {
                plain.sync_all()?;
            }
            let mut cut = rig.cut()?;
            cut.attach(false)
                .with_context(|| format!("{mode}, {round}"))?;
            let status = cut.status()?;
            ensure!(
                status.get("cold_start")? == WARM && status.used > 400,
                "{mode}, {round}: {status:?}"
            );
        }
        let notes = rig.status()?.get("notes")?;
        ensure!(
            if mode == "writeback" {
                notes < 30
            } else {
                notes >= rounds
            },
            "{mode}: {notes} notes"
        );
    }
    Ok(())
}

/// The first write is not flushed, so the second one wants a flush before it.
pub(super) fn flushes_fail() -> Result<()> {
    let (rig, mut model) = Rig::formatted(with_test_disk("writethrough"))?;
    let file = io::direct(&rig.path()?)?;
    model[2048] ^= 1;
    io::write(&file, 0, &model[..4096])?;
    rig.origin.fail_requests("all")?;
    let (answer, answered) = mpsc::channel();
    let again = file.try_clone()?;
    let block = model[..4096].to_vec();
    let writer = thread::spawn(move || answer.send(io::write(&again, 0, &block)));
    let end = answered.recv_timeout(Duration::from_secs(20));
    rig.origin.fail_requests("nothing")?;
    let joined = writer.join();
    ensure!(joined.is_ok(), "the writer ended with a panic");
    ensure!(
        end.context("the write is not answered")?.is_err(),
        "a write went well on a disk that fails"
    );
    model[2049] ^= 1;
    io::write(&file, 0, &model[..4096])?;
    rig.until("the place is known again", |s| {
        s.get("sure").is_ok_and(|sure| sure == 1)
    })?;
    drop(file);
    rig.equals(&model)
}

/// The other note is older: what the newer one announced is on the disk.
pub(super) fn note_unreadable() -> Result<()> {
    for sector in [8, 1032] {
        let (rig, mut model) = Rig::formatted(config("writeback").cuttable())?;
        fill(&rig, 8)?;
        let durable = io::durable(&rig.path()?)?;
        rig.mapped()?.message("mode writethrough")?;
        for round in 0..4 {
            model[2048] = round;
            io::write(&durable, 0, &model[..4096])?;
        }
        rig.mapped()?.message("mode writeback")?;
        dirty(&rig, &mut model, 20 * MIB)?;
        let mut cut = rig.cut()?;
        cut.ssd.test()?.message(&format!("bad {sector}"))?;
        cut.attach(false)?;
        is_cold(&cut.status()?, UNPROVEN)?;
        cut.equals(&model)?;
    }
    Ok(())
}

/// The superblock is left where no use of the partitions changes it.
pub(super) fn partitioned() -> Result<()> {
    let (rig, mut model) = Rig::formatted(config("writethrough").cuttable())?;
    let file = io::direct(&rig.path()?)?;
    model[..512].fill(0);
    model[446 + 4] = 0x83;
    model[446 + 9] = 8;
    model[446 + 13] = 64;
    model[510..512].copy_from_slice(&[0x55, 0xaa]);
    io::write(&file, 0, &model[..512])?;
    rig.until("the superblock means nothing any more", |s| {
        s.get("sure").is_ok_and(|sure| sure == 0)
    })?;
    fill(&rig, 8)?;
    file.sync_all()?;
    let mut cut = rig.cut()?;
    cut.attach(false)?;
    is_cold(&cut.status()?, UNPROVEN)?;
    cut.equals(&model)
}

/// Where the log of the file system below begins, and how far apart its watched places are.
const LOG: usize = 8 * MIB;
const STRIDE: usize = MIB / 4;

/// Stride `step` of the log, as round `cycle` wrote it.
fn stride(content: &mut [u8], step: usize, cycle: u32) -> &[u8] {
    let at = LOG + step * STRIDE;
    content[at..at + 4].copy_from_slice(&cycle.to_be_bytes());
    content[at + 4] ^= 1;
    &content[at..at + 4096]
}

/// The cache takes this content for an XFS. Its log has sixteen strides, ten of them of the round before the last.
pub(super) fn xfs(content: &mut [u8]) {
    let sb = &mut content[..4096];
    sb[..4].copy_from_slice(b"XFSB");
    sb[4..8].copy_from_slice(&4096_u32.to_be_bytes());
    sb[48..56].copy_from_slice(&2048_u64.to_be_bytes());
    sb[84..88].copy_from_slice(&10240_u32.to_be_bytes());
    sb[96..100].copy_from_slice(&1024_u32.to_be_bytes());
    sb[124] = 14;
    sb[510..512].fill(0);
    sb[1024 + 56..][..2].fill(0);
    for step in 0..16 {
        stride(content, step, if step < 10 { 8 } else { 7 });
    }
}

/// XFS writes strides 10 to 15 and 0 to 2. The cleaner begins with 0 to 2. Another system goes on behind 2.
pub(super) fn log_written_back() -> Result<()> {
    let sure = |rig: &Rig| {
        rig.until("the head of the log is known", |s| {
            s.get("sure").is_ok_and(|sure| sure == 1)
        })
    };
    let (rig, mut model) = Rig::holding(config("writeback").cuttable(), xfs)?;
    sure(&rig)?;
    let file = io::direct(&rig.path()?)?;
    io::read(&file, 20 * MIB as u64, MIB)?;
    for step in (10..16).chain(0..3) {
        let cycle = if step < 10 { 9 } else { 8 };
        let at = (LOG + step * STRIDE) as u64;
        io::write(&file, at, stride(&mut model, step, cycle))?;
    }
    file.sync_all()?;
    rig.mapped()?.message("flush start")?;
    rig.wait_clean()?;
    sure(&rig)?;
    file.sync_all()?;
    let mut cut = rig.cut()?;
    cut.attach(false)?;
    is_warm(&cut.status()?, cut.status()?.used)?;
    cut.equals(&model)?;
    drop(cut);
    let mut cut = rig.cut()?;
    for step in [3, 4] {
        let at = (LOG + step * STRIDE) as u64;
        cut.origin.put(at, stride(&mut model, step, 8))?;
    }
    cut.attach(false)?;
    is_cold(&cut.status()?, CHANGED)?;
    cut.equals(&model)
}

/// The cache does not know the content inside. An untouched disk starts cold after a cut, and keeps what is dirty;
/// after a stop it is warm.
pub(super) fn inside_luks() -> Result<()> {
    for (version, inner) in [(1_u8, 8 * MIB), (2, 16 * MIB + 65536)] {
        let header = |content: &mut [u8]| {
            content[..8].copy_from_slice(b"LUKS\xba\xbe\0\0");
            content[7] = version;
            content[104..108].copy_from_slice(&16384_u32.to_be_bytes());
            content[510..512].fill(0);
        };
        let (rig, mut model) = Rig::holding(config("writeback").cuttable(), header)?;
        fill(&rig, 4)?;
        dirty(&rig, &mut model, 20 * MIB)?;
        let mut untouched = rig.cut()?;
        untouched.attach(false)?;
        is_cold(&untouched.status()?, UNPROVEN)?;
        untouched.equals(&model)?;
        let used = untouched.quiet()?.used;
        untouched.detach()?;
        untouched.attach(false)?;
        is_warm(&untouched.status()?, used)?;
        untouched.detach()?;
        let mut cut = rig.cut()?;
        model[inner] ^= 1;
        for changed in [&mut untouched, &mut cut] {
            changed.origin.put(inner as u64, &model[inner..][..4096])?;
        }
        let error = cut
            .attach(false)
            .err()
            .context("a changed disk was taken")?;
        ensure!(is_errno(&error, Errno::STALE), "{version}: {error:#}");
        untouched.attach(false)?;
        is_cold(&untouched.status()?, CHANGED)?;
        untouched.equals(&model)?;
    }
    Ok(())
}

/// The places of a new file system are learned within seconds. Until then a cut means a cold start.
pub(super) fn made_anew() -> Result<()> {
    let (rig, mut model) = Rig::formatted(config("writethrough").cuttable())?;
    let file = io::direct(&rig.path()?)?;
    io::discard(&file, 0, 4096)
        .or_else(|_| io::zero(&file, 0, 4096))
        .context("neither a discard nor a zero-out is possible")?;
    ensure!(rig.status()?.get("sure")? == 0, "{:?}", rig.status()?);
    fill(&rig, 8)?;
    file.sync_all()?;
    let mut cut = rig.cut()?;
    cut.attach(false)?;
    is_cold(&cut.status()?, UNPROVEN)?;
    drop(cut);
    format(&mut model);
    model[1024 + 104..][..16].fill(7);
    io::write(&file, 0, &model[..4096])?;
    let status = rig.until("the new file system is known", |s| {
        s.get("sure").is_ok_and(|sure| sure == 1)
    })?;
    file.sync_all()?;
    let mut cut = rig.cut()?;
    cut.attach(false)?;
    is_warm(&cut.status()?, status.used)?;
    cut.equals(&model)
}

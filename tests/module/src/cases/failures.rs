// SPDX-License-Identifier: GPL-3.0-or-later
//! Devices that fail (promises 17 and, for reads and writes of the disk, 20).

use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use super::life::Load;
use crate::disk::{Disk, counter};
use crate::dm::Line;
use crate::io::{self, MIB};
use crate::model::{Mix, drive};
use crate::rig::{Config, Rig, Status, Under};

pub const CASES: &[Entry] = &[
    // promise 17: uml-plain/failures: SSD gone, write-through
    ("failures: SSD gone, write-through", || {
        ssd_gone("writethrough")
    }),
    // promise 17: uml-plain/failures: SSD gone, write-around
    ("failures: SSD gone, write-around", || {
        ssd_gone("writearound")
    }),
    (
        "failures: SSD gone while nothing is asked of it but one hit",
        || ssd_gone_on_hit(true),
    ),
    // promise 17: uml-plain/failures: SSD without a volatile cache gone while nothing is asked of it but one hit
    (
        "failures: SSD without a volatile cache gone while nothing is asked of it but one hit",
        || ssd_gone_on_hit(false),
    ),
    ("failures: SSD that fails writes only", || {
        ssd_partly("writes")
    }),
    ("failures: SSD that fails reads only", || {
        ssd_partly("reads")
    }),
    // promise 17: uml-plain/failures: bad blocks all over the SSD
    ("failures: bad blocks all over the SSD", bad_blocks),
    // promise 17: uml-plain/failures: one unreadable block of the SSD costs one slot
    (
        "failures: one unreadable block of the SSD costs one slot",
        unreadable_block,
    ),
    // promise 17: uml-plain/failures: the list of retired slots cannot be written just then
    (
        "failures: the list of retired slots cannot be written just then",
        unwritable_list,
    ),
    // promise 19: uml-plain/failures: once bypass was seen, the generation stays
    (
        "failures: once bypass was seen, the generation stays",
        || generation_stays(false),
    ),
    // promise 19: uml-plain/failures: once bypass was seen, the generation stays, also over a resume
    (
        "failures: once bypass was seen, the generation stays, also over a resume",
        || generation_stays(true),
    ),
    ("failures: disk fails, and is back", disk_fails),
    (
        "failures: SSD gone, then suspend, reload, remove",
        gone_then_removed,
    ),
    (
        "failures: SSD gone while the device is suspended",
        gone_while_suspended,
    ),
];

/// Bytes.
const FRAME: usize = 16384;

pub fn config(mode: &'static str) -> Config {
    let mut config = Config {
        mode,
        origin_under: Some(Under::Linear),
        ssd_under: Some(Under::Linear),
        ..Config::default()
    };
    config.origin.delay_ns = 50_000;
    config.ssd.delay_ns = 30_000;
    config
}

/// A target that fails everything, flushes too, which the target called error lets pass.
pub fn broken(disk: &Disk) -> Line {
    Line::new(
        disk.sectors(),
        "flakey",
        format!("{} 0 0 100000", disk.path().display()),
    )
}

pub fn break_ssd(rig: &Rig) -> Result<()> {
    rig.ssd_target()?.swap(broken(&rig.ssd))
}

/// Puts the SSD back below a cache that lost it.
pub fn mend_ssd(rig: &Rig) -> Result<()> {
    rig.ssd_target()?.swap(Under::Linear.line(&rig.ssd))
}

fn is_bypass(status: &Status) -> Result<()> {
    ensure!(
        status.state == "bypass" && status.reason == "ssd-error",
        "state {} {}",
        status.state,
        status.reason
    );
    ensure!(status.get("ssd_errors")? > 0, "no SSD error was counted");
    Ok(())
}

fn ssd_gone(mode: &'static str) -> Result<()> {
    let (rig, model) = Rig::new(config(mode))?;
    let event = rig.mapped()?.event()?;
    let load = Load::start(&rig.path()?, &model, 4);
    rig.until("in use", |status| status.used > 100)?;
    break_ssd(&rig)?;
    rig.until("in bypass", |status| status.state == "bypass")?;
    // The load goes on past the SSD.
    thread::sleep(Duration::from_millis(500));
    let mut model = load.finish()?;
    is_bypass(&rig.quiet()?)?;
    rig.mapped()?.event_after(event)?;
    let file = io::direct(&rig.path()?)?;
    drive(
        &file,
        &mut model,
        &mut Rng::with_seed(1),
        Mix::new(8 * MIB),
        300,
    )?;
    file.sync_all().context("flush")?;
    drop(file);
    is_bypass(&rig.quiet()?)?;
    rig.equals(&model)
}

fn ssd_gone_on_hit(volatile: bool) -> Result<()> {
    let mut config = config("writethrough");
    config.ssd.volatile = volatile;
    let (rig, model) = Rig::new(config)?;
    let file = io::direct(&rig.path()?)?;
    io::read(&file, 0, MIB)?;
    rig.quiet()?;
    let disk = rig.origin.stat()?;
    io::read(&file, 0, MIB)?;
    ensure!(
        (rig.origin.stat()? - disk).read == 0,
        "not cached, so the case would show nothing"
    );
    break_ssd(&rig)?;
    ensure!(
        io::read(&file, 65536, MIB / 2)?[..] == model[65536..65536 + MIB / 2],
        "wrong data"
    );
    drop(file);
    rig.until("the loss is known", |status| status.state == "bypass")?;
    is_bypass(&rig.quiet()?)?;
    rig.equals(&model)
}

fn ssd_partly(requests: &str) -> Result<()> {
    let (rig, mut model) = Rig::new(config("writethrough"))?;
    let file = io::direct(&rig.path()?)?;
    drive(
        &file,
        &mut model,
        &mut Rng::with_seed(2),
        Mix {
            longest: 64,
            ..Mix::new(8 * MIB)
        },
        400,
    )?;
    let below = rig.test_ssd()?;
    below.message(&format!("fail {requests}"))?;
    drive(
        &file,
        &mut model,
        &mut Rng::with_seed(3),
        Mix {
            longest: 64,
            ..Mix::new(8 * MIB)
        },
        400,
    )?;
    file.sync_all().context("flush")?;
    drop(file);
    is_bypass(&rig.quiet()?)?;
    rig.equals(&model)
}

/// Reads of these sectors of the SSD fail from now on.
fn spoil(rig: &Rig, sectors: impl Iterator<Item = u64>) -> Result<()> {
    let below = rig.test_ssd()?;
    for sector in sectors {
        below.message(&format!("bad {sector}"))?;
    }
    Ok(())
}

/// The sectors of the SSD where the two superblocks begin.
const SUPERBLOCKS: [u64; 2] = [0, 1024];

/// Where on the SSD the copy of the disk's first frame is.
pub fn find_copy(rig: &Rig, model: &[u8]) -> Result<usize> {
    let content = rig.ssd.content()?;
    let same = |at: &usize| content[*at..at + FRAME] == model[..FRAME];
    let places = (0..content.len() - FRAME).step_by(4096);
    places.into_iter().find(same).context("nothing is cached")
}

/// Something else is dirty, which the SSD alone has.
fn unwritable_list() -> Result<()> {
    let (mut rig, mut model) = Rig::new(config("writeback").keeping())?;
    let file = io::direct(&rig.path()?)?;
    io::read(&file, 0, FRAME)?;
    rig.quiet()?;
    let bad = find_copy(&rig, &model)?;
    let data = io::random(FRAME, 1);
    io::write(&file, MIB as u64, &data)?;
    model[MIB..MIB + FRAME].copy_from_slice(&data);
    file.sync_all()?;
    spoil(&rig, std::iter::once((bad / io::SECTOR) as u64))?;
    let below = rig.ssd_target()?;
    below.message(&format!("stuck {}", SUPERBLOCKS[0]))?;
    ensure!(
        io::read(&file, 0, FRAME)?[..] == model[..FRAME],
        "wrong data"
    );
    // The failed read, and the failed write of the list.
    let until = Instant::now() + Duration::from_secs(20);
    while counter(&below.status()?, "failed")? < 2 {
        ensure!(Instant::now() < until, "the list is not written");
        thread::sleep(Duration::from_millis(5));
    }
    let status = rig.quiet()?;
    ensure!(
        status.state == "active" && status.get("retired")? == 1 && status.dirty > 0,
        "a list that cannot be written makes it {status:?}"
    );
    io::write(&file, 2 * MIB as u64, &data).context("a write while the list is not written")?;
    model[2 * MIB..2 * MIB + FRAME].copy_from_slice(&data);
    drop(file);
    below.message("fail nothing")?;
    rig.detach()?;
    rig.attach(false)?;
    let status = rig.status()?;
    ensure!(
        status.state == "active" && status.get("retired")? == 1,
        "the list was never written: {status:?}"
    );
    rig.equals(&model)
}

/// Promise 19. A record of the loss names the generation that status gave with "bypass". If the SSD gets a higher one
/// after that, the record does not concern it any more, and the SSD counts again.
///
/// In the first variant a slot is retired just before the loss. In the second a superblock is old, and could not be
/// written so far.
fn generation_stays(resumed: bool) -> Result<()> {
    let (mut rig, model) = Rig::new(config("writethrough"))?;
    let file = io::direct(&rig.path()?)?;
    io::read(&file, 0, FRAME)?;
    rig.quiet()?;
    let bad = find_copy(&rig, &model)?;
    drop(file);
    if resumed {
        rig.detach()?;
        rig.ssd
            .put(SUPERBLOCKS[1] * io::SECTOR as u64, &[0; 4096])?;
    }
    let below = rig.test_ssd()?;
    if resumed {
        below.message(&format!("stuck {}", SUPERBLOCKS[1]))?;
        rig.attach(false)?;
    }
    let below = rig.ssd_target()?;
    let file = io::direct(&rig.path()?)?;
    if !resumed {
        below.message(&format!("bad {}", bad / io::SECTOR))?;
        io::read(&file, 0, FRAME)?;
        ensure!(rig.status()?.get("retired")? == 1, "no slot is retired");
    }
    below.message("fail writes")?;
    io::write(&file, 0, &model[..FRAME])?;
    let status = rig.status()?;
    let generation = status.get("generation")?;
    ensure!(status.state == "bypass", "{status:?}");
    below.message("fail nothing")?;
    if resumed {
        rig.mapped()?.suspend()?;
        rig.mapped()?.resume()?;
    } else {
        thread::sleep(Duration::from_millis(1500));
    }
    let status = rig.status()?;
    ensure!(
        status.state == "bypass" && status.get("generation")? == generation,
        "bypass was seen with generation {generation}, now {status:?}"
    );
    drop(file);
    rig.equals(&model)
}

/// In every mode; in write-back something else is dirty. The slot is not used again, not after a restart either.
fn unreadable_block() -> Result<()> {
    for mode in ["writethrough", "writearound", "writeback"] {
        let (mut rig, mut model) = Rig::new(config(mode))?;
        let file = io::direct(&rig.path()?)?;
        io::read(&file, 0, FRAME)?;
        rig.quiet()?;
        if mode == "writeback" {
            let data = io::random(FRAME, 1);
            io::write(&file, MIB as u64, &data)?;
            model[MIB..MIB + FRAME].copy_from_slice(&data);
            file.sync_all()?;
        }
        let bad = find_copy(&rig, &model)?;
        spoil(&rig, std::iter::once((bad / io::SECTOR) as u64))?;
        let read = io::read(&file, 0, FRAME).context("the user sees the SSD's error")?;
        ensure!(read[..] == model[..FRAME], "{mode}: wrong data");
        // Read from the disk and stored elsewhere; then read from there.
        io::read(&file, 0, FRAME)?;
        rig.quiet()?;
        let disk = rig.origin.stat()?;
        io::read(&file, 0, FRAME)?;
        ensure!(
            (rig.origin.stat()? - disk).read == 0,
            "{mode}: the block is not cached any more"
        );
        drop(file);
        for life in 0..2 {
            let status = rig.quiet()?;
            ensure!(
                status.state == "active" && status.get("retired")? == 1,
                "{mode}, life {life}: {status:?}"
            );
            ensure!(
                status.get("ssd_errors")? == 1 - life,
                "{mode}, life {life}: {status:?}"
            );
            rig.detach()?;
            rig.attach(false)?;
            // More than fits, so that every slot is used that may be.
            rig.equals(&model)?;
        }
        ensure!(
            rig.ssd.content()?[bad..bad + FRAME] == model[..FRAME],
            "{mode}: something was stored in a slot that cannot be read"
        );
    }
    Ok(())
}

fn bad_blocks() -> Result<()> {
    let (rig, model) = Rig::new(config("writethrough"))?;
    let file = io::direct(&rig.path()?)?;
    io::read(&file, 0, 8 * MIB)?;
    rig.quiet()?;
    // Every 64th sector of the data is bad.
    spoil(&rig, (2048..rig.ssd.sectors()).step_by(64))?;
    let read = io::read(&file, 0, 8 * MIB).context("the user sees the SSD's error")?;
    ensure!(
        io::difference(&read, &model[..8 * MIB]).is_none(),
        "wrong data"
    );
    drop(file);
    ensure!(
        rig.quiet()?.get("ssd_errors")? > 0,
        "no SSD error was counted"
    );
    rig.equals(&model)
}

fn disk_fails() -> Result<()> {
    for mode in ["writethrough", "writearound"] {
        let (rig, _) = Rig::new(config(mode))?;
        let file = io::direct(&rig.path()?)?;
        io::read(&file, 0, 4 * MIB)?;
        rig.quiet()?;
        let below = rig.origin_target()?;
        below.swap(broken(&rig.origin))?;
        io::read(&file, 0, MIB).context("hits are not served while the disk fails")?;
        let mut rng = Rng::with_seed(4);
        let mut failed = 0;
        for _ in 0..60 {
            let offset = rng.u64(0..256) * 16384 + rng.u64(0..32) * 512;
            failed += u32::from(io::write(&file, offset, &io::random(6144, offset)).is_err());
        }
        ensure!(
            failed == 60,
            "{mode}: {} writes to a failed disk were acknowledged",
            60 - failed
        );
        ensure!(
            io::read(&file, 30 * MIB as u64, 4096).is_err(),
            "{mode}: a read of a failed disk succeeded"
        );
        ensure!(
            file.sync_all().is_err(),
            "{mode}: a flush of a failed disk succeeded"
        );
        below.swap(Under::Linear.line(&rig.origin))?;
        // A failed write may have reached the disk or not; cache and disk must agree.
        let disk = rig.origin.content()?;
        drop(file);
        let status = rig.quiet()?;
        ensure!(
            status.state == "active",
            "{mode}: state {} {}",
            status.state,
            status.reason
        );
        ensure!(
            status.get("disk_errors")? > 0,
            "{mode}: no disk error was counted"
        );
        rig.equals(&disk).context(mode)?;
    }
    Ok(())
}

fn gone_then_removed() -> Result<()> {
    let (mut rig, model) = Rig::new(config("writethrough"))?;
    {
        let file = io::buffered(&rig.path()?)?;
        file.write_all_at(&model[..4 * MIB], 0)?;
        break_ssd(&rig)?;
        file.write_all_at(&model[4 * MIB..8 * MIB], 4 * MIB as u64)?;
        file.sync_all().context("the user sees the SSD's error")?;
    }
    rig.mapped()?.suspend()?;
    rig.mapped()?.resume()?;
    is_bypass(&rig.quiet()?)?;
    rig.mapped()?.load(Line::new(
        rig.origin.sectors(),
        "linear",
        format!("{} 0", rig.origin_path().display()),
    ))?;
    rig.mapped()?.suspend()?;
    rig.mapped()?.resume()?;
    rig.equals(&model)?;
    rig.detach()
}

fn gone_while_suspended() -> Result<()> {
    let (rig, mut model) = Rig::new(config("writethrough"))?;
    let file = io::direct(&rig.path()?)?;
    io::read(&file, 0, MIB)?;
    rig.quiet()?;
    let suspended = rig.mapped()?.suspended()?;
    break_ssd(&rig)?;
    drop(suspended);
    drive(
        &file,
        &mut model,
        &mut Rng::with_seed(5),
        Mix::new(4 * MIB),
        50,
    )?;
    drop(file);
    let status = rig.quiet()?;
    ensure!(status.state == "bypass", "state {}", status.state);
    rig.equals(&model)
}

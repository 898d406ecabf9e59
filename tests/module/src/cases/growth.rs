// SPDX-License-Identifier: GPL-3.0-or-later
//! The disk grows after the SSD had failed: what its marks say counts, and a start that fails can be tried again.

use anyhow::{Result, ensure};

use super::Entry;
use super::failures::{break_ssd, config, mend_ssd};
use super::reload::shorter;
use crate::dm::Dm;
use crate::io;
use crate::rig::{Rig, Status};

pub const CASES: &[Entry] = &[
    // promise 25: uml-plain/growth: marks of regions that become larger
    ("growth: marks of regions that become larger", || marks(300)),
    // promise 25: uml-plain/growth: marks of regions that stay as they are
    ("growth: marks of regions that stay as they are", || {
        marks(250)
    }),
    // promise 25: uml-plain/growth: a start that failed is tried again
    ("growth: a start that failed is tried again", again),
    // promise 25: uml-plain/growth: refused from a length that cuts a quarter
    (
        "growth: refused from a length that cuts a quarter",
        cut_quarter,
    ),
];

/// From 200 GiB on, where a region has 1 MiB; from 256 GiB on it has two, and there are fewer of them.
fn marks(gib: u64) -> Result<()> {
    // Beyond the last region's number when they are larger.
    const FAR: u64 = 180 << 30;
    let mut config = config("writeback");
    config.origin.mib = gib * 1024;
    config.origin.failing = true;
    let rig = Rig::disks(config)?;
    rig.origin.put(FAR, &io::random(65536, 5))?;
    let words = |format| format!("writeback {}", rig.words(format));
    let device = Dm::with(&rig.name, shorter(&rig, &words(true), 200 << 21))?;
    let file = io::direct(device.path())?;
    io::read(&file, FAR, 16384)?;
    Status::until(&device, "kept", |status| status.used == 1)?;
    // The first quarter stays dirty.
    rig.origin.test()?.message("stuck 0")?;
    io::write(&file, 0, &[1; 4096])?;
    file.sync_all()?;
    // To a place that is not cached: under a mark. With promotion on, the SSD would take parts of quarters.
    device.message("promotion off")?;
    io::write(&file, FAR + (512 << 10), &[2; 512])?;
    let marked = Status::of(&device)?;
    ensure!(marked.get("marked")? == 1 && marked.used == 2, "{marked:?}");
    break_ssd(&rig)?;
    // Partly over the copy: to the disk, and the SSD learns nothing of it.
    let new = io::random(4608, 6);
    io::write(&file, FAR + 12288, &new)?;
    Status::until(&device, "stranded", |status| status.state == "stranded")?;
    mend_ssd(&rig)?;
    device.load(rig.line(&words(false)))?;
    device.resume()?;
    ensure!(
        io::read(&file, FAR + 12288, 4608)?[..] == new[..],
        "older data than was written: {:?}",
        Status::of(&device)?
    );
    ensure!(
        io::read(&file, 0, 4096)?[..] == [1; 4096],
        "what was dirty is gone"
    );
    Ok(())
}

/// The SSD fails when the larger table starts; the table before it is gone by then.
fn again() -> Result<()> {
    for loaded_again in [false, true] {
        let rig = Rig::disks(config("writeback").keeping())?;
        let mut model = rig.origin.fill(5)?;
        rig.keep(true)?;
        let words = |format| format!("writeback {}", rig.words(format));
        let half = rig.origin.sectors() / 2;
        let device = Dm::with(&rig.name, shorter(&rig, &words(true), half))?;
        let file = io::direct(device.path())?;
        model[..4096].fill(1);
        io::write(&file, 0, &model[..4096])?;
        file.sync_all()?;
        drop(file);
        device.load(rig.line(&words(false)))?;
        device.suspend()?;
        break_ssd(&rig)?;
        ensure!(device.resume().is_err(), "started without its SSD");
        mend_ssd(&rig)?;
        if loaded_again {
            device.load(rig.line(&words(false)))?;
        }
        device.resume()?;
        let status = Status::of(&device)?;
        ensure!(status.dirty == 8, "{status:?}");
        if let Some(difference) = io::compare(device.path(), &model)? {
            anyhow::bail!("grown: {difference}");
        }
    }
    Ok(())
}

/// The quarter at the old end of the disk has no sectors beyond that end on the SSD, and a larger disk would have them.
fn cut_quarter() -> Result<()> {
    let rig = Rig::disks(config("writethrough"))?;
    let model = rig.origin.fill(5)?;
    let words = |format| format!("writethrough {}", rig.words(format));
    let end = rig.origin.sectors() / 2;
    let device = Dm::with(&rig.name, shorter(&rig, &words(true), end + 3))?;
    let file = io::direct(device.path())?;
    let last = usize::try_from(end)? * io::SECTOR;
    let read = io::read(&file, last as u64, 3 * io::SECTOR)?;
    ensure!(read[..] == model[last..last + 3 * io::SECTOR], "wrong data");
    let larger = device.load(rig.line(&words(false)));
    ensure!(larger.is_err(), "a growth that cuts a quarter was taken");
    // The cache goes on with the length that it has.
    let read = io::read(&file, last as u64, 3 * io::SECTOR)?;
    ensure!(read[..] == model[last..last + 3 * io::SECTOR], "wrong data");
    Ok(())
}

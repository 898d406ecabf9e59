// SPDX-License-Identifier: GPL-3.0-or-later
//! A cache that the module left with dirty data is emptied without the module, then started again (promises 9, 13, 21, 28, 32).

use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use tandem_rescue::{
    Cache, Consent, Disk, Doubt, Outcome, User, View, Why, judge, open, write_back,
};

use super::Entry;
use super::writeback::{config, write_quarters};
use crate::rig::Rig;

pub const CASES: &[Entry] = &[
    // promise 13: uml-plain/rescue: a stopped cache is emptied and starts again
    (
        "rescue: a stopped cache is emptied and starts again",
        stopped,
    ),
    // promise 28: uml-plain/rescue: a cache after a power cut
    ("rescue: a cache after a power cut", cut),
];

/// Opens a device that must be in use.
fn refused(path: &Path) -> Result<()> {
    let error = open(path, false).err();
    let error = error.ok_or_else(|| anyhow!("{} was opened", path.display()))?;
    let volume = matches!(&error.why, Why::InUse(User::Volume(name)) if name.starts_with("dm-"));
    ensure!(volume, "{error}: {:?}", error.why);
    Ok(())
}

/// Writes what is dirty to the disk, without the module.
fn rescue(rig: &Rig, model: &[u8]) -> Result<Outcome> {
    let (ssd, disk): (Disk, Disk) = (open(rig.ssd.path(), true)?, open(rig.origin.path(), true)?);
    let mut cache = Cache::load(ssd.medium.as_ref())?;
    let view = View::new(&cache, ssd.medium.as_ref(), disk.medium.as_ref());
    let mut shown = vec![0; model.len()];
    view.read(0, &mut shown)?;
    ensure!(shown == model, "disk and SSD do not show what was written");
    // The disks in memory have no serial number, and the names that the kernel gave say nothing of a disk.
    let name = rig.origin.path().file_name().unwrap_or_default().to_str();
    for serial in [None, name] {
        let named = Consent {
            serial,
            ..Consent::default()
        };
        let why = judge(&cache, &ssd, &disk, Ok(None), named).map_err(|e| e.why);
        ensure!(
            matches!(&why, Err(Why::InDoubt(doubts, _)) if doubts[..] == [Doubt::OtherDisk]),
            "{why:?}"
        );
    }
    let media = (ssd.medium.as_ref(), disk.medium.as_ref());
    Ok(write_back(&mut cache, media.0, media.1, &[], &mut |_| {})?)
}

fn stopped() -> Result<()> {
    let (mut rig, mut model) = Rig::new(config().keeping())?;
    let quarters = write_quarters(&rig, &mut model, 200, 7)?;
    refused(rig.ssd.path())?;
    refused(rig.origin.path())?;
    let used = rig.quiet()?.used;
    rig.detach()?;
    let outcome = rescue(&rig, &model)?;
    ensure!(
        outcome.written_bytes == quarters * 4096 && outcome.left_bytes == 0,
        "{quarters} quarters were dirty: {outcome:?}"
    );
    ensure!(rig.origin.content()? == model, "the plain disk has not all");
    starts_clean(&mut rig, &model, used)
}

fn cut() -> Result<()> {
    let (rig, mut model) = Rig::new(config().cuttable().keeping())?;
    write_quarters(&rig, &mut model, 200, 8)?;
    crate::io::direct(&rig.path()?)?.sync_all()?;
    rig.quiet()?;
    let mut left = rig.cut()?;
    let outcome = rescue(&left, &model)?;
    ensure!(outcome.written_bytes > 0, "{outcome:?}");
    ensure!(
        left.origin.content()? == model,
        "the plain disk has not all"
    );
    // The disk may have been written elsewhere after the cut.
    starts_clean(&mut left, &model, 0)
}

/// The module finds nothing dirty, so many frames in use, and the disk as it was left.
fn starts_clean(rig: &mut Rig, model: &[u8], used: u64) -> Result<()> {
    rig.attach(false)?;
    let status = rig.status()?;
    ensure!(
        status.state == "active" && status.dirty == 0 && status.used == used,
        "{used} frames were in use: {status:?}"
    );
    rig.equals(model)
}

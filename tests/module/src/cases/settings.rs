// SPDX-License-Identifier: GPL-3.0-or-later
//! What a user may set while a cache is in use: promotion, and the limit of dirty data.

use std::time::Duration;

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::{Entry, writeback};
use crate::beside::Beside;
use crate::dm::Dm;
use crate::io::{self, MIB, SECTOR};
use crate::rig::{Config, Rig};

pub const CASES: &[Entry] = &[
    (
        "settings: while promotion is off nothing new is stored, and hits go on",
        promotion,
    ),
    (
        "settings: a lower limit of dirty data is kept, and what is beyond is written back",
        lower_limit,
    ),
    (
        "settings: the table line keeps the limit of dirty data",
        in_the_table,
    ),
    ("settings: messages that are refused", refused),
];

/// Sectors of the first MiB of the disk, and of the next.
const PART: u64 = (MIB / SECTOR) as u64;

/// Reads the MiB number `mib` and returns how many sectors of it came from the disk.
fn read_mib(rig: &Rig, model: &[u8], mib: usize) -> Result<u64> {
    let file = io::direct(&rig.path()?)?;
    let disk = rig.origin.stat()?;
    for start in (mib * MIB..(mib + 1) * MIB).step_by(16384) {
        ensure!(
            io::read(&file, start as u64, 16384)?[..] == model[start..start + 16384],
            "wrong data at {start}"
        );
    }
    Ok((rig.origin.stat()? - disk).read)
}

fn promotion() -> Result<()> {
    for mode in ["writethrough", "writeback"] {
        let (rig, mut model) = Rig::new(Config {
            mode,
            ..Config::default()
        })?;
        read_mib(&rig, &model, 0)?;
        rig.quiet()?;
        rig.mapped()?.message("promotion off")?;
        ensure!(rig.status()?.get("promotion")? == 0, "promotion is on");
        let ssd = rig.ssd.stat()?;
        ensure!(
            read_mib(&rig, &model, 0)? == 0,
            "{mode}: what is cached is read from the disk"
        );
        for _ in 0..2 {
            ensure!(
                read_mib(&rig, &model, 1)? == PART,
                "{mode}: a read was stored while promotion was off"
            );
        }
        let file = io::direct(&rig.path()?)?;
        model[2 * MIB..3 * MIB].fill(7);
        io::write(&file, 2 * MIB as u64, &model[2 * MIB..3 * MIB])?;
        let status = rig.quiet()?;
        let stored = (rig.ssd.stat()? - ssd).written;
        // The record of the write's intent mark, not its data.
        ensure!(
            stored < PART / 2 && status.dirty == 0,
            "{mode}: {stored} sectors were written to the SSD: {status:?}"
        );
        ensure!(
            status.get("read_bypassed_promotion")? == 2 * PART,
            "{mode}: {status:?}"
        );
        // What has a slot is kept up to date.
        model[..4096].fill(8);
        io::write(&file, 0, &model[..4096])?;
        // The disk may answer before the SSD has its copy; until then, reads come from the disk.
        rig.quiet()?;
        ensure!(
            read_mib(&rig, &model, 0)? == 0,
            "{mode}: a write of what is cached was not stored"
        );
        rig.mapped()?.message("promotion on")?;
        read_mib(&rig, &model, 1)?;
        rig.quiet()?;
        ensure!(
            read_mib(&rig, &model, 1)? == 0,
            "{mode}: promotion is on again, and nothing is stored"
        );
        rig.shows(&model)?;
    }
    Ok(())
}

fn lower_limit() -> Result<()> {
    /// Sectors: 1 MiB.
    const LIMIT: u64 = PART;
    let (rig, mut model) = Rig::new(writeback::config().keeping())?;
    writeback::write_quarters(&rig, &mut model, 300, 3)?;
    let before = rig.status()?;
    ensure!(before.dirty > LIMIT, "too little is dirty: {before:?}");
    rig.mapped()?.message(&format!("dirty_limit 30 {LIMIT}"))?;
    // While writes go on, an eighth of the old limit would stay dirty.
    ensure!(before.get("dirty_limit")? / 8 > LIMIT, "{before:?}");
    let file = io::direct(&rig.path()?)?;
    let same = model[..4096].to_vec();
    // Beyond the limit the writes go to the disk, which must take them by then.
    rig.keep(false)?;
    let writing = Beside::new(Duration::from_millis(100), move || {
        io::write(&file, 0, &same)
    });
    rig.until("below the new limit", |status| status.dirty <= LIMIT)?;
    writing.end()?;
    let file = io::direct(&rig.path()?)?;
    let mut rng = Rng::with_seed(5);
    for _ in 0..600 {
        let start = rng.usize(0..2048) * 4096;
        rng.fill(&mut model[start..start + 4096]);
        io::write(&file, start as u64, &model[start..start + 4096])?;
        let status = rig.status()?;
        ensure!(
            status.dirty <= LIMIT && status.get("dirty_limit")? == LIMIT,
            "beyond the limit: {status:?}"
        );
    }
    // A limit of a second allows a thirtieth of the places.
    let places = rig.status()?.get("dirty_places_limit")?;
    rig.mapped()?.message("dirty_limit 1 0")?;
    let status = rig.status()?;
    let fewer = status.get("dirty_places_limit")?;
    ensure!(
        fewer < places / 8 && status.get("dirty_limit")? > LIMIT,
        "{places} places may be dirty for 30 s, {fewer} for one: {status:?}"
    );
    rig.equals(&model)
}

fn in_the_table() -> Result<()> {
    let mut rig = Rig::disks(writeback::config())?;
    let words = format!(
        "writeback 10 uuid {} origin_id {} dirty_seconds 5 dirty_sectors 4096 rest_seconds 60",
        rig.uuid, rig.origin_id
    );
    rig.attach(true)?;
    rig.detach()?;
    let device = Dm::with(&rig.name, rig.line(&words))?;
    let table = device.table()?;
    ensure!(table.ends_with(&words), "the table is {table}");
    device.message("dirty_limit 600 0")?;
    let table = device.table()?;
    ensure!(
        table.ends_with(&rig.words(false)),
        "after the message the table is {table}"
    );
    // A reload takes what its own line says.
    device.swap(rig.line(&words))?;
    let status = device.status()?;
    ensure!(
        status.contains(" dirty_limit 4096 "),
        "after a reload: {status}"
    );
    device.message("promotion off")?;
    device.swap(rig.line(&words))?;
    let status = device.status()?;
    ensure!(
        status.contains(" promotion 0"),
        "a reload switched promotion on: {status}"
    );
    device.remove()
}

fn refused() -> Result<()> {
    let (rig, _) = Rig::new(Config::default())?;
    let device = rig.mapped()?;
    let table = device.table()?;
    for text in [
        "promotion",
        "promotion maybe",
        "promotion off now",
        "dirty_limit",
        "dirty_limit 30",
        "dirty_limit 0 0",
        "dirty_limit 3601 0",
        "dirty_limit 30 2047",
        "dirty_limit -1 0",
        "dirty_limit 30 much",
        "dirty_limit 30 0 86401",
        "dirty_limit 30 0 -1",
        "dirty_limit 30 0 0 0",
    ] {
        ensure!(device.message(text).is_err(), "taken: {text}");
    }
    let status = rig.status()?;
    ensure!(
        device.table()? == table && status.get("promotion")? == 1,
        "a refused message has changed something: {status:?}"
    );
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks and SSDs with and without a volatile write cache, in all four pairs (promises 1, 3 and 4).

use std::fs;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use crate::disk::Shape;
use crate::io::{self, MIB};
use crate::model::{Mix, drive};
use crate::rig::{Config, Rig};

pub const CASES: &[Entry] = &[
    // promise 34: uml-plain/write caches: disk and SSD have none; a flush keeps all from a power cut
    (
        "write caches: disk and SSD have none; a flush keeps all from a power cut",
        || pair(false, false),
    ),
    // promise 34: uml-plain/write caches: only the disk has one; a flush keeps all from a power cut
    (
        "write caches: only the disk has one; a flush keeps all from a power cut",
        || pair(true, false),
    ),
    // promise 34: uml-plain/write caches: only the SSD has one; a flush keeps all from a power cut
    (
        "write caches: only the SSD has one; a flush keeps all from a power cut",
        || pair(false, true),
    ),
    // promise 34: uml-plain/write caches: disk and SSD have one; a flush keeps all from a power cut
    (
        "write caches: disk and SSD have one; a flush keeps all from a power cut",
        || pair(true, true),
    ),
];

fn pair(disk_is_volatile: bool, ssd_is_volatile: bool) -> Result<()> {
    for mode in ["writethrough", "writeback"] {
        let shape = |mib: u64, volatile: bool| Shape {
            volatile,
            ..Shape::new(mib).cuttable()
        };
        let (rig, mut model) = Rig::new(Config {
            mode,
            origin: shape(10, disk_is_volatile),
            ssd: shape(6, ssd_is_volatile),
            ..Config::default()
        })?;
        let mix = Mix {
            longest: 64,
            writes: 60,
            discards: 3,
            zeroes: 3,
            ..Mix::new(4 * MIB)
        };
        for round in 0..3 {
            let path = rig.path()?;
            let file = io::direct(&path)?;
            drive(&file, &mut model, &mut Rng::with_seed(round), mix, 100)?;
            file.sync_all()?;
            // FUA on top, with no flush behind it.
            let durable = io::durable(&path)?;
            let at = 4 * MIB + round as usize * 65536;
            model[at..at + 8192].fill(round as u8);
            io::write(&durable, at as u64, &model[at..at + 8192])?;
            let mut cut = rig.cut()?;
            cut.attach(false)?;
            cut.shows(&model)
                .with_context(|| format!("{mode}, after cut {round}"))?;
            cut.equals(&model)
                .with_context(|| format!("{mode}, after cut {round}"))?;
        }
        let name = rig.path()?;
        let name = name.file_name().context("a node without a name")?;
        let queue = fs::read_to_string(format!(
            "/sys/block/{}/queue/write_cache",
            name.to_string_lossy()
        ))?;
        ensure!(
            queue.trim() == "write back",
            "{mode}: flushes are not passed to the cache: {queue}"
        );
        rig.equals(&model)?;
    }
    Ok(())
}

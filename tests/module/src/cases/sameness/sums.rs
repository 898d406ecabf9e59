// SPDX-License-Identifier: GPL-3.0-or-later
//! The sums by which a start knows the disk again.

use std::os::unix::fs::FileExt;

use anyhow::{Result, ensure};

use super::{CHANGED, change, config, fill, is_cold, is_warm};
use crate::cases::hostile::crc32c;
use crate::io::{self, MIB};
use crate::rig::Rig;

/// Bytes of the notes on the SSD (FORMAT.md): a copy lies behind each copy of the superblock.
const NOTES: usize = 4096;
const COUNT: usize = 28;
const SAMPLES: usize = 32;
/// A quarter that each stop samples.
const SAMPLED: usize = MIB;

/// Makes the block end with its own crc32c, as ext4 does: of all before it, not inverted at the end.
fn sealed(block: &mut [u8]) {
    let (content, sum) = block.split_at_mut(block.len() - 4);
    sum.copy_from_slice(&(!crc32c(content)).to_le_bytes());
}

/// A change of a block that ends with a checksum of its own, which fits again after the change.
pub fn of_its_own() -> Result<()> {
    let mut rig = Rig::disks(config("writethrough"))?;
    let mut model = rig.origin.fill(3)?;
    for seed in 0..3 {
        sealed(&mut model[SAMPLED..SAMPLED + 4096]);
        rig.origin
            .put(SAMPLED as u64, &model[SAMPLED..SAMPLED + 4096])?;
        rig.attach(seed == 0)?;
        if seed > 0 {
            is_cold(&rig.status()?, CHANGED)?;
        }
        ensure!(fill(&rig, 8)? > 0, "nothing is cached");
        rig.detach()?;
        change(&rig, &mut model, SAMPLED, seed)?;
    }
    Ok(())
}

/// Gives the notes on the SSD the form that older modules wrote.
fn made_old(rig: &Rig, disk: &[u8]) -> Result<()> {
    let uuid: Vec<u8> = (0..rig.uuid.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&rig.uuid[at..at + 2], 16))
        .collect::<Result<_, _>>()?;
    let ssd = io::direct(rig.ssd.path())?;
    let mut found = 0;
    for at in (0..MIB).step_by(4096) {
        let mut notes = io::read(&ssd, at as u64, NOTES)?;
        if notes[..8] != *b"TDSMPL02" {
            continue;
        }
        found += 1;
        notes[..8].copy_from_slice(b"TDSMPL01");
        let count = u32::from_le_bytes(notes[COUNT..COUNT + 4].try_into()?) as usize;
        for sample in notes[SAMPLES..].chunks_exact_mut(16).take(count) {
            let quarter = usize::try_from(u64::from_le_bytes(sample[..8].try_into()?))?;
            let sum = crc32c(&disk[quarter * 4096..][..4096]);
            sample[8..12].copy_from_slice(&sum.to_le_bytes());
        }
        let sum = crc32c(&[&uuid, &notes[12..]].concat());
        notes[8..12].copy_from_slice(&sum.to_le_bytes());
        ssd.write_all_at(&notes, at as u64)?;
    }
    ensure!(found == 2, "{found} copies of the notes were found");
    Ok(())
}

/// A cache that an older module stopped is warm, and cold if the disk was changed; after that the notes are new.
pub fn of_an_older_module() -> Result<()> {
    let (mut rig, mut model) = Rig::new(config("writethrough"))?;
    let used = fill(&rig, 8)?;
    for changed in [false, true] {
        rig.detach()?;
        made_old(&rig, &model)?;
        if changed {
            change(&rig, &mut model, SAMPLED, 5)?;
        }
        rig.attach(false)?;
        let status = rig.status()?;
        if changed {
            is_cold(&status, CHANGED)?;
        } else {
            is_warm(&status, used)?;
        }
        rig.equals(&model)?;
    }
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A damaged index. The cache is refused if the SSD may have data that the disk lacks; otherwise the index is made
//! anew. A flag in the superblocks says which of the two applies, so the flag has to be right at any time.

use anyhow::{Context, Result, ensure};

use super::hostile::crc32c;
use super::starts::read_frames;
use super::writeback::write_quarters;
use super::{Entry, failures};
use crate::disk::{Disk, counter};
use crate::io::{self, MIB};
use crate::rig::{Config, Rig};

pub const CASES: &[Entry] = &[
    (
        "damaged: a cache that holds nothing dirty starts cold",
        starts_cold,
    ),
    (
        "damaged: an index that was being made anew is not believed",
        half_made,
    ),
    (
        "damaged: refused once the mode was changed to write-back",
        refused_after_message,
    ),
    (
        "damaged: refused once a table in write-back was loaded",
        refused_after_reload,
    ),
    (
        "damaged: taken again when all was written back and stopped",
        taken_again,
    ),
    // promise 27: uml-plain/damaged: half a superblock that is away does not say later that nothing is dirty
    (
        "damaged: half a superblock that is away does not say later that nothing is dirty",
        copy_away,
    ),
    // promise 10: uml-plain/damaged: the sound superblock is written after the damaged one
    (
        "damaged: the sound superblock is written after the damaged one",
        sound_copy_last,
    ),
];

/// Where the superblocks are, and in each the checksum and the incompatible flags.
const COPIES: [usize; 2] = [0, MIB / 2];
const CRC: usize = 8;
const FLAGS: usize = 20;

/// Damages everything between the superblocks and the data, except the journal's last blocks.
fn damage(rig: &Rig) -> Result<()> {
    rig.ssd.put(MIB as u64, &io::random(3 * MIB / 2, 4))
}

/// Checks that the cache is refused, and that nothing is written to the SSD.
fn refused(rig: &mut Rig) -> Result<()> {
    let before = rig.ssd.content()?;
    ensure!(rig.attach(false).is_err(), "a damaged index was taken");
    ensure!(rig.ssd.content()? == before, "the refusal wrote to the SSD");
    Ok(())
}

/// Checks that the cache would be refused after a cut at this moment, with a damaged index.
fn refused_after_cut(rig: &Rig) -> Result<()> {
    let mut cut = rig.cut()?;
    damage(&cut)?;
    refused(&mut cut)
}

/// Checks that the cache is taken, holds nothing, shows the model, and caches again.
fn cold(rig: &mut Rig, model: &[u8]) -> Result<()> {
    rig.attach(false)?;
    let status = rig.status()?;
    ensure!(
        status.used == 0 && status.dirty == 0,
        "not cold: {status:?}"
    );
    rig.equals(model)?;
    rig.quiet()?;
    let used = rig.status()?.used;
    rig.detach()?;
    rig.attach(false)?;
    ensure!(
        used > 100 && rig.status()?.used == used,
        "not warm at the next start: {used}, {:?}",
        rig.status()?
    );
    rig.equals(model)
}

fn starts_cold() -> Result<()> {
    for mode in ["writethrough", "writearound"] {
        let config = Config {
            mode,
            ..Config::default()
        };
        let (mut rig, mut model) = Rig::new(config.cuttable())?;
        read_frames(&rig, 4)?;
        write_quarters(&rig, &mut model, 50, 3)?;
        io::direct(&rig.path()?)?.sync_all()?;
        let mut cut = rig.cut()?;
        damage(&cut)?;
        cold(&mut cut, &model).with_context(|| format!("{mode}, after a cut"))?;
        rig.detach()?;
        damage(&rig)?;
        cold(&mut rig, &model).with_context(|| format!("{mode}, after a stop"))?;
    }
    Ok(())
}

/// Changes both superblocks of an SSD and brings their checksums up to date.
pub fn change_superblocks(ssd: &Disk, change: impl Fn(&mut [u8])) -> Result<()> {
    let file = io::direct(ssd.path())?;
    for copy in COPIES {
        let mut block = io::read(&file, copy as u64, 4096)?;
        change(&mut block);
        block[CRC..CRC + 4].fill(0);
        let sum = crc32c(&block);
        block[CRC..CRC + 4].copy_from_slice(&sum.to_le_bytes());
        ssd.put(copy as u64, &block)?;
    }
    Ok(())
}

/// Sets the incompatible flags in both superblocks.
fn set_flags(rig: &Rig, flags: u32) -> Result<()> {
    change_superblocks(&rig.ssd, |block| {
        block[FLAGS..FLAGS + 4].copy_from_slice(&flags.to_le_bytes());
    })
}

fn half_made() -> Result<()> {
    let (mut rig, model) = Rig::new(Config::default())?;
    read_frames(&rig, 4)?;
    rig.detach()?;
    set_flags(&rig, 2)?;
    refused(&mut rig).context("nobody says that nothing is dirty")?;
    set_flags(&rig, 3)?;
    cold(&mut rig, &model)
}

fn refused_after_message() -> Result<()> {
    let (mut rig, mut model) = Rig::new(Config::default().cuttable())?;
    write_quarters(&rig, &mut model, 50, 3)?;
    rig.mapped()?.message("mode writeback")?;
    rig.keep(true)?;
    write_quarters(&rig, &mut model, 50, 4)?;
    ensure!(rig.status()?.dirty > 0, "nothing is dirty");
    refused_after_cut(&rig)?;
    rig.mapped()?.message("mode writethrough")?;
    refused_after_cut(&rig).context("on the way back")?;
    // If the mode changes while the device is suspended, the resume has to note the new mode.
    let (other, mut model) = Rig::new(Config::default().cuttable())?;
    other.mapped()?.suspend()?;
    other.mapped()?.message("mode writeback")?;
    other.mapped()?.resume()?;
    write_quarters(&other, &mut model, 50, 5)?;
    refused_after_cut(&other).context("changed while suspended")?;
    rig.detach()
}

fn refused_after_reload() -> Result<()> {
    let (rig, mut model) = Rig::new(Config::default().cuttable())?;
    read_frames(&rig, 4)?;
    let line = format!("writeback {}", rig.words(false));
    rig.mapped()?.load(rig.line(&line))?;
    rig.mapped()?.suspend()?;
    rig.mapped()?.resume()?;
    write_quarters(&rig, &mut model, 50, 4)?;
    refused_after_cut(&rig)
}

fn taken_again() -> Result<()> {
    let mut config = Config {
        mode: "writeback",
        ..Config::default()
    };
    // The disk is so slow that the stop leaves something dirty.
    config.origin.mib = 12;
    config.origin.delay_ns = 12_000_000;
    config.origin.single = true;
    let (mut rig, mut model) = Rig::new(config.cuttable())?;
    // More than may be under way to the disk at once, all of which a stop waits for: some stay dirty.
    let file = io::direct(&rig.path()?)?;
    for start in (0..350 * 16384).step_by(16384) {
        model[start..start + 4096].fill(3);
        io::write(&file, start as u64, &model[start..start + 4096])?;
    }
    drop(file);
    rig.mapped()?.message("mode writethrough")?;
    // The stop comes before everything is written back.
    rig.detach()?;
    let ssd = rig.ssd.content()?;
    damage(&rig)?;
    refused(&mut rig).context("stopped with dirty data")?;
    rig.ssd.put(0, &ssd)?;
    rig.attach_as("writethrough")?;
    ensure!(rig.status()?.dirty > 0, "nothing was left dirty");
    rig.wait_clean()?;
    rig.quiet()?;
    rig.detach()?;
    damage(&rig)?;
    cold(&mut rig, &model)?;
    // Data that becomes dirty later counts again.
    rig.mapped()?.message("mode writeback")?;
    write_quarters(&rig, &mut model, 50, 4)?;
    refused_after_cut(&rig)
}

/// A stop is cut between its two superblocks. The superblock that says that nothing is dirty can then not be reached
/// for a while.
fn copy_away() -> Result<()> {
    let config = Config {
        mode: "writeback",
        ..Config::default()
    };
    let (mut rig, mut model) = Rig::new(config.cuttable())?;
    write_quarters(&rig, &mut model, 50, 3)?;
    rig.mapped()?.message("mode writethrough")?;
    rig.wait_clean()?;
    rig.quiet()?;
    let [first, second] = COPIES;
    let before = rig.ssd.content()?;
    rig.detach()?;
    let stopped = rig.ssd.content()?;
    ensure!(
        before[first..first + 4096] != stopped[first..first + 4096],
        "the stop has noted nothing"
    );
    rig.ssd.put(second as u64, &before[second..second + 4096])?;
    let last = 4096 / io::SECTOR as u64 - 1;
    rig.ssd.fail(0, last, true)?;
    ensure!(
        rig.attach_as("writeback").is_err(),
        "taken in write-back with a superblock that cannot be read nor written"
    );
    // A mode that makes nothing dirty needs only one superblock. The cache stays in such a mode.
    rig.attach_as("writethrough")?;
    write_quarters(&rig, &mut model, 50, 4)?;
    ensure!(
        rig.mapped()?.message("mode writeback").is_err(),
        "the mode was changed"
    );
    rig.detach()?;
    rig.ssd.fail(0, last, false)?;
    rig.attach_as("writeback")?;
    rig.keep(true)?;
    write_quarters(&rig, &mut model, 50, 5)?;
    ensure!(rig.status()?.dirty > 0, "nothing is dirty");
    io::direct(&rig.path()?)?.sync_all()?;
    let mut cut = rig.cut()?;
    cut.keep(true)?;
    cut.attach(false)?;
    ensure!(cut.status()?.dirty > 0, "started cold");
    cut.shows(&model)
}

/// A cut during the write of the sound superblock would leave none. Here the write of the damaged superblock fails,
/// and then the sound one has to be as it was.
fn sound_copy_last() -> Result<()> {
    for (sound, damaged) in [(0, 1), (1, 0)] {
        let (mut rig, model) = Rig::new(failures::config("writethrough"))?;
        rig.detach()?;
        rig.ssd.put(COPIES[damaged] as u64, &[0; 4096])?;
        let below = rig.test_ssd()?;
        below.message(&format!("stuck {}", COPIES[damaged] / io::SECTOR))?;
        let copy = |rig: &Rig| {
            let ssd = io::direct(rig.ssd.path())?;
            Ok(io::read(&ssd, COPIES[sound] as u64, 4096)?.to_vec())
        };
        let before: Result<Vec<u8>> = copy(&rig);
        rig.attach(false)?;
        let failed = counter(&rig.ssd_target()?.status()?, "failed")?;
        ensure!(failed > 0, "no superblock was written");
        ensure!(
            before? == copy(&rig)?,
            "copy {sound} was written before the damaged copy {damaged}"
        );
        rig.equals(&model)?;
    }
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Large files that are written in order (promises 1, 2, 16).

use std::fs::File;
use std::ops::Range;

use anyhow::{Result, ensure};

use super::Entry;
use crate::disk::Shape;
use crate::io::{self, MIB, SECTOR};
use crate::rig::{Config, Rig};

pub const CASES: &[Entry] = &[
    // promise 2: uml-plain/streams: a large file that is written goes to the disk alone
    (
        "streams: a large file that is written goes to the disk alone",
        past_the_ssd,
    ),
    // promise 1: uml-plain/streams: a large file over dirty data is right, also after a cut
    (
        "streams: a large file over dirty data is right, also after a cut",
        over_dirty_data,
    ),
    (
        "streams: what is written in order with flushes between stays on the SSD",
        journal,
    ),
];

/// Bytes in a row that are a stream, and in write-back.
const STREAM: usize = 8 * MIB;
const STREAM_BACK: usize = 32 * MIB;
/// How much longer the file is.
const PAST: usize = 16 * MIB;
const PIECE: usize = 256 * 1024;

fn config(mode: &'static str) -> Config {
    Config {
        origin: Shape::new(64),
        ssd: Shape::new(64),
        mode,
        ..Config::default()
    }
}

/// Writes a part of a file with new data, piece by piece, and keeps the model.
fn write(file: &File, model: &mut [u8], range: Range<usize>, seed: u64) -> Result<()> {
    model[range.clone()].copy_from_slice(&io::random(range.len(), seed));
    for start in range.step_by(PIECE) {
        io::write(file, start as u64, &model[start..start + PIECE])?;
    }
    Ok(())
}

fn past_the_ssd() -> Result<()> {
    for (mode, stream) in [("writethrough", STREAM), ("writeback", STREAM_BACK)] {
        let (rig, mut model) = Rig::new(config(mode))?;
        let file = io::direct(&rig.path()?)?;
        // Old copies, in the midst of what will be the stream.
        for start in (stream + 6 * MIB..stream + 8 * MIB).step_by(PIECE) {
            io::read(&file, start as u64, PIECE)?;
        }
        let before = rig.quiet()?;
        ensure!(before.get("fills")? > 0, "{mode}: {before:?}");
        write(&file, &mut model, 0..stream, 1)?;
        let (disk, ssd) = (rig.origin.stat()?, rig.ssd.stat()?);
        write(&file, &mut model, stream..stream + PAST, 2)?;
        let after = rig.quiet()?;
        let (disk, ssd) = (rig.origin.stat()? - disk, rig.ssd.stat()? - ssd);
        let sectors = (PAST / SECTOR) as u64;
        let past = after.get("write_bypassed_sequential")?;
        ensure!(
            past >= sectors,
            "{mode}: {past} sectors went past the SSD: {after:?}"
        );
        // What is dirty of the begin of the file may go there meanwhile.
        ensure!(
            disk.written >= sectors,
            "{mode}: {} sectors were written to the disk",
            disk.written
        );
        // Marks and records.
        ensure!(
            ssd.written < sectors / 16,
            "{mode}: {} sectors were written to the SSD",
            ssd.written
        );
        ensure!(
            after.used < before.used + (stream / 16384) as u64,
            "{mode}: before {before:?}, after {after:?}"
        );
        rig.shows(&model)?;
        drop(file);
        rig.equals(&model)?;
    }
    Ok(())
}

fn over_dirty_data() -> Result<()> {
    let (rig, mut model) = Rig::new(config("writeback").cuttable())?;
    let file = io::direct(&rig.path()?)?;
    // Blocks of less than a frame, so that some frames are dirty in a part.
    let end = STREAM_BACK + PAST;
    for (number, start) in (STREAM_BACK + MIB..end).step_by(333 * 4096).enumerate() {
        model[start..start + 8192].copy_from_slice(&io::random(8192, number as u64));
        io::write(&file, start as u64, &model[start..start + 8192])?;
    }
    ensure!(rig.status()?.dirty > 0, "nothing is dirty");
    write(&file, &mut model, 0..end, 3)?;
    let status = rig.status()?;
    ensure!(
        status.get("write_bypassed_sequential")? > 0,
        "nothing went past the SSD: {status:?}"
    );
    file.sync_data()?;
    let mut cut = rig.cut()?;
    cut.attach(false)?;
    cut.shows(&model)?;
    rig.shows(&model)?;
    drop(file);
    rig.equals(&model)?;
    cut.equals(&model)
}

fn journal() -> Result<()> {
    let (rig, mut model) = Rig::new(config("writeback"))?;
    let file = io::direct(&rig.path()?)?;
    for start in (0..STREAM_BACK + 4 * MIB).step_by(PIECE) {
        write(&file, &mut model, start..start + PIECE, start as u64)?;
        file.sync_data()?;
    }
    let status = rig.quiet()?;
    ensure!(
        status.get("write_bypassed_sequential")? == 0,
        "a journal goes past the SSD: {status:?}"
    );
    drop(file);
    rig.equals(&model)
}

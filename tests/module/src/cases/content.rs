// SPDX-License-Identifier: GPL-3.0-or-later
//! What is read is what was written, whatever the size, the place and the way (promises 2, 14, 28, 31).

use anyhow::{Context, Result, ensure};

use super::Entry;
use crate::io::{self, MIB, SECTOR};
use crate::model::{Mix, drive, seeded};
use crate::rig::{Config, Rig};

pub const CASES: &[Entry] = &[
    ("content: direct requests, write-through", || {
        random("writethrough", true)
    }),
    ("content: direct requests, write-around", || {
        random("writearound", true)
    }),
    ("content: buffered requests, write-through", || {
        random("writethrough", false)
    }),
    ("content: buffered requests, write-around", || {
        random("writearound", false)
    }),
    (
        "content: single sectors of frames in the cache",
        partial_blocks,
    ),
    ("content: requests across many frames", large),
    ("content: discards and zero-outs", discards),
    // promise 14: uml-plain/content: a discard forgets the copy
    ("content: a discard forgets the copy", discard_forgets),
    ("content: an end that is no whole frame", odd_end),
    ("content: 4096-byte disk, 512-byte SSD", || {
        blocks(4096, 512)
    }),
    // promise 29: uml-plain/content: 512-byte disk, 4096-byte SSD
    ("content: 512-byte disk, 4096-byte SSD", || {
        blocks(512, 4096)
    }),
    ("content: change of mode between requests", modes),
];

fn random(mode: &'static str, direct: bool) -> Result<()> {
    let (rig, mut model) = Rig::new(Config {
        mode,
        ..Config::default()
    })?;
    let mut rng = seeded(1);
    {
        let file = if direct {
            io::direct(&rig.path()?)?
        } else {
            io::buffered(&rig.path()?)?
        };
        // 8 MiB fit into the cache, 24 MiB do not.
        for hot in [8, 24] {
            drive(&file, &mut model, &mut rng, Mix::new(hot * MIB), 1200)?;
            if !direct {
                file.sync_all()?;
                io::forget(&file)?;
            }
            drive(
                &file,
                &mut model,
                &mut rng,
                Mix {
                    longest: 16,
                    ..Mix::new(hot * MIB)
                },
                3000,
            )?;
        }
        file.sync_all()?;
        io::forget(&file)?;
    }
    let status = rig.quiet()?;
    ensure!(
        status.state == "active" && status.reason == "-",
        "state {} {}",
        status.state,
        status.reason
    );
    ensure!(status.dirty == 0, "{} dirty sectors", status.dirty);
    ensure!(
        status.get("read_hit")? > 0,
        "nothing was ever read from the SSD"
    );
    ensure!(status.get("evictions")? > 0, "nothing was ever evicted");
    if mode == "writearound" {
        ensure!(status.get("write_hit")? == 0, "write-around stored writes");
    } else {
        ensure!(status.get("write_hit")? > 0, "no write was ever stored");
    }
    rig.equals(&model)
}

/// Overwrites one sector in the middle of cached frames and reads ranges that begin and end within frames.
fn partial_blocks() -> Result<()> {
    let (rig, mut model) = Rig::new(Config::default())?;
    let file = io::direct(&rig.path()?)?;
    io::read(&file, 0, 2 * MIB)?;
    rig.quiet()?;
    let mut rng = seeded(2);
    for round in 0..400 {
        let sector = rng.usize(0..4096);
        let range = sector * SECTOR..(sector + 1) * SECTOR;
        rng.fill(&mut model[range.clone()]);
        io::write(&file, range.start as u64, &model[range])?;
        let first = sector.saturating_sub(rng.usize(0..40));
        let length = rng.usize(1..80).min(4096 - first);
        let range = first * SECTOR..(first + length) * SECTOR;
        let read = io::read(&file, range.start as u64, range.len())?;
        if let Some(difference) = io::difference(&read, &model[range]) {
            anyhow::bail!("round {round}, {length} sectors at {first}: {difference}");
        }
    }
    drop(file);
    rig.quiet()?;
    rig.equals(&model)
}

fn large() -> Result<()> {
    let (rig, mut model) = Rig::new(Config::default())?;
    let file = io::direct(&rig.path()?)?;
    let mut rng = seeded(3);
    let mix = Mix {
        block: 4096,
        longest: 2048,
        hot: 32 * MIB,
        writes: 40,
        discards: 0,
        zeroes: 0,
    };
    drive(&file, &mut model, &mut rng, mix, 120)?;
    drop(file);
    rig.quiet()?;
    rig.equals(&model)
}

fn discards() -> Result<()> {
    for mode in ["writethrough", "writearound"] {
        let (rig, mut model) = Rig::new(Config {
            mode,
            ..Config::default()
        })?;
        ensure!(
            io::queue(&rig.path()?, "discard_max_bytes")? > 0,
            "no discards though the disk takes them"
        );
        let file = io::direct(&rig.path()?)?;
        let mut rng = seeded(4);
        let mix = Mix {
            longest: 512,
            writes: 30,
            discards: 10,
            zeroes: 10,
            ..Mix::new(8 * MIB)
        };
        drive(&file, &mut model, &mut rng, mix, 2500).with_context(|| format!("mode {mode}"))?;
        drop(file);
        let status = rig.quiet()?;
        ensure!(
            status.get("write_bypassed_discard")? > 0,
            "no discard was counted"
        );
        rig.equals(&model).with_context(|| format!("mode {mode}"))?;
    }
    Ok(())
}

fn discard_forgets() -> Result<()> {
    let (rig, mut model) = Rig::new(Config::default())?;
    let file = io::direct(&rig.path()?)?;
    for offset in (0..4 * MIB).step_by(16384) {
        io::read(&file, offset as u64, 16384)?;
    }
    rig.quiet()?;
    let discarded = 5000..1_200_128;
    let discarded = discarded.start / SECTOR * SECTOR..discarded.end / SECTOR * SECTOR;
    let before = rig.origin.stat()?;
    io::discard(&file, discarded.start as u64, discarded.len() as u64)?;
    let zeroed = 2 * MIB + 512..3 * MIB - 1024;
    io::zero(&file, zeroed.start as u64, zeroed.len() as u64)?;
    ensure!(
        (rig.origin.stat()? - before).discarded > 0,
        "the discard did not reach the disk"
    );
    drop(file);
    rig.quiet()?;
    let disk = rig.origin.content()?;
    model[discarded.clone()].copy_from_slice(&disk[discarded]);
    model[zeroed].fill(0);
    rig.equals(&model)
}

/// The device ends in the middle of a frame and of a quarter of one.
fn odd_end() -> Result<()> {
    let rig = Rig::disks(Config::default())?;
    let mut model = rig.origin.fill(5)?;
    let length = rig.origin.sectors() - 13;
    model.truncate(usize::try_from(length)? * SECTOR);
    let whole = rig.good_line(true);
    let mapped = crate::dm::Dm::with(&rig.name, crate::dm::Line { length, ..whole })?;
    {
        let file = io::direct(mapped.path())?;
        let end = model.len();
        let mut rng = seeded(5);
        for _ in 0..300 {
            let sectors = rng.usize(1..120);
            let skip = rng.usize(0..60);
            let range = end - (sectors + skip) * SECTOR..end - skip * SECTOR;
            if rng.bool() {
                rng.fill(&mut model[range.clone()]);
                io::write(&file, range.start as u64, &model[range])?;
            } else {
                let read = io::read(&file, range.start as u64, range.len())?;
                ensure!(read[..] == model[range], "the end reads wrong");
            }
        }
    }
    let difference = io::compare(mapped.path(), &model)?;
    ensure!(
        difference.is_none(),
        "the device differs from the model: {difference:?}"
    );
    drop(mapped);
    let disk = rig.origin.content()?;
    ensure!(
        io::difference(&disk[..model.len()], &model).is_none(),
        "the disk differs from the model"
    );
    Ok(())
}

fn blocks(origin: u32, ssd: u32) -> Result<()> {
    let mut config = Config::default();
    config.origin.block = origin;
    config.ssd.block = ssd;
    let (rig, mut model) = Rig::new(config)?;
    ensure!(
        io::queue(&rig.path()?, "logical_block_size")? == u64::from(origin),
        "logical block size is not the disk's"
    );
    let file = io::direct(&rig.path()?)?;
    let mut rng = seeded(6);
    // An SSD with larger blocks serves whole blocks only. Few of the requests of the first round are such; which of
    // these find their data on the SSD depends on the time that fills take.
    for block in [origin, origin.max(ssd)] {
        let mix = Mix {
            block: block as usize,
            longest: 128,
            writes: 35,
            discards: 3,
            zeroes: 3,
            ..Mix::new(8 * MIB)
        };
        drive(&file, &mut model, &mut rng, mix, 1500)?;
    }
    drop(file);
    let status = rig.quiet()?;
    let (hit, requested) = (status.get("read_hit")?, status.get("read_requested")?);
    ensure!(
        hit > requested / 2,
        "{hit} of {requested} sectors were read from the SSD"
    );
    rig.equals(&model)
}

fn modes() -> Result<()> {
    let (rig, mut model) = Rig::new(Config::default())?;
    let file = io::direct(&rig.path()?)?;
    let mut rng = seeded(7);
    for mode in ["writearound", "writethrough", "writearound", "writethrough"] {
        let event = rig.mapped()?.event()?;
        rig.mapped()?.message(&format!("mode {mode}"))?;
        ensure!(rig.status()?.mode == mode, "status does not show {mode}");
        ensure!(
            rig.mapped()?.table()?.contains(mode),
            "table does not show {mode}"
        );
        ensure!(rig.mapped()?.event()? > event, "no event");
        drive(
            &file,
            &mut model,
            &mut rng,
            Mix {
                longest: 64,
                ..Mix::new(8 * MIB)
            },
            600,
        )?;
    }
    for message in [
        "mode",
        "mode writeonly",
        "mode writethrough now",
        "drop all",
        "nonsense",
    ] {
        ensure!(
            rig.mapped()?.message(message).is_err(),
            "the message {message:?} was taken"
        );
    }
    rig.mapped()?.message("drop")?;
    ensure!(rig.quiet()?.used == 0, "frames in use after drop");
    drop(file);
    rig.equals(&model)
}

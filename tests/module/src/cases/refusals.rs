// SPDX-License-Identifier: GPL-3.0-or-later
//! What is refused, with a text of its own each, and that a refusal writes nothing (promises 21, 22, 29).

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use super::Entry;
use crate::disk::{Disk, Shape};
use crate::dm::{Dm, Line};
use crate::io::{self, MIB};
use crate::kmsg::Kmsg;
use crate::rig::{Config, Rig};

pub const CASES: &[Entry] = &[
    ("refusals: words of the table", words),
    // promise 21: uml-plain/refusals: another cache, another disk, another size
    (
        "refusals: another cache, another disk, another size",
        foreign,
    ),
    ("refusals: content on the SSD with `format new`", not_empty),
    // promise 22: uml-plain/refusals: same device twice, SSD attached twice
    ("refusals: same device twice, SSD attached twice", twice),
    ("refusals: too small, zoned, no such device", unsuitable),
    // promise 22: uml-plain/refusals: a read-only table
    ("refusals: a read-only table", read_only),
    (
        "refusals: an SSD that cannot be read or written",
        broken_ssd,
    ),
    ("refusals: each has a text of its own", distinct),
];

/// Tries a table line by loading and resuming it; returns the kernel's reason.
fn refused(name: &str, line: Line) -> Result<String> {
    refused_by(name, line, Dm::load)
}

/// The same with another way to load it.
fn refused_by(
    name: &str,
    line: Line,
    load: impl FnOnce(&Dm, Line) -> Result<()>,
) -> Result<String> {
    let mut kmsg = Kmsg::open()?;
    kmsg.new_lines();
    let device = Dm::create(name)?;
    let shown = line.args.clone();
    let result = load(&device, line).and_then(|()| device.resume());
    drop(device);
    ensure!(result.is_err(), "taken: {shown}");
    let lines = kmsg.new_lines();
    let Some(line) = lines
        .iter()
        .find(|line| line.contains("tandem: ") || line.contains("tandem:"))
    else {
        bail!("no reason in the kernel's log for {shown}: {lines:?}");
    };
    Ok(line
        .rsplit_once("tandem: ")
        .map_or(line.as_str(), |(_, reason)| reason)
        .to_owned())
}

/// The same, and neither disk was written or changed.
fn refused_untouched(rig: &Rig, line: Line) -> Result<String> {
    let before = (rig.origin.content()?, rig.ssd.content()?);
    let (disk, ssd) = (rig.origin.stat()?, rig.ssd.stat()?);
    let reason = refused("refused", line.clone())?;
    let (disk, ssd) = (rig.origin.stat()? - disk, rig.ssd.stat()? - ssd);
    ensure!(
        disk.written == 0 && disk.discarded == 0,
        "the disk was written: {}",
        line.args
    );
    ensure!(
        ssd.written == 0 && ssd.discarded == 0,
        "the SSD was written: {}",
        line.args
    );
    ensure!(
        before == (rig.origin.content()?, rig.ssd.content()?),
        "a device has changed: {}",
        line.args
    );
    Ok(reason)
}

fn words() -> Result<()> {
    let small = Config {
        origin: Shape::new(8),
        ssd: Shape::new(8),
        ..Config::default()
    };
    let rig = Rig::disks(small)?;
    rig.origin.fill(1)?;
    let uuid = &rig.uuid;
    let short = &uuid[1..];
    let long = "ab".repeat(65);
    let not_hex = uuid.replace("aa", "zz");
    let number = "Invalid number of arguments";
    let required = "uuid and origin_id are required";
    let lines = [
        (String::new(), number),
        ("writethrough".into(), number),
        ("writethrough 0".into(), required),
        ("writethrough 2 uuid".into(), number),
        (format!("writethrough 2 uuid {uuid}"), required),
        ("writethrough 2 origin_id abcd".into(), required),
        ("writethrough 4 origin_id abcd format new".into(), required),
        (format!("writethrough 4 uuid {uuid} format new"), required),
        (
            format!("writethrough 6 uuid {short} origin_id abcd format new"),
            "uuid must be",
        ),
        (
            format!("writethrough 6 uuid {not_hex} origin_id abcd format new"),
            "uuid must be",
        ),
        (
            format!("writethrough 6 uuid {uuid} origin_id abc format new"),
            "origin_id must be",
        ),
        (
            format!("writethrough 6 uuid {uuid} origin_id wxyz format new"),
            "origin_id must be",
        ),
        (
            format!("writethrough 6 uuid {uuid} origin_id {long} format new"),
            "origin_id must be",
        ),
        (
            format!("writethrough 6 uuid {uuid} origin_id abcd format old"),
            "format must be new",
        ),
        (
            format!("writethrough 6 uuid {uuid} uuid {uuid} format new"),
            "Argument given twice",
        ),
        (
            format!("writethrough 8 uuid {uuid} origin_id abcd format new speed high"),
            "Unknown argument",
        ),
        (
            format!("writethrough 8 uuid {uuid} origin_id abcd format new dirty_seconds 0"),
            "dirty_seconds must be",
        ),
        (
            format!("writethrough 6 uuid {uuid} origin_id abcd rest_seconds 86401"),
            "rest_seconds must be",
        ),
        (
            format!("writethrough 8 uuid {uuid} origin_id abcd format new dirty_sectors 2047"),
            "dirty_sectors must be",
        ),
        (
            format!("writethrough 5 uuid {uuid} origin_id abcd format"),
            number,
        ),
        (
            format!("writethrough 8 uuid {uuid} origin_id abcd format new"),
            number,
        ),
        (
            format!("writethrough 4 uuid {uuid} origin_id abcd format new"),
            number,
        ),
        (
            format!("writethrough -1 uuid {uuid} origin_id abcd format new"),
            number,
        ),
        (
            format!("writethrough x uuid {uuid} origin_id abcd format new"),
            number,
        ),
        (
            format!("writeonly 6 uuid {uuid} origin_id abcd format new"),
            "Mode must be",
        ),
        (
            format!("WRITETHROUGH 6 uuid {uuid} origin_id abcd format new"),
            "Mode must be",
        ),
        (
            format!("writethrough 4 uuid {uuid} origin_id abcd"),
            "no superblock",
        ),
    ];
    for (words, why) in lines {
        let reason = refused_untouched(&rig, rig.line(&words))
            .with_context(|| format!("words {words:?}"))?;
        ensure!(reason.contains(why), "words {words:?}: {reason:?}");
    }
    let shifted = Line {
        start: 8,
        ..rig.good_line(true)
    };
    ensure!(
        Dm::create("refused")?.load(shifted).is_err(),
        "a table that starts at sector 8 was taken"
    );
    let longer = Line {
        length: rig.origin.sectors() + 8,
        ..rig.good_line(true)
    };
    refused_untouched(&rig, longer)?;
    // After all of these the right line still works, so that none was refused for a reason of the disks.
    Dm::with("accepted", rig.good_line(true)).map(|_| ())
}

/// Reading through a cache writes to the SSD.
fn read_only() -> Result<()> {
    let rig = made()?;
    let ssd = rig.ssd.stat()?;
    let reason = refused_by("refused", rig.good_line(false), Dm::load_read_only)?;
    ensure!(
        reason.contains("A read-only table is not supported"),
        "refused because of {reason:?}"
    );
    ensure!((rig.ssd.stat()? - ssd).written == 0, "the SSD was written");
    Dm::with("accepted", rig.good_line(false)).map(|_| ())
}

/// A cache of 8 MiB disks that was made and left.
fn made() -> Result<Rig> {
    let small = Config {
        origin: Shape::new(8),
        ssd: Shape::new(8),
        ..Config::default()
    };
    let (mut rig, _) = Rig::new(small)?;
    rig.detach()?;
    Ok(rig)
}

fn foreign() -> Result<()> {
    let rig = made()?;
    let (uuid, id) = (&rig.uuid, &rig.origin_id);
    let mut other_uuid = uuid.clone();
    other_uuid.replace_range(31..32, "0");
    let other_id = id.replace("dead", "beef");
    refused_untouched(
        &rig,
        rig.line(&format!("writethrough 4 uuid {other_uuid} origin_id {id}")),
    )?;
    refused_untouched(
        &rig,
        rig.line(&format!("writethrough 4 uuid {uuid} origin_id {other_id}")),
    )?;
    refused_untouched(
        &rig,
        rig.line(&format!("writethrough 4 uuid {uuid} origin_id {id}00")),
    )?;
    let short = Line {
        length: rig.origin.sectors() - 8,
        ..rig.good_line(false)
    };
    refused_untouched(&rig, short)?;
    // Another disk of another size with the same words.
    let larger = Disk::new(Shape::new(12))?;
    let args = format!(
        "{} {} writethrough {}",
        larger.path().display(),
        rig.ssd.path().display(),
        rig.words(false)
    );
    refused_untouched(&rig, Line::new(larger.sectors(), "tandem", args))?;
    ensure!(larger.stat()?.written == 0, "the larger disk was written");
    Dm::with("accepted", rig.good_line(false)).map(|_| ())
}

fn not_empty() -> Result<()> {
    let small = Config {
        origin: Shape::new(8),
        ssd: Shape::new(8),
        ..Config::default()
    };
    let rig = Rig::disks(small)?;
    for offset in [0, 4096, 65536, MIB as u64 / 2, MIB as u64 - 512] {
        let mut sector = vec![0; 512];
        sector[511] = 1;
        rig.ssd.put(offset, &sector)?;
        refused_untouched(&rig, rig.good_line(true))
            .with_context(|| format!("one byte at {offset}"))?;
        rig.ssd.put(offset, &[0; 512])?;
    }
    // Content behind the first MiB does not matter: a discarded partition may still hold some.
    rig.ssd.put(MIB as u64, &io::random(4096, 1))?;
    drop(Dm::with("accepted", rig.good_line(true))?);
    // A cache that is there is not made anew under another name.
    let other = format!(
        "writethrough 6 uuid {} origin_id abcd format new",
        "9".repeat(32)
    );
    refused_untouched(&rig, rig.line(&other)).map(|_| ())
}

fn twice() -> Result<()> {
    let rig = made()?;
    let path = rig.origin.path().display();
    let same = Line::new(
        rig.origin.sectors(),
        "tandem",
        format!("{path} {path} writethrough {}", rig.words(true)),
    );
    refused_untouched(&rig, same)?;
    let mapped = Dm::with("first", rig.good_line(false))?;
    refused_untouched(&rig, rig.good_line(false)).context("both twice")?;
    let other = Disk::new(Shape::new(8))?;
    let args = format!(
        "{} {} writethrough {}",
        other.path().display(),
        rig.ssd.path().display(),
        rig.words(false)
    );
    refused_untouched(&rig, Line::new(other.sectors(), "tandem", args)).context("SSD twice")?;
    let ssd = Disk::new(Shape::new(8))?;
    let args = format!(
        "{path} {} writethrough {}",
        ssd.path().display(),
        rig.words(true)
    );
    refused_untouched(&rig, Line::new(rig.origin.sectors(), "tandem", args))
        .context("disk twice")?;
    ensure!(ssd.stat()?.written == 0, "the second SSD was written");
    // The SSD as somebody's disk.
    let args = format!(
        "{} {} writethrough {}",
        rig.ssd.path().display(),
        ssd.path().display(),
        rig.words(true)
    );
    refused_untouched(&rig, Line::new(rig.ssd.sectors(), "tandem", args))
        .context("SSD as a disk")?;
    drop(mapped);
    Dm::with("accepted", rig.good_line(false)).map(|_| ())
}

fn unsuitable() -> Result<()> {
    let tiny = Config {
        origin: Shape::new(8),
        ssd: Shape::new(1),
        ..Config::default()
    };
    let rig = Rig::disks(tiny)?;
    refused_untouched(&rig, rig.good_line(true)).context("SSD of 1 MiB")?;
    let missing = Line::new(
        rig.origin.sectors(),
        "tandem",
        format!(
            "/dev/nonesuch {} writethrough {}",
            rig.ssd.path().display(),
            rig.words(true)
        ),
    );
    refused_untouched(&rig, missing)?;
    let missing = Line::new(
        rig.origin.sectors(),
        "tandem",
        format!(
            "{} /dev/nonesuch writethrough {}",
            rig.origin.path().display(),
            rig.words(true)
        ),
    );
    refused_untouched(&rig, missing)?;
    let mut zoned = Shape::new(16);
    (zoned.zoned, zoned.volatile) = (true, false);
    match Disk::new(zoned) {
        // A kernel without zoned null_blk has nothing to refuse.
        Err(_) => Ok(()),
        Ok(disk) => {
            let ssd = Disk::new(Shape::new(8))?;
            let args = format!(
                "{} {} writethrough {}",
                disk.path().display(),
                ssd.path().display(),
                rig.words(true)
            );
            refused("refused", Line::new(disk.sectors(), "tandem", args)).context("zoned disk")?;
            ensure!(ssd.stat()?.written == 0, "the SSD was written");
            Ok(())
        }
    }
}

fn broken_ssd() -> Result<()> {
    let small = Config {
        origin: Shape::new(8),
        ssd: Shape::new(8),
        ssd_under: Some(crate::rig::Under::Linear),
        ..Config::default()
    };
    let rig = Rig::disks(small)?;
    rig.origin.fill(1)?;
    let below = rig.ssd_target()?;
    below.swap(Line::new(rig.ssd.sectors(), "error", ""))?;
    refused_untouched(&rig, rig.good_line(true)).context("SSD that cannot be read")?;
    // Reads work, writes fail: the constructor is content, the superblocks cannot be written.
    let read_only = format!("{} 0 0 60 1 error_writes", rig.ssd.path().display());
    if below
        .swap(Line::new(rig.ssd.sectors(), "flakey", read_only))
        .is_ok()
    {
        let device = Dm::create("unwritable")?;
        device.load(rig.good_line(true))?;
        let resumed = device.resume();
        ensure!(
            resumed.is_err() || device.status()?.starts_with("bypass"),
            "superblocks cannot have been written"
        );
    }
    Ok(())
}

/// The program must tell these apart by the text alone.
fn distinct() -> Result<()> {
    let rig = made()?;
    let (uuid, id) = (&rig.uuid, &rig.origin_id);
    let empty = Disk::new(Shape::new(8))?;
    let tiny = Disk::new(Shape::new(1))?;
    let over = |ssd: &Disk, words: &str| {
        let args = format!(
            "{} {} {words}",
            rig.origin.path().display(),
            ssd.path().display()
        );
        Line::new(rig.origin.sectors(), "tandem", args)
    };
    let path = rig.origin.path().display();
    let other = "9".repeat(32);
    let lines = [
        (
            "wrong uuid",
            rig.line(&format!("writethrough 4 uuid {other} origin_id {id}")),
        ),
        (
            "wrong disk",
            rig.line(&format!("writethrough 4 uuid {uuid} origin_id {id}77")),
        ),
        (
            "wrong size",
            Line {
                length: rig.origin.sectors() - 8,
                ..rig.good_line(false)
            },
        ),
        (
            "not empty",
            rig.line(&format!(
                "writethrough 6 uuid {other} origin_id {id} format new"
            )),
        ),
        (
            "no superblock",
            over(&empty, &format!("writethrough {}", rig.words(false))),
        ),
        (
            "too small",
            over(&tiny, &format!("writethrough {}", rig.words(true))),
        ),
        (
            "same device",
            Line::new(
                rig.origin.sectors(),
                "tandem",
                format!("{path} {path} writethrough {}", rig.words(true)),
            ),
        ),
        (
            "unknown mode",
            rig.line(&format!("writeonly {}", rig.words(false))),
        ),
        (
            "unknown argument",
            rig.line(&format!(
                "writethrough 6 uuid {uuid} origin_id {id} speed high"
            )),
        ),
        (
            "argument missing",
            rig.line(&format!("writethrough 2 uuid {uuid}")),
        ),
    ];
    let mut seen = BTreeMap::new();
    for (what, line) in lines {
        let reason = refused("refused", line).context(what)?;
        if let Some(before) = seen.insert(reason.clone(), what) {
            bail!("{before} and {what} are both {reason:?}");
        }
    }
    let mapped = Dm::with("first", rig.good_line(false))?;
    let reason = refused("refused", rig.good_line(false))?;
    ensure!(!seen.contains_key(&reason), "in use is {reason:?} as well");
    drop(mapped);
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The commands that work on an SSD and its disk without the service.

use std::path::{Path, PathBuf};

use serde_json::json;
use tandem_rescue::nbd::{self, Address};
use tandem_rescue::{
    Cache, Check, Content, Disk, Doubt, Index, Owner, Record, Report, SECTOR_BYTES, View, judge,
    open, owners, record, verify, write_back,
};
use tandemctl_arguments::{Rescue, RescuePair};

use crate::words::bytes;
use crate::{Ending, run, say};

/// Runs a rescue.
pub fn run(what: Rescue, json: bool) -> Result<(), Ending> {
    match what {
        Rescue::Show { ssd, records } => show(&ssd, &records, json),
        Rescue::Verify { ssd, disk, whole } => {
            let check = if whole { Check::Whole } else { Check::Sampled };
            check_all(&ssd, disk.as_deref(), check, json)
        }
        Rescue::WriteBack { pair, dry_run, yes } => save(&pair, dry_run, yes, json),
        Rescue::View { pair, socket, port } => {
            let address = match (socket, port) {
                (Some(path), _) => Address::Socket(path),
                (None, Some(port)) => Address::Port(port),
                (None, None) => return Err(Ending::Usage("no --socket and no --port".to_owned())),
            };
            view(&pair, &address, json)
        }
    }
}

/// A device may be named without its folder.
fn node(named: &Path) -> PathBuf {
    let beside = Path::new("/dev").join(named);
    let is_name = named.components().count() == 1 && !named.exists();
    if is_name && beside.exists() {
        beside
    } else {
        named.to_owned()
    }
}

fn show(ssd: &Path, records: &Path, json: bool) -> Result<(), Ending> {
    let ssd = open(&node(ssd), false)?;
    let cache = Cache::load(ssd.medium.as_ref())?;
    let summary = cache.summary();
    let owners = owners(&cache);
    let record = record(&cache, records);
    if json {
        say(json!({ "ssd": summary, "disks": owners, "record": record }));
        return Ok(());
    }
    say(format_args!("Cache {}", summary.uuid));
    say(format_args!(
        "Its hard disk: {} in size",
        bytes(summary.disk_bytes)
    ));
    for owner in &owners {
        say(format_args!("  found here: {}", device(owner)));
    }
    if owners.is_empty() {
        say("  not found among the disks of this computer");
    }
    if let Some(record) = &record {
        say(format_args!(
            "  recorded as: {} ({}, then {})",
            record.disk_model,
            bytes(record.disk_bytes),
            record.disk_name
        ));
    }
    say(format_args!(
        "Not yet on the hard disk: {}",
        match summary.dirty_bytes {
            0 => "nothing".to_owned(),
            dirty => format!("{} in {}", bytes(dirty), places(summary.dirty_pieces)),
        }
    ));
    say(format_args!(
        "Copies of what is on the hard disk: {} of {}",
        bytes(summary.clean_bytes),
        bytes(summary.capacity_bytes)
    ));
    say(if summary.stopped {
        "The cache was stopped."
    } else {
        "The cache was not stopped: the computer crashed, the power went out, or a rescue was interrupted."
    });
    if summary.index == Index::NotNeeded {
        say(
            "The index on the SSD cannot be used, and is not needed: the hard disk has everything.",
        );
    }
    if summary.sound_superblocks < 2 {
        say("One of the two copies of the cache information is damaged; the other one is enough.");
    }
    if record.is_some_and(|record| record.outdated) {
        say(format_args!(
            "WARNING: {}.",
            sentence(Doubt::Outdated.reason())
        ));
    } else if summary.dirty_bytes > 0 {
        say("To save it: tandemctl rescue write-back SSD DISK");
    }
    Ok(())
}

fn places(count: u64) -> String {
    match count {
        1 => "one place".to_owned(),
        count => format!("{count} places"),
    }
}

/// A disk by model, size and serial number.
fn device(owner: &Owner) -> String {
    if owner.is_image {
        return format!("the image {} ({})", owner.path, bytes(owner.bytes));
    }
    let model = match owner.model.as_str() {
        "" => "disk",
        model => model,
    };
    let serial = match owner.serial.as_str() {
        "" => "no serial number".to_owned(),
        serial => format!("serial number {serial}"),
    };
    format!("{model}, {}, {serial} ({})", bytes(owner.bytes), owner.path)
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase());
    first.into_iter().flatten().chain(letters).collect()
}

fn check_all(ssd: &Path, disk: Option<&Path>, check: Check, json: bool) -> Result<(), Ending> {
    let ssd = open(&node(ssd), false)?;
    let cache = Cache::load(ssd.medium.as_ref())?;
    let disk = disk.map(|disk| open(&node(disk), false)).transpose()?;
    if let Some(disk) = &disk
        && disk.medium.sectors() < cache.disk_sectors()
    {
        // The refusal describes the problem in full.
        judge(&cache, &ssd, disk, None, None)?;
    }
    let medium = disk.as_ref().map(|disk| disk.medium.as_ref());
    let report = verify(&cache, ssd.medium.as_ref(), medium, check);
    if json {
        say(json!({ "ssd": cache.summary(), "report": report }));
    } else {
        tell(&report, &cache);
    }
    if report.is_good() {
        Ok(())
    } else {
        Err(Ending::Incomplete)
    }
}

fn tell(report: &Report, cache: &Cache) {
    let at = |places: &[u64]| {
        let places: Vec<_> = places.iter().map(u64::to_string).collect();
        places.join(", ")
    };
    say(match cache.index {
        Index::Sound => "Cache information and index: sound",
        Index::NotNeeded => {
            "The index on the SSD cannot be used, and is not needed: the hard disk has everything."
        }
    });
    let readable = match (cache.dirty_bytes(), report.dirty_unreadable_bytes) {
        (0, _) => "nothing".to_owned(),
        (dirty, 0) => format!("{}; the SSD can read all of it", bytes(dirty)),
        (dirty, lost) => format!(
            "{}; the SSD cannot read {} of it",
            bytes(dirty),
            bytes(lost)
        ),
    };
    say(format_args!("Not yet on the hard disk: {readable}"));
    if report.dirty_unreadable_bytes > 0 {
        say(format_args!(
            "LOST unless the SSD can be read again: {}, at byte {} of the hard disk",
            bytes(report.dirty_unreadable_bytes),
            at(&report.dirty_unreadable_at)
        ));
    }
    say(format_args!(
        "Copies of what is on the hard disk: {} {}",
        bytes(report.clean_bytes),
        if report.disk.is_some() {
            "compared"
        } else {
            "read"
        }
    ));
    if report.clean_unreadable_bytes > 0 {
        say(format_args!(
            "The SSD cannot read copies of {}; nothing is lost, the hard disk has the same.",
            bytes(report.clean_unreadable_bytes)
        ));
    }
    if report.disk_unreadable_bytes > 0 {
        say(format_args!(
            "The hard disk cannot be read at {} of what was compared.",
            bytes(report.disk_unreadable_bytes)
        ));
    }
    if report.differing_bytes > 0 {
        say(format_args!(
            "DIFFERENT on the hard disk: {}, at byte {}",
            bytes(report.differing_bytes),
            at(&report.differing_at)
        ));
    }
    match report.disk {
        Some(Content::Changed) => {
            say(format_args!("{}.", sentence(Doubt::Changed.reason())));
        }
        Some(Content::Same) => say("The hard disk is as the cache left it."),
        Some(Content::Unknown) => say("Nothing on the SSD tells whether this is the right disk."),
        None => {}
    }
}

/// An SSD and a disk that may be used together.
struct Together {
    ssd: Disk,
    disk: Disk,
    cache: Cache,
    owner: Owner,
    doubts: Vec<Doubt>,
}

impl Together {
    fn open(pair: &RescuePair, write: bool) -> Result<Self, Ending> {
        let ssd = open(&node(&pair.ssd), write)?;
        let cache = Cache::load(ssd.medium.as_ref())?;
        let disk = open(&node(&pair.disk), write)?;
        let record: Option<Record> = record(&cache, &pair.records);
        let serial = pair.disk_serial.as_deref();
        let (owner, doubts) = judge(&cache, &ssd, &disk, record.as_ref(), serial)?;
        Ok(Self {
            ssd,
            disk,
            cache,
            owner,
            doubts,
        })
    }
}

/// Writes dirty data to the disk.
fn save(pair: &RescuePair, dry_run: bool, yes: bool, json: bool) -> Result<(), Ending> {
    let Together {
        ssd,
        disk,
        mut cache,
        owner,
        doubts,
    } = Together::open(pair, !dry_run)?;
    let dirty = cache.dirty_bytes();
    if dry_run {
        return list(&cache, &owner, json);
    }
    if dirty > 0 && !yes {
        say(format_args!(
            "{} will be written to {}.",
            bytes(dirty),
            device(&owner)
        ));
        for doubt in &doubts {
            say(format_args!("Note: {}.", doubt.reason()));
        }
        run::ask(json)?;
    }
    let mut shown = u64::MAX;
    let outcome = write_back(
        &mut cache,
        ssd.medium.as_ref(),
        disk.medium.as_ref(),
        &mut |step| {
            let percent = step.written * 100 / step.total.max(1);
            if !json && percent != shown {
                say(format_args!("{percent} %"));
                shown = percent;
            }
        },
    )?;
    if json {
        say(json!({ "disk": owner, "doubts": doubts, "outcome": outcome }));
    } else if dirty == 0 {
        say(format_args!(
            "Nothing to do: {} has everything already.",
            device(&owner)
        ));
    } else {
        say(format_args!(
            "{} is now on {}, and the SSD has recorded that.",
            bytes(outcome.written_bytes),
            device(&owner)
        ));
    }
    if outcome.left_bytes == 0 {
        return Ok(());
    }
    let places: Vec<_> = outcome.left_at.iter().map(u64::to_string).collect();
    eprintln!(
        "tandemctl: The SSD cannot read {} of it, which belong at byte {} of the disk. They stay on the SSD, marked as \
         unwritten. Copy the SSD to an image file with ddrescue and run the same command with the image, or check the file \
         system and do without them.",
        bytes(outcome.left_bytes),
        places.join(", ")
    );
    Err(Ending::Incomplete)
}

/// Names what would be written.
fn list(cache: &Cache, owner: &Owner, json: bool) -> Result<(), Ending> {
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    cache.dirty(0, |range| {
        match pieces.last_mut() {
            Some((first, count)) if *first + *count == range.sector => *count += range.count,
            _ => pieces.push((range.sector, range.count)),
        }
        true
    });
    if json {
        let pieces: Vec<_> = pieces
            .iter()
            .map(|(first, count)| json!({ "byte": first * SECTOR_BYTES, "bytes": count * SECTOR_BYTES }))
            .collect();
        say(json!({ "disk": owner, "would_write": pieces }));
        return Ok(());
    }
    say(format_args!(
        "{} would be written to {}:",
        bytes(cache.dirty_bytes()),
        device(owner)
    ));
    for (first, count) in pieces {
        say(format_args!(
            "  {} at byte {}",
            bytes(count * SECTOR_BYTES),
            first * SECTOR_BYTES
        ));
    }
    say("Nothing was changed.");
    Ok(())
}

/// Shows the disk and its SSD as one device until the user ends the program.
fn view(pair: &RescuePair, address: &Address, json: bool) -> Result<(), Ending> {
    let Together {
        ssd,
        disk,
        cache,
        owner,
        doubts,
    } = Together::open(pair, false)?;
    let failed = |e: std::io::Error| {
        Ending::Usage(format!(
            "cannot listen there: {e}. Choose another --socket or --port"
        ))
    };
    let listener = nbd::listen(address).map_err(failed)?;
    let (place, client) = match address {
        Address::Socket(path) => (
            format!("nbd+unix:///?socket={}", path.display()),
            format!("-unix {}", path.display()),
        ),
        Address::Port(port) => (
            format!("nbd://127.0.0.1:{port}"),
            format!("127.0.0.1 {port}"),
        ),
    };
    if json {
        say(json!({ "disk": owner, "doubts": doubts, "uri": place }));
    } else {
        for doubt in &doubts {
            say(format_args!("Note: {}.", doubt.reason()));
        }
        say(format_args!(
            "{} with what is on its SSD, read-only: {place}\n\
             To copy all of it:  qemu-img convert -O raw '{place}' FILE\n\
             To open it:         nbd-client {client} /dev/nbd0, then mount -o ro /dev/nbd0 FOLDER\n\
             Press Ctrl+C to end.",
            device(&owner)
        ));
    }
    let view = View::new(&cache, ssd.medium.as_ref(), disk.medium.as_ref());
    nbd::serve(&view, listener).map_err(failed)
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The commands that work on an SSD and its disk without the service.

mod errors;

use std::path::{Path, PathBuf};

use gettextrs::gettext;
use serde_json::json;
use tandem_rescue::nbd::{self, Address};
use tandem_rescue::{
    Cache, Check, Consent, Content, Disk, Doubt, Index, Map, Owner, Report, SECTOR_BYTES, Source,
    View, judge, open, owners, record, verify, write_back,
};
use tandem_words::{bytes, fill};
use tandemctl_arguments::{Rescue, RescuePair, SsdImage};

pub use self::errors::error_words;
use crate::words::{fact, note, places};
use crate::{Ending, agree, complain, emit, say};

/// Runs a rescue.
pub fn run(what: Rescue, json: bool) -> Result<(), Ending> {
    match what {
        Rescue::Show {
            ssd,
            image,
            records,
        } => show(&ssd, &image, &records, json),
        Rescue::Verify {
            ssd,
            disk,
            image,
            whole,
        } => {
            let check = if whole { Check::Whole } else { Check::Sampled };
            check_all(&ssd, disk.as_deref(), &image, check, json)
        }
        Rescue::WriteBack {
            pair,
            over_newer_data,
            dry_run,
            yes,
        } => save(&pair, over_newer_data, dry_run, yes, json),
        Rescue::View { pair, socket, port } => {
            let address = match (socket, port) {
                (Some(path), _) => Address::Socket(path),
                (None, Some(port)) => Address::Port(port),
                (None, None) => {
                    return Err(Ending::Usage(gettext("Name a --socket or a --port.")));
                }
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

fn show(ssd: &Path, image: &SsdImage, records: &Path, json: bool) -> Result<(), Ending> {
    let ssd = open_ssd(ssd, image, false)?;
    let cache = Cache::load(ssd.medium.as_ref())?;
    let summary = cache.summary();
    let owners = owners(&cache);
    let found = record(&cache, records);
    let record = found.as_ref().ok().and_then(Option::as_ref);
    let is_outdated = record.is_some_and(|record| record.outdated);
    let doubt = match &found {
        Ok(_) if is_outdated => Some(Doubt::Outdated),
        Ok(_) => None,
        Err(_) => Some(Doubt::NoRecord),
    };
    if json {
        emit(json!({ "ssd": summary, "disks": owners, "record": record, "doubt": doubt }));
        return Ok(());
    }
    let tell = |words: &str, values: &[(&str, &str)]| say(fill(words, values));
    tell(&gettext("Cache {uuid}"), &[("uuid", &summary.uuid)]);
    let size = bytes(summary.disk_bytes);
    tell(&gettext("Its hard disk has {size}"), &[("size", &size)]);
    for owner in &owners {
        say(fact(&gettext("found here:"), device(owner)));
    }
    if owners.is_empty() {
        say(fact(
            "",
            gettext("not found among the disks of this computer"),
        ));
    }
    if let Some(record) = record {
        let facts = [
            record.disk_model.clone(),
            bytes(record.disk_bytes),
            record.disk_name.clone(),
        ];
        say(fact(&gettext("recorded as:"), facts.join(", ")));
    }
    let dirty = match summary.dirty_bytes {
        0 => gettext("nothing"),
        dirty => fill(
            &gettext("{size} in {places}"),
            &[
                ("size", &bytes(dirty)),
                ("places", &places(summary.dirty_pieces)),
            ],
        ),
    };
    tell(
        &gettext("Not yet on the hard disk: {amount}"),
        &[("amount", &dirty)],
    );
    tell(
        &gettext("Copies of what is on the hard disk: {used} of {size}"),
        &[
            ("used", &bytes(summary.clean_bytes)),
            ("size", &bytes(summary.capacity_bytes)),
        ],
    );
    say(match summary.stopped {
        true => gettext("The cache was stopped."),
        false => gettext(
            "The cache was not stopped: the computer crashed, the power went out, or a rescue was interrupted.",
        ),
    });
    if summary.index == Index::NotNeeded {
        say(index_not_needed());
    }
    if summary.sound_superblocks < 2 {
        say(gettext(
            "One of the two copies of the cache information is damaged; the other one is enough.",
        ));
    }
    if let Some(doubt) = doubt {
        tell(&gettext("WARNING: {words}"), &[("words", &sentence(doubt))]);
    } else if summary.dirty_bytes > 0 {
        say(gettext("To save it: tandemctl rescue write-back SSD DISK"));
    }
    tell_what_may_lack(&ssd, image);
    Ok(())
}

fn index_not_needed() -> String {
    gettext("The index on the SSD cannot be used, and is not needed: the hard disk has everything.")
}

/// A disk by model, size and serial number.
fn device(owner: &Owner) -> String {
    let model = match owner.model.as_str() {
        "" => gettext("disk"),
        model => model.to_owned(),
    };
    let words = match (owner.is_image, owner.serial.as_str()) {
        (true, _) => gettext("the image {path} ({size})"),
        (false, "") => gettext("{model}, {size}, no serial number ({path})"),
        (false, _) => gettext("{model}, {size}, serial number {serial} ({path})"),
    };
    fill(
        &words,
        &[
            ("model", &model),
            ("size", &bytes(owner.bytes)),
            ("serial", &owner.serial),
            ("path", &owner.path),
        ],
    )
}

/// Why a disk may be the wrong one.
fn sentence(doubt: Doubt) -> String {
    match doubt {
        Doubt::Image => gettext("An image has no serial number to compare."),
        Doubt::OtherDisk => gettext("The SSD names another disk."),
        Doubt::Larger => gettext("The disk is larger than the one that the cache was made for."),
        Doubt::Changed => gettext(
            "The disk was changed while the SSD was away, or it is a copy of another time, so what is on the SSD may not fit it.",
        ),
        Doubt::Outdated => gettext(
            "The disk was used without the SSD since, so what is on the SSD is older and would destroy what is on the disk now.",
        ),
        Doubt::NoRecord => gettext(
            "The service's record of this cache cannot be read, so the disk may have been used without the SSD. Look at it as root, or name the folder of the records with --records.",
        ),
    }
}

/// Opens the SSD; of an image with a map only what the map says was read.
fn open_ssd(ssd: &Path, image: &SsdImage, write: bool) -> Result<Disk, Ending> {
    let ssd = open(&node(ssd), write)?;
    Ok(match &image.ssd_map {
        Some(map) => ssd.with_map(Map::read(map)?),
        None => ssd,
    })
}

fn tell_what_may_lack(ssd: &Disk, image: &SsdImage) {
    if matches!(ssd.source, Source::Image(_)) && !image.says_what_it_lacks() {
        say(note(&gettext(
            "An image does not show what of the SSD could not be read. Name the map that ddrescue made with --ssd-map.",
        )));
    }
}

fn check_all(
    ssd: &Path,
    disk: Option<&Path>,
    image: &SsdImage,
    check: Check,
    json: bool,
) -> Result<(), Ending> {
    let ssd = open_ssd(ssd, image, false)?;
    let cache = Cache::load(ssd.medium.as_ref())?;
    let disk = disk.map(|disk| open(&node(disk), false)).transpose()?;
    if let Some(disk) = &disk
        && disk.medium.sectors() < cache.disk_sectors()
    {
        // The refusal describes the problem in full.
        let whole = Consent {
            ssd_is_whole: true,
            ..Consent::default()
        };
        judge(&cache, &ssd, disk, Ok(None), whole)?;
    }
    let medium = disk.as_ref().map(|disk| disk.medium.as_ref());
    let report = verify(&cache, ssd.medium.as_ref(), medium, check);
    if json {
        emit(json!({ "ssd": cache.summary(), "report": report }));
    } else {
        tell(&report, &cache);
        tell_what_may_lack(&ssd, image);
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
    let tell = |words: &str, size: u64, places: &[u64]| {
        say(fill(
            words,
            &[("size", &bytes(size)), ("places", &at(places))],
        ));
    };
    say(match cache.index {
        Index::Sound => gettext("Cache information and index: sound"),
        Index::NotNeeded => index_not_needed(),
    });
    let lost = report.dirty_unreadable_bytes;
    let readable = match (cache.dirty_bytes(), lost) {
        (0, _) => gettext("nothing"),
        (_, 0) => gettext("{size}; the SSD can read all of it"),
        _ => gettext("{size}; the SSD cannot read {lost} of it"),
    };
    let readable = fill(
        &readable,
        &[
            ("size", &bytes(cache.dirty_bytes())),
            ("lost", &bytes(lost)),
        ],
    );
    say(fill(
        &gettext("Not yet on the hard disk: {amount}"),
        &[("amount", &readable)],
    ));
    if lost > 0 {
        tell(
            &gettext(
                "LOST unless the SSD can be read again: {size}, at byte {places} of the hard disk",
            ),
            lost,
            &report.dirty_unreadable_at,
        );
    }
    let clean = match report.disk.is_some() {
        true => gettext("Copies of what is on the hard disk: {size} compared"),
        false => gettext("Copies of what is on the hard disk: {size} read"),
    };
    tell(&clean, report.clean_bytes, &[]);
    if report.clean_unreadable_bytes > 0 {
        tell(
            &gettext(
                "The SSD cannot read copies of {size}; nothing is lost, the hard disk has the same.",
            ),
            report.clean_unreadable_bytes,
            &[],
        );
    }
    if report.disk_unreadable_bytes > 0 {
        tell(
            &gettext("The hard disk cannot be read at {size} of what was compared."),
            report.disk_unreadable_bytes,
            &[],
        );
    }
    if report.differing_bytes > 0 {
        tell(
            &gettext("DIFFERENT on the hard disk: {size}, at byte {places}"),
            report.differing_bytes,
            &report.differing_at,
        );
    }
    match report.disk {
        Some(Content::Changed) => say(sentence(Doubt::Changed)),
        Some(Content::Same) => say(gettext("The hard disk is as the cache left it.")),
        Some(Content::Unknown) => say(gettext(
            "Nothing on the SSD tells whether this is the right disk.",
        )),
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
    /// `over_newer`: what is on the disk may be newer, and nothing of it is lost, or the user has agreed to lose it.
    fn open(pair: &RescuePair, over_newer: bool, write: bool) -> Result<Self, Ending> {
        let ssd = open_ssd(&pair.ssd, &pair.image, write)?;
        let cache = Cache::load(ssd.medium.as_ref())?;
        let disk = open(&node(&pair.disk), write)?;
        let record = record(&cache, &pair.records);
        let consent = Consent {
            serial: pair.disk_serial.as_deref(),
            over_newer,
            ssd_is_whole: pair.image.says_what_it_lacks(),
        };
        let record = record.as_ref().map(Option::as_ref);
        let (owner, doubts) = judge(&cache, &ssd, &disk, record, consent)?;
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
fn save(
    pair: &RescuePair,
    over_newer: bool,
    dry_run: bool,
    yes: bool,
    json: bool,
) -> Result<(), Ending> {
    let Together {
        ssd,
        disk,
        mut cache,
        owner,
        doubts,
    } = Together::open(pair, over_newer || dry_run, !dry_run)?;
    let dirty = cache.dirty_bytes();
    let written = |words: &str, size| {
        let values = [("size", &*bytes(size)), ("disk", &*device(&owner))];
        fill(words, &values)
    };
    if dry_run {
        return list(&cache, &owner, json);
    }
    if dirty > 0 && !json {
        say(written(
            &gettext("{size} will be written to {disk}."),
            dirty,
        ));
        tell_doubts(&doubts);
    }
    if dirty > 0 && !yes {
        agree::ask(json)?;
    }
    let mut shown = u64::MAX;
    let outcome = write_back(
        &mut cache,
        ssd.medium.as_ref(),
        disk.medium.as_ref(),
        &doubts,
        &mut |step| {
            let percent = step.written * 100 / step.total.max(1);
            if !json && percent != shown {
                say(tandem_words::percent(percent as f64 / 100.0));
                shown = percent;
            }
        },
    )?;
    if json {
        emit(json!({ "disk": owner, "doubts": doubts, "outcome": outcome }));
    } else if dirty == 0 {
        say(written(
            &gettext("Nothing to do: {disk} has everything already."),
            0,
        ));
    } else {
        say(written(
            &gettext("{size} is now on {disk}, and the SSD has recorded that."),
            outcome.written_bytes,
        ));
    }
    let complaints = [
        (
            outcome.left_bytes,
            &outcome.left_at,
            gettext(
                "The SSD cannot read {size} of it, which belong at byte {places} of the disk. They stay on the SSD, marked as unwritten. Copy the SSD to an image file with ddrescue and run the same command with the image and --ssd-map, the map that ddrescue makes; or check the file system and do without them.",
            ),
        ),
        (
            outcome.refused_bytes,
            &outcome.refused_at,
            gettext(
                "The disk does not take {size} of it, at byte {places}. They stay on the SSD, marked as unwritten. Copy the disk to a healthy one with ddrescue and run the same command with that one.",
            ),
        ),
    ];
    let mut is_complete = true;
    for (size, places, words) in complaints {
        if size == 0 {
            continue;
        }
        let places: Vec<_> = places.iter().map(u64::to_string).collect();
        let values = [("size", &*bytes(size)), ("places", &*places.join(", "))];
        complain(&fill(&words, &values));
        is_complete = false;
    }
    if is_complete {
        Ok(())
    } else {
        Err(Ending::Incomplete)
    }
}

fn tell_doubts(doubts: &[Doubt]) {
    for doubt in doubts {
        say(note(&sentence(*doubt)));
    }
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
        emit(json!({ "disk": owner, "would_write": pieces }));
        return Ok(());
    }
    say(fill(
        &gettext("{size} would be written to {disk}:"),
        &[
            ("size", &bytes(cache.dirty_bytes())),
            ("disk", &device(owner)),
        ],
    ));
    for (first, count) in pieces {
        let place = (first * SECTOR_BYTES).to_string();
        let size = bytes(count * SECTOR_BYTES);
        let words = gettext("{size} at byte {place}");
        say(fact(
            "",
            fill(&words, &[("size", &size), ("place", &place)]),
        ));
    }
    say(gettext("Nothing was changed."));
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
    } = Together::open(pair, true, false)?;
    let failed = |e: std::io::Error| {
        let words = gettext("Cannot listen there: {error}. Choose another --socket or --port.");
        Ending::Usage(fill(&words, &[("error", &e.to_string())]))
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
        emit(json!({ "disk": owner, "doubts": doubts, "uri": place }));
    } else {
        tell_doubts(&doubts);
        say(fill(
            &gettext("{disk} with what is on its SSD, read-only: {place}"),
            &[("disk", &device(&owner)), ("place", &place)],
        ));
        say(fact(
            &gettext("copy all of it:"),
            format_args!("qemu-img convert -O raw '{place}' FILE"),
        ));
        say(fact(
            &gettext("open it:"),
            format_args!("nbd-client {client} /dev/nbd0 && mount -o ro /dev/nbd0 FOLDER"),
        ));
        say(gettext("Press Ctrl+C to end."));
    }
    let view = View::new(&cache, ssd.medium.as_ref(), disk.medium.as_ref());
    nbd::serve(&view, listener);
    Err(Ending::Usage(gettext(
        "The socket accepts no connection any more. Start the command again.",
    )))
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches that other systems have made, in words.

use gettextrs::gettext;
use tandem_api::{DeviceText, Mode, OtherCache, OtherKind, OtherMode, OtherState, TABLES_FOLDER};

use crate::{Consent, SEPARATOR, bytes, device_facts, fill, mode_name, percent, plain_name};

/// The disk, and what is known of its cache.
#[must_use]
pub fn other_words(cache: &OtherCache) -> [String; 2] {
    let mut first = vec![other_name(cache), mode_words(cache.mode)];
    if let Some(place) = cache.mount_points.first() {
        first.push(fill(&gettext("mounted at {place}"), &[("place", place)]));
    }
    first.retain(|words| !words.is_empty());
    let ssds: Vec<_> = cache.ssds.iter().map(titled).collect();
    let mut lines = vec![first.join(SEPARATOR)];
    if !ssds.is_empty() {
        let on = gettext("On {ssd}");
        lines.push(fill(&on, &[("ssd", &ssds.join(", "))]));
    }
    lines.extend(amounts(cache));
    lines.extend(state_words(cache));
    lines.push(safety_words(cache));
    let disks: Vec<_> = cache.disks.iter().map(titled).collect();
    let title = match disks.is_empty() {
        true => cache.name.clone(),
        false => disks.join(", "),
    };
    [title, lines.join("\n")]
}

/// The question before a cache of another system is removed. It names the devices, and what the disk lacks.
#[must_use]
pub fn remove_other_words(cache: &OtherCache) -> Consent {
    if cache.is_left_alone() {
        return make_plain_words(cache);
    }
    let all = |devices: &[DeviceText]| devices.iter().map(titled).collect::<Vec<_>>().join(", ");
    let unwritten = cache.may_be_unwritten();
    let written = match (unwritten, cache.unwritten_known) {
        (false, _) => gettext("Everything is on the hard disk already."),
        (true, true) => gettext("{amount} not yet on the hard disk is written to it first."),
        (true, false) => gettext("What is not yet on the hard disk is written to it first."),
    };
    let [removed, freed] = removed_words(cache.kind);
    let mut parts = vec![written, removed, freed];
    if unwritten {
        parts.extend(cancel_words(cache.kind));
    }
    let body = fill(
        &parts.join("\n\n"),
        &[
            ("amount", &bytes(cache.unwritten_bytes)),
            ("disk", &all(&cache.disks)),
            ("ssd", &all(&cache.ssds)),
            ("volume", &cache.name),
        ],
    );
    let (heading, agree) = match unwritten {
        true => (
            gettext("Write Back and Remove?"),
            gettext("_Write Back and Remove"),
        ),
        false => (gettext("Remove Cache?"), gettext("_Remove Cache")),
    };
    Consent {
        heading,
        body,
        agree,
    }
}

/// The question before the partition of a bcache device without a cache becomes a plain one.
fn make_plain_words(cache: &OtherCache) -> Consent {
    let disks: Vec<_> = cache.disks.iter().map(titled).collect();
    let parts = [
        gettext(
            "The partition on {disk} will begin where its file system begins, right behind the information of bcache. No files are changed or copied.",
        ),
        gettext(
            "The device “{volume}” is gone then. The file system keeps its UUID and its label, and you can mount it by them.",
        ),
        gettext(
            "If anything goes wrong, everything is put back. A copy of the partition table stays on this computer in {folder}.",
        ),
    ];
    Consent {
        heading: gettext("Make It a Plain Partition?"),
        body: fill(
            &parts.join("\n\n"),
            &[
                ("disk", &disks.join(", ")),
                ("volume", &cache.name),
                ("folder", TABLES_FOLDER),
            ],
        ),
        agree: gettext("_Make Plain"),
    }
}

/// What becomes of the disk, and of the SSD.
fn removed_words(kind: OtherKind) -> [String; 2] {
    match kind {
        OtherKind::Bcache => [
            gettext(
                "The cache is then taken from {disk}. The device “{volume}” stays in use all the time, with all its files.",
            ),
            gettext(
                "{ssd} keeps its bcache information, because another disk that is not connected now may have data on it. You can erase it when you use it for another cache.",
            ),
        ],
        OtherKind::DmCache
        | OtherKind::DmWritecache
        | OtherKind::DmWriteboost
        | OtherKind::RapidDisk => [
            gettext(
                "The cache is then taken from {disk}. The mapping “{volume}” stays in use all the time, with all its files.",
            ),
            gettext(
                "{ssd} is free then: its cache information is erased. A script that sets up the cache at each start of the computer begins with an empty cache: take the cache out of that script.",
            ),
        ],
        OtherKind::LvmCache | OtherKind::LvmWritecache => [
            gettext(
                "LVM then removes the cache from {disk}. The volume “{volume}” stays in use all the time, with all its files.",
            ),
            gettext("{ssd} stays in the volume group, with free space."),
        ],
    }
}

/// What happens when the person cancels, and what waits meanwhile.
fn cancel_words(kind: OtherKind) -> Vec<String> {
    let stays = || gettext("You can cancel while it writes. The cache then stays.");
    match kind {
        OtherKind::LvmWritecache => vec![
            gettext(
                "You can cancel while it writes. The cache then stays, but LVM may go on writing until everything is on the hard disk.",
            ),
            gettext("Other LVM commands wait meanwhile."),
        ],
        OtherKind::LvmCache => vec![stays(), gettext("Other LVM commands wait meanwhile.")],
        _ => vec![stays()],
    }
}

fn titled(device: &DeviceText) -> String {
    [plain_name(device), device_facts(device)].join(SEPARATOR)
}

/// The system, and the name by which its tools know the cache.
#[must_use]
pub fn other_name(cache: &OtherCache) -> String {
    let kind = match cache.kind {
        OtherKind::Bcache => "bcache".to_owned(),
        OtherKind::LvmCache => gettext("LVM cache"),
        OtherKind::LvmWritecache => gettext("LVM write cache"),
        OtherKind::DmCache => "dm-cache".to_owned(),
        OtherKind::DmWritecache => "dm-writecache".to_owned(),
        OtherKind::DmWriteboost => "dm-writeboost".to_owned(),
        OtherKind::RapidDisk => "RapidDisk".to_owned(),
    };
    format!("{kind} “{}”", cache.name)
}

fn mode_words(mode: OtherMode) -> String {
    match mode {
        OtherMode::Writethrough => mode_name(Mode::Writethrough),
        OtherMode::Writearound => mode_name(Mode::Writearound),
        OtherMode::Writeback => mode_name(Mode::Writeback),
        OtherMode::Off => gettext("Not used"),
        OtherMode::Unknown => String::new(),
    }
}

/// How full the cache is, and how often it helps.
fn amounts(cache: &OtherCache) -> Option<String> {
    let mut words = Vec::new();
    if cache.cache_bytes > 0 {
        words.push(fill(
            &gettext("{used} of {size} used"),
            &[
                ("used", &bytes(cache.used_bytes)),
                ("size", &bytes(cache.cache_bytes)),
            ],
        ));
    }
    let all = cache.read_hits.saturating_add(cache.read_misses);
    if all > 0 {
        let share = percent(cache.read_hits as f64 / all as f64);
        // Translators: the other system counts only roughly
        let about = gettext("about {share} from the SSD");
        words.push(fill(&about, &[("share", &share)]));
    }
    (!words.is_empty()).then(|| words.join(SEPARATOR))
}

fn state_words(cache: &OtherCache) -> Option<String> {
    match cache.state {
        OtherState::WithoutSsd if cache.is_left_alone() => Some(gettext(
            "No cache is left; the files are still reached through bcache",
        )),
        OtherState::Working => None,
        OtherState::Cleaning => Some(gettext("Writing everything to the hard disk")),
        OtherState::Stopping => Some(gettext(
            "Was stopped while it was in use. What is on the SSD stays there.",
        )),
        OtherState::WithoutSsd => Some(gettext("Works without its SSD")),
        OtherState::Failed => Some(gettext("Has failed; its own tools tell more")),
    }
}

/// The sentence on the data that the hard disk lacks.
fn safety_words(cache: &OtherCache) -> String {
    match (cache.may_be_unwritten(), cache.unwritten_known) {
        (true, _) if cache.kind == OtherKind::RapidDisk => {
            gettext("Data may be in memory only. It is lost when the computer is switched off.")
        }
        (false, _) => gettext("Everything is on the hard disk."),
        (true, true) => fill(
            &gettext("{amount} not yet on the hard disk. Do not use the disk without the SSD."),
            &[("amount", &bytes(cache.unwritten_bytes))],
        ),
        (true, false) => gettext(
            "Data may be on the SSD that is not on the hard disk. Do not use the disk without the SSD.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::device;

    fn cache() -> OtherCache {
        OtherCache {
            mount_points: vec!["/srv".into()],
            disks: vec![device("WDC")],
            ssds: vec![device("Flash")],
            cache_bytes: 100_000_000_000,
            used_bytes: 4_000_000_000,
            unwritten_bytes: 2_000_000_000,
            read_hits: 3,
            read_misses: 1,
            ..OtherCache::empty(OtherKind::Bcache, "bcache0")
        }
    }

    #[test]
    fn a_cache_says_where_it_is_and_what_the_disk_lacks() {
        let [title, words] = other_words(&cache());
        assert!(title.starts_with("WDC") && title.contains("S1"), "{title}");
        for part in [
            "bcache0",
            "/srv",
            "On Flash",
            "about 75%",
            "Do not use the disk without",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        let complete = OtherCache {
            unwritten_bytes: 0,
            ..cache()
        };
        assert!(other_words(&complete)[1].ends_with("Everything is on the hard disk."));
    }

    #[test]
    fn the_question_names_the_devices_and_what_the_disk_lacks() {
        let lvm = OtherCache {
            kind: OtherKind::LvmWritecache,
            name: "films/my-movies".into(),
            ..cache()
        };
        let question = remove_other_words(&lvm);
        assert_eq!(question.heading, "Write Back and Remove?");
        let body = question.body.replace('\u{a0}', " ");
        for part in [
            "WDC",
            "S1",
            "4.0 GB",
            "Flash",
            "2.0 GB not yet",
            "films/my-movies",
            "go on writing",
        ] {
            assert!(body.contains(part), "{part}: {body}");
        }
        let clean = OtherCache {
            unwritten_bytes: 0,
            ..lvm
        };
        let question = remove_other_words(&clean);
        assert_eq!(question.heading, "Remove Cache?");
        assert!(!question.body.contains("cancel"), "{}", question.body);
    }

    #[test]
    fn a_device_without_a_cache_is_made_plain_and_the_question_says_how() {
        let alone = OtherCache {
            state: OtherState::WithoutSsd,
            ssds: vec![],
            unwritten_bytes: 0,
            ..cache()
        };
        assert!(other_words(&alone)[1].contains("No cache is left"));
        let question = remove_other_words(&alone);
        assert_eq!(question.heading, "Make It a Plain Partition?");
        for part in ["WDC", "bcache0", "/var/lib/tandem/tables", "No files"] {
            assert!(question.body.contains(part), "{part}: {}", question.body);
        }
        // Its SSD is missing, and may come back.
        let missing = OtherCache {
            unwritten_known: false,
            ..alone
        };
        assert!(other_words(&missing)[1].contains("Works without its SSD"));
        assert_eq!(
            remove_other_words(&missing).heading,
            "Write Back and Remove?"
        );
    }

    #[test]
    fn what_is_not_known_is_not_said_to_be_safe() {
        let mut unknown = OtherCache {
            unwritten_known: false,
            unwritten_bytes: 0,
            cache_bytes: 0,
            read_hits: 0,
            read_misses: 0,
            ssds: vec![],
            disks: vec![],
            state: OtherState::Failed,
            ..cache()
        };
        for (mode, safe) in [
            (OtherMode::Writeback, false),
            (OtherMode::Unknown, false),
            (OtherMode::Off, false),
            (OtherMode::Writethrough, true),
            (OtherMode::Writearound, true),
        ] {
            unknown.kind = OtherKind::DmCache;
            unknown.state = OtherState::Working;
            unknown.mode = mode;
            let [title, words] = other_words(&unknown);
            assert_eq!(title, "bcache0");
            assert_eq!(
                words.contains("Everything is on the hard disk"),
                safe,
                "{words}"
            );
            // A failed cache tells nothing, and bcache keeps data of an earlier mode.
            unknown.state = OtherState::Failed;
            assert!(other_words(&unknown)[1].contains("Do not use"));
            (unknown.kind, unknown.state) = (OtherKind::Bcache, OtherState::Stopping);
            assert!(other_words(&unknown)[1].contains("Do not use"));
            unknown.kind = OtherKind::RapidDisk;
        }
    }
}

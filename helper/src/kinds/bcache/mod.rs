// SPDX-License-Identifier: GPL-3.0-or-later
//! bcache, as its files in sysfs tell. Each file may be missing: kernels differ.

mod plain;
mod remove;
mod table;
mod tools;

pub(super) use plain::MakePlain;

use super::system::{Find, Found, System, Told};
use crate::machine::blocks::{line, names_in};
use std::fs;
use std::path::{Path, PathBuf};
use tandem_api::{OtherKind, OtherMode, OtherState};

/// bcache holds a lock while it starts a set, and over an SSD that does not answer.
pub(super) const SYSTEM: System = System {
    find: Find::Files(list),
    may_hang: &[OtherKind::Bcache],
    removers: &[(OtherKind::Bcache, &remove::Remove)],
};

/// All devices of bcache under this sysfs. Used bytes are known to a percent, unwritten ones to three digits, and reads are
/// counted together with writes: the kernel loses counts above 65,535 in 13 s.
fn list(sysfs: &Path) -> Vec<Found> {
    names_in(sysfs.join("block"))
        .into_iter()
        .filter(|name| name.starts_with("bcache"))
        .filter_map(|name| device(sysfs, name))
        .collect()
}

fn device(sysfs: &Path, name: String) -> Option<Found> {
    let block = sysfs.join("block").join(&name);
    let own = block.join("bcache");
    // The folder is gone as soon as a device is stopped, though it works on as long as it is mounted.
    let state = line(own.join("state"));
    let set = fs::canonicalize(own.join("cache")).ok();
    let caches: Vec<_> = set.iter().flat_map(|set| caches(set)).collect();
    let (mut cache_bytes, mut used_bytes) = (0, 0);
    for cache in &caches {
        let sectors: u64 = line(cache.join("../size"))
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        cache_bytes += sectors.saturating_mul(512);
    }
    let available = set
        .as_ref()
        .and_then(|set| line(set.join("cache_available_percent")));
    if let Some(percent) = available.and_then(|n| n.parse::<u64>().ok()) {
        used_bytes = cache_bytes / 100 * (100 - percent.min(100));
    }
    let count = |file: &str| {
        let told = line(own.join("stats_total").join(file));
        told.and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    if state.is_none() && own.is_dir() {
        // A volume on the SSD alone, which is no cache.
        return None;
    }
    let dirty = || line(own.join("dirty_data")).and_then(|told| bytes(&told));
    let (state, unwritten_bytes) = match state.as_deref() {
        Some("clean") => (OtherState::Working, Some(0)),
        // The disk was detached, which writes everything, or its set is not there, and then it was clean.
        Some("no cache") => (OtherState::WithoutSsd, Some(0)),
        // For some time after the last byte it is dirty all the same, and refuses to work without its SSD.
        Some("dirty") => (OtherState::Working, dirty().filter(|bytes| *bytes > 0)),
        Some(_) => (OtherState::Failed, None),
        None => (OtherState::Stopping, None),
    };
    Some(Found {
        kind: OtherKind::Bcache,
        // A stopped device works on with its SSD, of which nothing is told any more.
        ssds_alone: state != OtherState::Stopping
            && set.as_ref().is_none_or(|set| members(set) <= 1),
        disk: disk(sysfs, &block)?,
        ssds: caches
            .iter()
            .filter_map(|cache| block_name(cache))
            .collect(),
        told: Told {
            state,
            mode: line(own.join("cache_mode")).map_or(OtherMode::Unknown, |all| chosen(&all)),
            cache_bytes,
            used_bytes,
            unwritten_bytes,
            reads: (count("cache_hits"), count("cache_misses")),
            beside: Vec::new(),
        },
        name,
    })
}

/// The disk below a device. Its folder is in that of the disk. When it is gone, the disk is the one below the device that is
/// no cache.
fn disk(sysfs: &Path, block: &Path) -> Option<String> {
    let own = block.join("bcache");
    if own.exists() {
        return backing(&own);
    }
    let is_cache = |name: &String| {
        sysfs
            .join("class/block")
            .join(name)
            .join("bcache/set")
            .exists()
    };
    let below = names_in(block.join("slaves"));
    below.into_iter().find(|name| !is_cache(name))
}

/// The folders of the caches of a set.
fn caches(set: &Path) -> Vec<PathBuf> {
    let numbered = |name: &String| {
        let number = name.strip_prefix("cache");
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let all = names_in(set).into_iter().filter(numbered);
    all.filter_map(|name| fs::canonicalize(set.join(name)).ok())
        .collect()
}

/// How many devices a set serves: disks, and volumes on the SSD alone.
fn members(set: &Path) -> usize {
    let numbered = |name: &&String| {
        let number = ["bdev", "volume"]
            .iter()
            .find_map(|kind| name.strip_prefix(kind));
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    names_in(set).iter().filter(numbered).count()
}

/// The kernel name of the device whose folder `bcache` this is.
fn block_name(cache: &Path) -> Option<String> {
    Some(cache.parent()?.file_name()?.to_str()?.to_owned())
}

/// The kernel name of the disk whose folder `bcache` this link of a device leads to.
fn backing(own: &Path) -> Option<String> {
    block_name(&fs::canonicalize(own).ok()?)
}

/// The word in brackets.
fn bracketed(all: &str) -> Option<&str> {
    Some(all.split_once('[')?.1.split_once(']')?.0)
}

/// The mode in brackets.
fn chosen(all: &str) -> OtherMode {
    match bracketed(all) {
        Some("writethrough") => OtherMode::Writethrough,
        Some("writeback") => OtherMode::Writeback,
        Some("writearound") => OtherMode::Writearound,
        Some("none") => OtherMode::Off,
        _ => OtherMode::Unknown,
    }
}

/// Bytes of a text such as `64.0M`, with units of 1024.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "k" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        _ => return None,
    };
    let (whole, tenths) = digits.split_once('.').unwrap_or((digits, "0"));
    let whole: u64 = whole.parse().ok()?;
    let tenths: u64 = tenths.get(..1)?.parse().ok()?;
    let unit = 1_u64 << shift;
    Some(whole.checked_mul(unit)?.saturating_add(unit / 10 * tenths))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// The files of one disk and one SSD, as Linux 6.1 has them.
    fn sysfs() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        write("devices/vdc/bcache/state", "dirty\n");
        write(
            "devices/vdc/bcache/cache_mode",
            "writethrough [writeback] writearound none\n",
        );
        write("devices/vdc/bcache/dirty_data", "64.0M\n");
        write("devices/vdc/bcache/stats_total/cache_hits", "1091\n");
        write("devices/vdc/bcache/stats_total/cache_misses", "1044\n");
        // The kernel links the SSD there as well.
        write("block/bcache0/slaves/vdb/size", "");
        write("block/bcache0/slaves/vdc/size", "");
        write("class/block/vdb/bcache/set/x", "");
        write("fs/bcache/0a1b/cache_available_percent", "96\n");
        write("devices/vdb/size", "2097152\n");
        fs::create_dir_all(at("devices/vdb/bcache")).unwrap();
        symlink(at("devices/vdc/bcache"), at("block/bcache0/bcache")).unwrap();
        symlink(at("devices/vdb/bcache"), at("fs/bcache/0a1b/cache0")).unwrap();
        symlink(at("fs/bcache/0a1b"), at("devices/vdc/bcache/cache")).unwrap();
        write("block/sda/size", "1\n");
        root
    }

    #[test]
    fn a_device_tells_its_disk_its_ssd_and_what_it_holds() {
        let root = sysfs();
        let [cache] = list(root.path()).try_into().unwrap();
        assert_eq!(
            (cache.name.as_str(), cache.disk.as_str()),
            ("bcache0", "vdc")
        );
        assert_eq!(cache.ssds, ["vdb"]);
        assert_eq!(
            (cache.told.state, cache.told.mode),
            (OtherState::Working, OtherMode::Writeback)
        );
        assert_eq!(cache.told.cache_bytes, 1 << 30);
        assert_eq!(cache.told.used_bytes, (1 << 30) / 100 * 4);
        assert_eq!(
            (cache.told.unwritten_bytes, cache.told.reads),
            (Some(64 << 20), (1091, 1044))
        );
    }

    #[test]
    fn only_what_is_clean_is_said_to_be_complete() {
        let root = sysfs();
        let own = root.path().join("devices/vdc/bcache");
        let cache = || -> Found {
            let [cache] = list(root.path()).try_into().unwrap();
            cache
        };
        fs::write(own.join("dirty_data"), "0.0k\n").unwrap();
        for (state, expected, unwritten) in [
            ("dirty", OtherState::Working, None),
            ("clean", OtherState::Working, Some(0)),
            ("inconsistent", OtherState::Failed, None),
            ("no cache", OtherState::WithoutSsd, Some(0)),
        ] {
            fs::write(own.join("state"), state).unwrap();
            assert_eq!(
                (cache().told.state, cache().told.unwritten_bytes),
                (expected, unwritten),
                "{state}"
            );
        }
        fs::remove_file(own.join("cache")).unwrap();
        assert_eq!((cache().ssds.len(), cache().told.cache_bytes), (0, 0));
        // The cache was stopped under its mounted file system: nothing is known any more, nothing was written back.
        fs::remove_file(root.path().join("block/bcache0/bcache")).unwrap();
        assert_eq!(
            (cache().told.state, cache().told.unwritten_bytes),
            (OtherState::Stopping, None)
        );
        assert_eq!((cache().disk.as_str(), cache().ssds_alone), ("vdc", false));
    }

    #[test]
    fn an_ssd_that_serves_two_disks_is_not_that_of_one_alone() {
        let root = sysfs();
        let alone = || list(root.path()).iter().all(|cache| cache.ssds_alone);
        let set = root.path().join("fs/bcache/0a1b");
        fs::create_dir_all(set.join("bdev0")).unwrap();
        assert!(alone());
        fs::create_dir_all(set.join("volume0")).unwrap();
        assert!(!alone());
    }

    #[test]
    fn a_volume_on_the_ssd_alone_is_no_cache() {
        let root = sysfs();
        fs::create_dir_all(root.path().join("block/bcache1/bcache")).unwrap();
        fs::create_dir_all(root.path().join("block/bcache1/slaves/vdb")).unwrap();
        assert_eq!(list(root.path()).len(), 1);
    }

    #[test]
    fn texts_for_people_become_bytes() {
        for (text, expected) in [
            ("0.0k", Some(0)),
            ("4.0k", Some(4096)),
            ("63.9M", Some((63 << 20) + (1 << 20) / 10 * 9)),
            ("1.5T", Some((1 << 40) + (1 << 40) / 10 * 5)),
            ("512", Some(512)),
            ("-1.0k", None),
            ("9.0X", None),
            ("99999999999999P", None),
            ("", None),
            (".5k", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The initial file systems (initramfs), which assemble the cache of the root file system before it is mounted.
//!
//! An initial file system has a copy of the record of that cache. The copy may be old: the newest one that could be
//! made, or one of a kernel that was not updated. So nothing in it may do harm. It only says which disk and which SSD
//! belong together; whether the copies on the SSD are worth anything the SSD says itself, and an SSD that was freed
//! does not carry the cache's format any more.

use crate::machine::module;
use crate::machine::store::Store;
use crate::model::record::{CacheRecord, Setup};
use std::path::Path;
use std::{fs, io};
use tandem_api::Target;

/// Our hook leaves a file here for each kernel whose initial file system it has put records into.
const MADE: &str = "/run/tandem-initramfs";

/// Copies the records that an initial file system needs into a folder that is empty or not there. Returns the modules of the
/// kernel that serve them; none if there is no such record. The copies do not say what may be true at one start only.
/// `lacking`: modules that the kernel does not have; the records of the caches that need one of these are left out.
///
/// # Errors
/// If the folder cannot be written.
pub fn export(store: &Store, folder: &Path, lacking: &[String]) -> io::Result<Vec<&'static str>> {
    let lacks = |target| {
        modules(target)
            .iter()
            .any(|&module| lacking.iter().any(|l| l == module))
    };
    let records: Vec<_> = store
        .caches()
        .into_iter()
        .filter(|record| is_needed(record) && !lacks(record.pair.target))
        .collect();
    if records.is_empty() {
        return Ok(Vec::new());
    }
    fs::create_dir_all(folder)?;
    let copies = Store::open(folder)?;
    for record in &records {
        let mut copy = record.clone();
        copy.setup = Setup::Done;
        (copy.pair.copies_stale, copy.pair.lost_generation) = (false, 0);
        copies.save_cache(&copy)?;
    }
    let served_by = |target| records.iter().any(|record| record.pair.target == target);
    let needed = Target::ALL.iter().filter(|target| served_by(**target));
    Ok(needed
        .flat_map(|target| modules(*target))
        .copied()
        .collect())
}

/// The modules of a target.
fn modules(target: Target) -> &'static [&'static str] {
    match target {
        Target::Tandem => &["dm_tandem"],
        // The policy is a module of its own.
        Target::DmCache => &["dm_cache", "dm_cache_smq"],
    }
}

/// Whether the running kernel's initial file system got the records that are to be in it, when they were made last.
/// The tools end well also if they find no kernel, or if our hook put nothing into the initial file system.
pub fn is_complete(store: &Store) -> bool {
    let made = Path::new(MADE).join(module::release());
    made.exists() || !store.caches().iter().any(is_needed)
}

/// Whether an initial file system needs this record. A volume may not be there by then, and each start would wait for it:
/// no such cache is created any more.
pub fn is_needed(record: &CacheRecord) -> bool {
    record.in_initramfs && record.detached_in.is_none() && !record.pair.origin.is_volume()
}

#[cfg(test)]
mod package_tests;
#[cfg(test)]
mod replace_tests;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::action::Pair;
    use tandem_api::Mode;

    #[test]
    fn only_the_records_of_caches_below_the_running_system_are_copied() {
        let root = std::env::temp_dir().join(format!("tandem-export-{}", std::process::id()));
        let (from, to) = (root.join("from"), root.join("to"));
        fs::create_dir_all(&from).unwrap();
        let store = Store::open(&from).unwrap();
        let pair = |digit: &str| Pair {
            uuid: digit.repeat(32),
            ..Pair::nowhere(Mode::Writethrough)
        };
        store.save_cache(&CacheRecord::new(pair("a"))).unwrap();
        assert!(export(&store, &to, &[]).unwrap().is_empty());
        assert!(!to.exists());
        let system = CacheRecord::prepared(pair("b"), "boot".into(), true);
        let removed = CacheRecord {
            detached_in: Some("boot".into()),
            ..CacheRecord::prepared(pair("c"), "boot".into(), true)
        };
        let mut volume = CacheRecord::prepared(pair("d"), "boot".into(), true);
        volume.pair.origin.hardware = "CRYPT-LUKS2-0a-root".into();
        for record in [&system, &removed, &volume] {
            store.save_cache(record).unwrap();
        }
        assert_eq!(export(&store, &to, &[]).unwrap(), ["dm_tandem"]);
        let expected = CacheRecord {
            in_initramfs: true,
            ..CacheRecord::new(pair("b"))
        };
        assert_eq!(Store::open_untidied(&to).caches(), [expected]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_modules_are_those_of_what_serves_the_caches() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(root.path()).unwrap();
        let needed = |digit: &str, target, lacking: &[&str]| {
            let pair = Pair {
                uuid: digit.repeat(32),
                target,
                ..Pair::nowhere(Mode::Writethrough)
            };
            let record = CacheRecord::prepared(pair, "boot".into(), true);
            store.save_cache(&record).unwrap();
            let lacking: Vec<_> = lacking.iter().map(|&name| name.to_owned()).collect();
            let to = root.path().join(digit);
            let modules = export(&store, &to, &lacking).unwrap();
            let copies = to
                .exists()
                .then(|| Store::open_untidied(&to).caches().len());
            (modules, copies.unwrap_or(0))
        };
        let of_kernel = vec!["dm_cache", "dm_cache_smq"];
        assert_eq!(needed("a", Target::DmCache, &[]), (of_kernel.clone(), 1));
        let both = vec!["dm_tandem", "dm_cache", "dm_cache_smq"];
        assert_eq!(needed("b", Target::Tandem, &[]), (both, 2));
        // A kernel that cannot serve one of the caches serves the other.
        let without = needed("c", Target::Tandem, &["dm_tandem"]);
        assert_eq!(without, (of_kernel, 1));
        let without = needed("d", Target::Tandem, &["dm_cache_smq"]);
        assert_eq!(without, (vec!["dm_tandem"], 3));
        let without = needed("e", Target::Tandem, &["dm_tandem", "dm_cache"]);
        assert_eq!(without, (vec![], 0));
    }
}

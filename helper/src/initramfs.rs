// SPDX-License-Identifier: GPL-3.0-or-later
//! The initial file systems (initramfs), which assemble the cache of the root file system before it is mounted.
//!
//! An initial file system has a copy of the record of that cache. The copy may be old: the newest one that could be
//! made, or one of a kernel that was not updated. So nothing in it may do harm. It only says which disk and which SSD
//! belong together; whether the copies on the SSD are worth anything the SSD says itself, and an SSD that was freed
//! does not carry the cache's format any more.

use crate::module;
use crate::mounts::systemd;
use crate::state::{CacheRecord, Setup, Store};
use std::path::Path;
use std::time::Duration;
use std::{fs, io};
use tandem_api::{Failure, Kind};
use zbus::Connection;

/// Our hook leaves a file here for each kernel whose initial file system it has put records into.
const MADE: &str = "/run/tandem-initramfs";

/// A tool that makes initial file systems.
struct Tool {
    /// Files that are all there where the tool is in use. dracut may bring an `update-initramfs` of its own, and
    /// `mkinitramfs` may be left over from before dracut was installed.
    programs: &'static [&'static str],
    /// The file of ours that the tool runs to put the cache into an initial file system.
    hook: &'static str,
    /// The unit that has the tool make the initial file systems of all kernels anew. The sandbox of the service does
    /// not allow that.
    unit: &'static str,
    /// How long the service waits for the unit: a minute longer than systemd, so that the answer is the unit's own.
    limit: Duration,
}

/// The tools that are known. Where there are several, the first one makes what the machine starts from: the others
/// are there without their packages' hooks for new kernels.
const TOOLS: [Tool; 2] = [
    Tool {
        programs: &["/usr/sbin/mkinitramfs", "/usr/sbin/update-initramfs"],
        hook: "/usr/share/initramfs-tools/hooks/tandem",
        unit: "tandem-initramfs.service",
        limit: Duration::from_secs(11 * 60),
    },
    Tool {
        programs: &["/usr/bin/dracut"],
        hook: "/usr/lib/dracut/modules.d/90tandem/module-setup.sh",
        unit: "tandem-dracut.service",
        limit: Duration::from_secs(21 * 60),
    },
];

/// The tool that makes this machine's initial file systems, if it puts caches into them.
fn tool() -> Option<&'static Tool> {
    let there = |tool: &&Tool| tool.programs.iter().all(|file| Path::new(file).exists());
    let made_by = TOOLS.iter().find(there);
    made_by.filter(|tool| Path::new(tool.hook).exists())
}

/// Whether this machine has a tool that makes initial file systems which assemble caches.
pub fn can_assemble() -> bool {
    tool().is_some()
}

/// Has the initial file systems of all kernels made anew.
///
/// # Errors
/// `StepFailed` if there is no tool or the tool fails. The initial file systems of before stay then.
pub async fn update(connection: &Connection) -> Result<(), Failure> {
    let failed = |why: String| {
        Failure::new(Kind::StepFailed).detail(format_args!(
            "the initial file systems are as before: {why}"
        ))
    };
    let Tool { unit, limit, .. } =
        tool().ok_or_else(|| failed("no known tool makes them".to_owned()))?;
    let started = systemd::start_within(connection, unit, *limit).await;
    started.map_err(|e| failed(format!("{e}; “journalctl -u {unit}” tells why")))
}

/// Copies the records that an initial file system needs into a folder that is empty or not there. Returns their
/// number. The copies do not say what may be true at one start only.
///
/// # Errors
/// If the folder cannot be written.
pub fn export(store: &Store, folder: &Path) -> io::Result<usize> {
    let records: Vec<_> = store.caches().into_iter().filter(is_needed).collect();
    if records.is_empty() {
        return Ok(0);
    }
    fs::create_dir_all(folder)?;
    let copies = Store::open(folder)?;
    for record in &records {
        let mut copy = record.clone();
        copy.setup = Setup::Done;
        (copy.pair.copies_stale, copy.pair.lost_generation) = (false, 0);
        copies.save_cache(&copy)?;
    }
    Ok(records.len())
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
mod package;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Pair;
    use tandem_api::Mode;

    /// Minutes that a unit may take to start.
    fn minutes(unit: &str) -> u64 {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/systemd");
        let text = fs::read_to_string(file.join(unit)).unwrap();
        let limit = text
            .lines()
            .find_map(|l| l.strip_prefix("TimeoutStartSec="));
        limit.unwrap().strip_suffix("min").unwrap().parse().unwrap()
    }

    #[test]
    fn the_service_waits_longer_for_a_unit_than_systemd_does() {
        for tool in TOOLS {
            let limit = Duration::from_secs(60 * (minutes(tool.unit) + 1));
            assert_eq!(tool.limit, limit, "{}", tool.unit);
        }
        for unit in ["tandem-grub.service", "tandem-names.service"] {
            assert!(systemd::LIMIT > Duration::from_secs(60 * minutes(unit)));
        }
    }

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
        assert_eq!(export(&store, &to).unwrap(), 0);
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
        assert_eq!(export(&store, &to).unwrap(), 1);
        let expected = CacheRecord {
            in_initramfs: true,
            ..CacheRecord::new(pair("b"))
        };
        assert_eq!(Store::open_untidied(&to).caches(), [expected]);
        fs::remove_dir_all(root).unwrap();
    }
}

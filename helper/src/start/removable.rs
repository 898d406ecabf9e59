// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether the programs may be removed from the machine: `tandem-helper --removable`, which the package's scripts run.
//!
//! The records decide, so the answer needs neither the bus nor the module, and is right before the service has started.

use crate::machine::store::Store;
use crate::model::record::CacheRecord;
use std::path::Path;
use tandem_api::DeviceText;

const ADVICE: &str = "Open Tandem and choose \u{201c}Write Back and Remove\u{201d}, or run \u{201c}tandemctl remove\u{201d}. \
                      Then remove the package again.";

/// Why the programs must stay, in plain words; `None` if every disk has all of its data. `under_way`:
/// [`UNDER_WAY`](crate::model::removal::UNDER_WAY).
pub fn refusal(folder: &Path, under_way: &Path) -> Option<String> {
    // Without the folder no cache was ever set up.
    if !folder.is_dir() {
        return None;
    }
    let store = Store::open_untidied(folder);
    let jobs = store.intents().len();
    let (caches, files) = (store.caches(), records(&folder.join("caches")));
    let unwritten: Vec<_> = caches.iter().filter(|cache| cache.may_be_dirty).collect();
    if !unwritten.is_empty() {
        let list: String = unwritten.iter().map(|cache| line(cache)).collect();
        return Some(format!(
            "Tandem cannot be removed now: data may be on an SSD that is not yet on its hard disk.\n{list}{ADVICE}"
        ));
    }
    if caches.len() < files {
        return Some(format!(
            "Tandem cannot be removed now: a record in {} cannot be read, so nobody knows whether its hard disk has \
             all of its data. \u{201c}journalctl -u tandem\u{201d} names the record.",
            folder.display()
        ));
    }
    // A partition that bcache has left may be in the middle of its move.
    if jobs > 0
        || records(under_way) > 0
        || ["jobs", "moves"]
            .iter()
            .any(|kind| records(&folder.join(kind)) > 0)
    {
        return Some(
            "Tandem cannot be removed now: it is changing a disk. Wait until that has ended, and remove the package \
             again."
                .into(),
        );
    }
    None
}

/// Number of records in a folder, readable or not.
fn records(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "json"))
        .count()
}

fn line(cache: &CacheRecord) -> String {
    let (disk, ssd) = (&cache.pair.origin.text, &cache.pair.ssd.text);
    format!(
        "  {}: its newest data may be on {}\n",
        named(disk),
        named(ssd)
    )
}

fn named(device: &DeviceText) -> String {
    let words = [&device.label, &device.model];
    let words: Vec<_> = words
        .into_iter()
        .filter(|w| !w.is_empty())
        .cloned()
        .collect();
    let serial = if device.serial.is_empty() {
        &device.name
    } else {
        &device.serial
    };
    let text = format!("{} ({serial})", words.join(", "));
    text.trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::action::Pair;
    use std::fs;
    use std::path::PathBuf;
    use tandem_api::Mode;

    fn folder(name: &str) -> (PathBuf, Store) {
        let root = std::env::temp_dir().join(format!("tandem-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let store = Store::open(&root).unwrap();
        (root, store)
    }

    #[test]
    fn only_caches_whose_disks_have_everything_may_be_left_behind() {
        let (root, store) = folder("removable");
        assert_eq!(refusal(&root, &root.join("none")), None);
        store
            .save_cache(&CacheRecord::new(Pair::nowhere(Mode::Writethrough)))
            .unwrap();
        assert_eq!(refusal(&root, &root.join("none")), None);
        let mut pair = Pair::nowhere(Mode::Writeback);
        pair.uuid = "cd".repeat(16);
        pair.origin.text.model = "Barge".into();
        pair.ssd.text.serial = "DART0001".into();
        store.save_cache(&CacheRecord::new(pair)).unwrap();
        let said = refusal(&root, &root.join("none")).unwrap();
        assert!(
            said.contains("Barge") && said.contains("DART0001"),
            "{said}"
        );
        assert!(said.contains("tandemctl remove"), "{said}");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_partition_in_the_middle_of_its_move_keeps_the_programs() {
        let (root, _store) = folder("removable-move");
        let moves = root.join("moves");
        fs::create_dir(&moves).unwrap();
        assert_eq!(refusal(&root, &root.join("none")), None);
        fs::write(moves.join("abcd.json"), "{}").unwrap();
        assert!(
            refusal(&root, &root.join("none"))
                .unwrap()
                .contains("changing a disk")
        );
        fs::remove_dir_all(&moves).unwrap();
        // The cache of another system is being removed: its mapping may be suspended.
        let under_way = root.join("others");
        fs::create_dir(&under_way).unwrap();
        fs::write(under_way.join("slow.said"), "").unwrap();
        assert_eq!(refusal(&root, &under_way), None);
        fs::write(under_way.join("slow.json"), "{}").unwrap();
        assert!(
            refusal(&root, &under_way)
                .unwrap()
                .contains("changing a disk")
        );
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_record_that_cannot_be_read_counts_as_unwritten_data() {
        let (root, _store) = folder("removable-damaged");
        fs::write(root.join("caches/abcd.cache.json"), "{").unwrap();
        assert!(
            refusal(&root, &root.join("none"))
                .unwrap()
                .contains("cannot be read")
        );
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_machine_that_never_had_a_cache_has_no_folder() {
        assert_eq!(
            refusal(Path::new("/nonexistent/tandem"), Path::new("/nonexistent")),
            None
        );
    }
}

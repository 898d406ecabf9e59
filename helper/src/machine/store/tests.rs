// SPDX-License-Identifier: GPL-3.0-or-later
//! Records on a file system, and what becomes of them.

use super::*;
use crate::machine::dm::status::StatusLine;
use crate::model::action::{Action, MountDevice};
use crate::model::facts::{Ident, Mount, Mounter};
use crate::model::live::Status;
use crate::model::record::WatchRecord;
use tandem_api::Mode;

fn status(line: &str) -> Status {
    line.parse::<StatusLine>().unwrap().status(0)
}

fn record(mode: Mode) -> CacheRecord {
    CacheRecord::new(Pair::nowhere(mode))
}

#[test]
fn records_keep_the_names_that_older_versions_wrote() {
    let mut cache = record(Mode::Writeback);
    (cache.origin_diverged, cache.pair.copies_stale) = (true, true);
    cache.pair.lost_generation = 7;
    let value = serde_json::to_value(&cache).unwrap();
    assert_eq!(value["forked"], true);
    assert_eq!(
        (&value["pair"]["cold"], &value["pair"]["lost"]),
        (&true.into(), &7.into())
    );
    let mount = Mount {
        point: "/data".to_owned(),
        root: "/".to_owned(),
        fstype: "ext4".to_owned(),
        options: "rw".to_owned(),
        mounter: Mounter::Other,
    };
    let device = MountDevice::Mapping(Box::new(cache.pair.clone()));
    for (action, path) in [
        (Action::Disassemble(cache.pair.clone()), "/GiveBack"),
        (Action::Mount(device, mount.clone()), "/Mount/0/Mapped"),
        (
            Action::Mount(MountDevice::Origin(Box::default()), mount),
            "/Mount/0/Plain",
        ),
    ] {
        let value = serde_json::to_value(&action).unwrap();
        assert!(value.pointer(path).is_some(), "{value}");
    }
    assert_eq!(serde_json::from_value::<CacheRecord>(value).unwrap(), cache);
}

// promise 19: programs/tandem_helper::machine::store::tests::a_lost_ssd_is_recorded_with_the_generation_it_had
#[test]
fn a_lost_ssd_is_recorded_with_the_generation_it_had() {
    let before = record(Mode::Writeback);
    let lost = before.clone().after(&status(
        "bypass ssd-error writeback 32 0/4096 0 2 generation 7",
    ));
    assert_eq!(
        (lost.pair.copies_stale, lost.pair.lost_generation),
        (true, 7)
    );
    assert!(lost.may_be_dirty, "it may still say so itself");
    // When the SSD is in use again it has another generation. A status does not show that the loss was repaired.
    let back = lost
        .clone()
        .after(&status("active - writeback 32 0/4096 0 2 generation 8"));
    assert_eq!(back, lost);
    // If the SSD has the only copy of some data, it is not lost: it is waited for.
    for line in [
        "active - writeback 32 9/4096 64 2 generation 7",
        "stranded ssd-error writeback 32 9/4096 64 2 generation 7",
    ] {
        assert_eq!(
            before.clone().after(&status(line)).pair.lost_generation,
            0,
            "{line}"
        );
    }
}

#[test]
fn only_the_module_takes_back_that_something_may_be_on_the_ssd_only() {
    let mut left = record(Mode::Writethrough);
    left.may_be_dirty = true;
    for (line, may_be_dirty) in [
        ("active - writethrough 32 9/4096 64 0", true),
        ("bypass ssd-error writethrough 32 0/4096 0 0", true),
        ("active - writeback 32 9/4096 0 0", true),
        ("active - writethrough 32 9/4096 0 0", false),
    ] {
        let now = left.clone().after(&status(line));
        assert_eq!(now.may_be_dirty, may_be_dirty, "{line}");
    }
}

#[test]
fn what_is_half_written_on_a_read_only_root_keeps_no_record_from_being_read() {
    let root = std::env::temp_dir().join(format!("tandem-tidy-{}", std::process::id()));
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("0a.cache.new"), "").unwrap();
    let fails = |errno: rustix::io::Errno| tidy(&root, |_| Err(errno.into()));
    assert!(fails(rustix::io::Errno::ROFS).is_ok());
    assert!(fails(rustix::io::Errno::IO).is_err());
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn what_a_cut_left_half_written_is_gone_at_the_next_start() {
    let root = std::env::temp_dir().join(format!("tandem-store-{}", std::process::id()));
    let half = root.join(JOBS).join("0a.create.new");
    let whole = root.join(JOBS).join("0b.create.json");
    Store::open(&root).unwrap();
    fs::write(&half, "").unwrap();
    fs::write(&whole, "{}").unwrap();
    Store::open_untidied(&root);
    assert!(half.exists(), "somebody may be writing it");
    Store::open(&root).unwrap();
    assert!(!half.exists() && whole.exists());
    fs::remove_dir_all(&root).unwrap();
}

/// A disk whose newest data is on an SSD only is used at the next start if no record says so.
#[test]
fn a_record_that_cannot_be_read_has_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let dirty = CacheRecord {
        may_be_dirty: true,
        ..record(Mode::Writeback)
    };
    let uuid = dirty.pair.uuid.clone();
    store.save_cache(&record(Mode::Writeback)).unwrap();
    store.save_cache(&dirty).unwrap();
    let file = folder.path().join(format!("caches/{uuid}.cache.json"));
    for damage in ["", "{", "\0\0\0\0"] {
        fs::write(&file, damage).unwrap();
        assert_eq!(store.caches(), std::slice::from_ref(&dirty), "{damage:?}");
        let changed = store.change_cache(&uuid, |now| now).unwrap();
        assert_eq!(changed.as_ref(), Some(&dirty));
        // The next start makes the record whole.
        Store::open(folder.path()).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("may_be_dirty"), "{text}");
    }
    // A removed record does not come back.
    store.drop_cache(&uuid).unwrap();
    assert_eq!(
        fs::read_dir(folder.path().join("caches")).unwrap().count(),
        0
    );
    assert_eq!(store.change_cache(&uuid, |_| dirty.clone()).unwrap(), None);
    // Nor what a cut left of a first record.
    fs::write(file.with_extension("copy"), "{}").unwrap();
    Store::open(folder.path()).unwrap();
    assert!(!file.with_extension("copy").exists());
}

#[test]
fn the_result_of_a_speed_test_stays_until_its_cache_goes_and_a_damaged_one_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let record = record(Mode::Writethrough);
    let uuid = &record.pair.uuid;
    let result = SpeedTest {
        time: 7,
        ..SpeedTest::none()
    };
    // Without a record nothing is kept.
    store.save_speed_test(uuid, &result).unwrap();
    assert!(store.load_speed_test(uuid).is_none());
    store.save_cache(&record).unwrap();
    store.save_speed_test(uuid, &result).unwrap();
    assert_eq!(
        Store::open(folder.path()).unwrap().load_speed_test(uuid),
        result
    );
    let kept = folder.path().join(format!("history/{uuid}.speed.json"));
    fs::write(&kept, "{\"time\":7").unwrap();
    assert!(store.load_speed_test(uuid).is_none());
    store.drop_cache(uuid).unwrap();
    assert!(!kept.exists());
}

/// The slow disk is a pipe that nobody reads at first: its writer waits.
#[test]
fn the_record_of_a_cache_waits_for_no_large_file_that_is_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let record = record(Mode::Writeback);
    let uuid = record.pair.uuid.clone();
    store.save_cache(&record).unwrap();
    let slow = folder.path().join(format!("history/{uuid}.history.new"));
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &slow, kind, mode, 0).unwrap();
    let (writer, cache) = (store.clone(), uuid.clone());
    let saves = std::thread::spawn(move || writer.save_history(&cache, &vec![0_u8; 1 << 20]));
    let (told, recorded) = std::sync::mpsc::channel();
    let changer = store.clone();
    std::thread::spawn(move || {
        // For a second, so that the writer has begun meanwhile.
        for minutes in 1..=100 {
            let set = |now| CacheRecord {
                shutdown_minutes: minutes,
                ..now
            };
            changer.change_cache(&uuid, set).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        told.send(()).unwrap();
    });
    let recorded = recorded.recv_timeout(std::time::Duration::from_secs(20));
    recorded.expect("the record waits");
    assert!(!saves.is_finished(), "the file was not slow");
    // A pipe cannot be flushed, so the save ends with an error.
    let mut pipe = fs::File::open(&slow).unwrap();
    std::io::copy(&mut pipe, &mut std::io::sink()).unwrap();
    assert!(saves.join().unwrap().is_err());
}

#[test]
fn what_was_seen_of_a_disk_goes_with_its_watch() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let store = Store::open(root).unwrap();
    let watch = |id: &str| WatchRecord {
        id: id.to_owned(),
        disk: Ident::default(),
        since: 1,
    };
    for id in ["a1", "b2"] {
        store.save_watch(&watch(id)).unwrap();
        store.save_watch_state(id, b"seen").unwrap();
    }
    // The service was killed while it forgot a watch.
    fs::remove_file(root.join("watches/a1.watch.json")).unwrap();
    let store = Store::open(root).unwrap();
    assert_eq!(store.load_watch_state("a1").unwrap(), None);
    let kept = store.load_watch_state("b2").unwrap();
    assert_eq!(kept.as_deref(), Some(&b"seen"[..]));
}

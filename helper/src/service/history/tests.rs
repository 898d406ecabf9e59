// SPDX-License-Identifier: GPL-3.0-or-later
//! Histories of caches over a simulated time.

use super::*;
use crate::model::action::Pair;
use crate::model::record::CacheRecord;
use std::fs;
use std::path::PathBuf;
use tandem_api::{Counter, Direction, Mode};

/// A time of the clock at which every period of every span begins, in seconds.
const MIDNIGHT: u64 = 20_000 * 24 * 3600;

/// A sample so many seconds after the start of the machine; read and written are bytes.
fn sample(seconds: u64, ssd: u64, disk: u64, written: u64) -> Sample {
    let sectors = |bytes: u64| bytes / SECTOR_BYTES;
    Sample {
        time_us: seconds * 1_000_000,
        read: Direction {
            requested: sectors(ssd + disk),
            hit: sectors(ssd),
            missed: sectors(disk),
            bypassed: vec![],
        },
        write: Direction {
            requested: sectors(written) + 7,
            hit: sectors(written),
            missed: 0,
            bypassed: vec![Counter {
                name: "discard".to_owned(),
                value: 7,
            }],
        },
        ..Sample::default()
    }
}

fn add(history: &mut History, seconds: u64, sample: &Sample) {
    history.add_at(sample, (MIDNIGHT + seconds) * 1_000_000);
}

fn sum(periods: &[Period]) -> [u64; 4] {
    let of = |part: fn(&Period) -> u64| periods.iter().map(part).sum();
    [
        of(|p| p.seconds),
        of(|p| p.read_ssd),
        of(|p| p.read_disk),
        of(|p| p.written),
    ]
}

struct Folder(PathBuf, Store);

impl Folder {
    /// A folder of records with one cache.
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("tandem-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let store = Store::open(&root).unwrap();
        let mut record = CacheRecord::new(Pair::nowhere(Mode::Writethrough));
        record.pair.uuid = UUID.to_owned();
        store.save_cache(&record).unwrap();
        Self(root, store)
    }

    fn save(&self, history: &mut History, last: bool) -> bool {
        let kept = history.to_save(last);
        if let Some(kept) = &kept {
            self.1.save_history(UUID, kept).unwrap();
        }
        kept.is_some()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const UUID: &str = "00112233445566778899aabbccddeeff";

#[test]
fn every_ring_has_every_byte_and_every_second() {
    let mut history = History::default();
    let mut at = 0;
    add(&mut history, 3, &sample(1003, 5120, 512, 0));
    for step in 1..200_u64 {
        at += 1 + step % 13;
        let now = sample(1003 + at, 5120 + at * 1024, 512 + at * 512, step * 512);
        add(&mut history, 3 + at, &now);
    }
    let all = [at, at * 1024, at * 512, 199 * 512];
    for span in Span::ALL.iter().copied() {
        let periods = history.read(span).periods;
        assert_eq!(sum(&periods), all, "{span}");
        let starts = |p: &Period| p.start.is_multiple_of(span.period_seconds());
        assert!(periods.iter().all(starts));
        assert!(periods.iter().all(|p| p.seconds <= span.period_seconds()));
        assert!(periods.windows(2).all(|pair| pair[0].start < pair[1].start));
    }
    assert_eq!(sum(&[history.read(Span::Day).total]), all);
    assert_eq!(history.read(Span::Day).total.start, MIDNIGHT + 3);
}

#[test]
fn what_came_in_a_long_time_is_spread_over_it() {
    let mut history = History::default();
    add(&mut history, 0, &sample(100, 0, 0, 512));
    add(&mut history, 40, &sample(140, 4096, 8192, 512));
    let hour = history.read(Span::Hour).periods;
    assert_eq!(
        hour.iter()
            .map(|p| (p.read_ssd, p.read_disk))
            .collect::<Vec<_>>(),
        [(1024, 2048); 4]
    );
    // A machine that slept for a day, with nothing read meanwhile.
    add(&mut history, 100_000, &sample(100_100, 4096, 8192, 512));
    assert_eq!(sum(&history.read(Span::Hour).periods)[1..], [0, 0, 0]);
    assert_eq!(
        sum(&history.read(Span::Month).periods)[1..],
        [4096, 8192, 0]
    );
}

#[test]
fn counters_that_begin_anew_count_whole() {
    let mut history = History::default();
    add(&mut history, 0, &sample(100, 51_200, 512, 512));
    // The machine was restarted: its clock and all counters are younger.
    add(&mut history, 500, &sample(50, 1024, 512, 0));
    // The cache was assembled anew, in the same boot.
    add(&mut history, 600, &sample(150, 512, 512, 512));
    let total = history.read(Span::Hour).total;
    assert_eq!(
        (total.read_ssd, total.read_disk, total.written),
        (1536, 1024, 512)
    );
}

#[test]
fn a_clock_that_goes_back_loses_nothing() {
    let mut history = History::default();
    add(&mut history, 5000, &sample(10, 0, 512, 0));
    add(&mut history, 5010, &sample(20, 1024, 512, 0));
    add(&mut history, 1000, &sample(30, 2048, 512, 0));
    for span in Span::ALL.iter().copied() {
        let periods = history.read(span).periods;
        assert_eq!(sum(&periods)[1], 2048, "{span}");
        assert!(periods.windows(2).all(|pair| pair[0].start < pair[1].start));
    }
}

#[test]
fn forty_days_stay_bounded() {
    let mut history = History::default();
    for minute in 1..40 * 24 * 60_u64 {
        let now = sample(minute * 60, minute * 51_200, minute * 512, minute * 1024);
        add(&mut history, minute * 60, &now);
    }
    let all = Span::ALL
        .iter()
        .map(|span| history.read(*span).periods.len());
    assert!(all.sum::<usize>() <= MAX_PERIODS);
    assert!(history.read(Span::Month).periods.len() >= 720);
    let file = serde_json::to_vec(&history.kept).unwrap().len();
    assert!(file < 300_000, "{file}");
}

#[test]
fn the_file_is_written_rarely_and_only_if_something_happened() {
    let folder = Folder::new("history-save");
    let mut history = History::load(&folder.1, UUID);
    assert!(!folder.save(&mut history, true));
    add(&mut history, 0, &sample(100, 0, 512, 0));
    assert!(folder.save(&mut history, false), "the history begins");
    add(&mut history, 10, &sample(110, 512, 512, 0));
    assert!(
        !folder.save(&mut history, false),
        "ten minutes are not over"
    );
    assert!(folder.save(&mut history, true));
    add(&mut history, 20, &sample(120, 512, 512, 0));
    assert!(
        !folder.save(&mut history, true),
        "nothing was read or written"
    );
    let again = History::load(&folder.1, UUID);
    assert_eq!(again.kept.total.read_ssd, 512);
    history.saved = Instant::now().checked_sub(SAVE_EVERY);
    add(&mut history, 30, &sample(130, 1024, 512, 0));
    assert!(history.saved.is_some() && folder.save(&mut history, false));
}

#[test]
fn a_cut_leaves_the_old_history_and_a_damaged_file_a_new_one() {
    let folder = Folder::new("history-cut");
    let mut history = History::load(&folder.1, UUID);
    add(&mut history, 0, &sample(100, 0, 512, 0));
    add(&mut history, 10, &sample(110, 512, 512, 0));
    assert!(folder.save(&mut history, false));
    let file = folder
        .0
        .join("history")
        .join(format!("{UUID}.history.json"));
    // Half of the next file was written when the power went out.
    let whole = fs::read(&file).unwrap();
    fs::write(file.with_extension("new"), &whole[..whole.len() / 2]).unwrap();
    let store = Store::open(&folder.0).unwrap();
    assert_eq!(History::load(&store, UUID).kept, history.kept);
    assert!(!file.with_extension("new").exists());
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(History::load(&store, UUID).kept, StoredHistory::default());
}

#[test]
fn a_removed_cache_leaves_no_history() {
    let folder = Folder::new("history-removed");
    let mut history = History::default();
    add(&mut history, 0, &sample(100, 0, 512, 0));
    assert!(folder.save(&mut history, false));
    folder.1.drop_cache(UUID).unwrap();
    // The sampler of the removed cache may run a moment longer.
    add(&mut history, 10, &sample(110, 512, 512, 0));
    assert!(folder.save(&mut history, true));
    assert_eq!(fs::read_dir(folder.0.join("history")).unwrap().count(), 0);
}

#[test]
fn what_the_cache_writes_to_its_ssd_is_counted_from_its_beginning_over_resets() {
    let mut history = History::default();
    // Sectors stored after reads: 512; written: 1024. What came before the history does not count.
    add(&mut history, 0, &sample(100, 0, 512, 1024));
    assert_eq!(
        history.read(Span::Day).ssd_written,
        SsdWritten {
            since: MIDNIGHT,
            bytes: 0
        }
    );
    add(&mut history, 10, &sample(110, 4096, 1024, 3072));
    history.reset(MIDNIGHT + 11);
    add(&mut history, 20, &sample(120, 8192, 1024, 4096));
    let now = history.read(Span::Day);
    assert_eq!(now.ssd_written.bytes, 512 + 3072);
    assert_eq!((now.total.start, now.total.read_ssd), (MIDNIGHT + 11, 4096));
    assert!(now.was_reset);
    // The counters began anew: all of them came since.
    add(&mut history, 30, &sample(5, 0, 512, 0));
    assert_eq!(history.read(Span::Day).ssd_written.bytes, 512 + 3072 + 512);
    assert!(history.undo_reset());
    let back = history.read(Span::Day).total;
    assert_eq!(
        (back.start, back.read_ssd, back.seconds),
        (MIDNIGHT, 8192, 25)
    );
    assert!(!history.undo_reset());
    // A reset that fails leaves the one before it to be taken back.
    history.reset(MIDNIGHT + 40);
    let earlier = history.reset(MIDNIGHT + 41);
    history.cancel_reset(earlier);
    assert_eq!(history.read(Span::Day).total.start, MIDNIGHT + 40);
    assert!(history.undo_reset());
    assert_eq!(history.read(Span::Day).total.start, MIDNIGHT);
}

#[test]
fn a_file_of_an_older_version_counts_what_is_written_from_now_on() {
    let folder = Folder::new("older-history");
    let mut history = History::default();
    add(&mut history, 0, &sample(100, 0, 512, 0));
    add(&mut history, 10, &sample(110, 0, 1024, 0));
    let mut value = serde_json::to_value(history.to_save(true).unwrap()).unwrap();
    for new in ["ssd_written", "was_reset"] {
        value.as_object_mut().unwrap().remove(new).unwrap();
    }
    value["last"]
        .as_object_mut()
        .unwrap()
        .remove("ssd_written")
        .unwrap();
    folder.1.save_history(UUID, &value).unwrap();
    let mut history = History::load(&folder.1, UUID);
    add(&mut history, 20, &sample(120, 0, 1536, 0));
    assert_eq!(
        history.read(Span::Day).ssd_written,
        SsdWritten {
            since: MIDNIGHT + 20,
            bytes: 0
        }
    );
    add(&mut history, 30, &sample(130, 0, 2048, 0));
    assert_eq!(history.read(Span::Day).ssd_written.bytes, 512);
}

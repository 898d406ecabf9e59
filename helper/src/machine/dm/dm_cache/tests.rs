// SPDX-License-Identifier: GPL-3.0-or-later

use super::*;

const GIB: u64 = 1 << 21;
/// A line of kernel 6.1.
const LINE: &str = "8 58/8192 128 265/16384 8943 316 8192 0 0 0 0 1 writethrough 2 migration_threshold 2048 smq 0 rw -";

#[test]
fn the_areas_lie_one_behind_the_other_and_use_the_ssd() {
    for gib in [1, 8, 63, 128, 129, 256, 1024, 4096] {
        let layout = Layout::of(gib * GIB).unwrap();
        let (metadata, length) = layout.metadata;
        assert_eq!(metadata, HEAD);
        assert!(layout.data.0 >= metadata + length, "{gib}");
        assert!(layout.data.0 + layout.data.1 <= gib * GIB, "{gib}");
        assert!(layout.data.0 + layout.data.1 + layout.block > gib * GIB);
        assert_eq!(layout.data.0 % layout.block, 0);
        let blocks = layout.data.1 / layout.block;
        assert!(blocks <= MOST_BLOCKS);
        assert!(layout.metadata.1 * 512 >= blocks * METADATA_BYTES + (8 << 20));
        // Less than a hundredth of the SSD is no cache.
        assert!(gib < 2 || layout.data.1 * 100 > gib * GIB * 99, "{gib}");
    }
    let block = |gib: u64| Layout::of(gib * GIB).unwrap().block / 2;
    assert_eq!([block(100), block(256), block(1024)], [64, 128, 512]);
    assert_eq!(Layout::of(9 * MIB + 127), None);
    assert_eq!(Layout::of(0), None);
}

#[test]
fn the_line_names_metadata_copies_and_disk() {
    let line = |gib: u64| {
        Layout::of(gib * GIB)
            .unwrap()
            .line(["253:1", "253:2", "8:1"])
    };
    assert_eq!(
        line(100),
        "253:1 253:2 8:1 128 1 writethrough smq 2 migration_threshold 2048"
    );
    assert!(line(1024).ends_with(" 1024 1 writethrough smq 2 migration_threshold 8192"));
}

#[test]
fn the_status_is_that_of_a_cache_of_ours() {
    let line = status_line(LINE).unwrap();
    assert!(line.is_complete() && line.counters_valid());
    let status = line.status(7);
    assert_eq!(
        (status.state.as_str(), status.reason.as_str()),
        ("active", "")
    );
    assert_eq!(
        (status.sample.frames_used, status.sample.frames_total),
        (265, 16384)
    );
    assert_eq!(
        (status.sample.read.hit, status.sample.read.missed),
        (8943, 316)
    );
    assert_eq!(status.sample.paused(), None, "dm-cache cannot be paused");
    for lost in [
        "Fail".to_owned(),
        "Error".to_owned(),
        LINE.replace(" rw ", " ro "),
        LINE.replace(" rw -", " rw needs_check"),
    ] {
        let line = status_line(&lost).unwrap();
        assert!(line.counters_valid(), "{lost}");
        let status = line.status(7);
        assert_eq!(
            (status.state.as_str(), status.reason.as_str()),
            ("bypass", "ssd-error")
        );
        assert_eq!(status.sample.dirty_sectors, 0);
    }
    for end in 0..LINE.len() - 3 {
        assert_eq!(status_line(&LINE[..end]), None, "{}", &LINE[..end]);
    }
}

#[test]
fn sectors_are_divided_as_the_requests_of_the_same_time() {
    let mut traffic = Traffic::default();
    let mut at = |hits: u64, misses: u64, sectors: u64| {
        let mut line = status_line(LINE).unwrap();
        line.counters.insert("read_hit".into(), hits);
        line.counters.insert("read_missed".into(), misses);
        traffic.in_sectors(&mut line, [sectors, 0]);
        let read = line.sample(0).read;
        assert_eq!(read.requested, read.hit + read.missed);
        (read.hit, read.missed)
    };
    assert_eq!(at(7, 9, 5000), (0, 0), "what was before is not known");
    assert_eq!(at(7, 19, 5080), (0, 80));
    // Only hits, which are larger.
    assert_eq!(at(17, 19, 6080), (1000, 80));
    assert_eq!(at(17, 19, 6080), (1000, 80), "nothing new");
    // Another table: the requests go back, the sectors do not.
    assert_eq!(at(1, 1, 9000), (1000, 80));
    assert_eq!(at(2, 2, 9020), (1010, 90));
    assert_eq!(at(u64::MAX >> 33, 2, u64::MAX >> 32).1, 90);
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Counters as kernels have shown them, and what comes between them.

use super::*;

fn block(device: &str, requests: u64, read: u64, written: u64) -> BlockTraffic {
    BlockTraffic {
        device: device.into(),
        requests,
        read,
        written,
    }
}

fn reading(seconds: u64) -> OtherReading {
    OtherReading {
        time_us: seconds * 1_000_000,
        device: block("252:0 7", 10 * seconds, 4096 * seconds, 512 * seconds),
        disks: vec![block("254:32 3", seconds, 1024 * seconds, 0)],
        ssds: Some(vec![block("254:16 2", seconds, 3072 * seconds, 9)]),
        counts: Counts::default(),
    }
}

/// dm-cache's counters: read hits, read misses, then write hits, write misses, demotions and promotions.
fn dm_cache(hits: u64, misses: u64, beside: [u64; 4]) -> OtherReading {
    counted(Counting::Has32Bits, hits, misses, &beside)
}

fn counted(counting: Counting, hits: u64, misses: u64, beside: &[u64]) -> OtherReading {
    OtherReading {
        counts: Counts {
            counting,
            hits,
            misses,
            beside: beside.to_vec(),
        },
        ..OtherReading::default()
    }
}

fn hits(now: &OtherReading, earlier: &OtherReading) -> Option<(u64, u64)> {
    now.counts.since(&earlier.counts, 0)
}

#[test]
fn bytes_come_from_the_block_devices() {
    let came = reading(114).since(&reading(100), 0).unwrap();
    let expected = OtherCame {
        time_us: 14_000_000,
        requests: 140,
        read: 14 * 4096,
        written: 14 * 512,
        read_disk: 14 * 1024,
        read_ssd: Some(14 * 3072),
        hits: None,
    };
    assert_eq!(came, expected);
    assert_eq!(reading(100).since(&reading(100), 0), None);
}

#[test]
fn a_device_that_was_exchanged_or_counts_anew_gives_no_number() {
    let before = reading(100);
    let mut now = reading(114);
    now.disks[0].device = "254:32 4".into();
    assert!(!now.same_cache(&before) && now.since(&before, 0).is_none());
    let mut now = reading(114);
    now.device.device = "252:0 8".into();
    assert!(!now.same_cache(&before) && now.since(&before, 0).is_none());
    // A kernel of 32 bits counts sectors in 32 bits.
    let mut now = reading(114);
    now.device.read = 0;
    assert!(now.same_cache(&before) && now.since(&before, 0).is_none());
    let mut now = reading(114);
    now.disks[0].read = 1;
    assert!(now.since(&before, 0).is_none());
}

#[test]
fn another_ssd_is_the_same_cache_of_which_the_ssd_is_not_known_for_once() {
    let before = reading(100);
    for ssds in [
        None,
        Some(vec![]),
        Some(vec![block("254:48 5", 2, 1 << 30, 9)]),
        Some(vec![block("254:16 2", 2, 1, 9)]),
    ] {
        let now = OtherReading {
            ssds,
            ..reading(114)
        };
        assert!(now.same_cache(&before));
        let came = now.since(&before, 0).unwrap();
        assert_eq!((came.read_ssd, came.read_disk), (None, 14 * 1024));
    }
    // Without an SSD nothing is read from it.
    let none = |seconds| OtherReading {
        ssds: Some(vec![]),
        ..reading(seconds)
    };
    assert_eq!(none(114).since(&none(100), 0).unwrap().read_ssd, Some(0));
}

#[test]
fn counters_of_dm_cache_go_on_at_their_end() {
    // As measured: the counter was set to 0xFFFFFFC0, showed 4294967272, and 256 reads later 232.
    let before = dm_cache(4_294_967_272, 316, [0; 4]);
    assert_eq!(hits(&dm_cache(232, 316, [0; 4]), &before), Some((256, 0)));
    let before = dm_cache(8943, 4_294_967_295, [4_294_967_295, 0, 0, 0]);
    let now = dm_cache(8943, 0, [3, 0, 0, 0]);
    assert_eq!(hits(&now, &before), Some((0, 1)));
    // From 4004 to 4116 with a few reads of udev.
    let before = dm_cache(4004, 0, [0; 4]);
    assert_eq!(hits(&dm_cache(4116, 0, [0; 4]), &before), Some((112, 0)));
}

#[test]
fn counters_of_dm_cache_that_jump_back_give_no_number() {
    // As measured on Linux 6.1 and 7.3.4, when a table was loaded.
    for (before, now) in [
        (
            dm_cache(8549, 1, [4096, 0, 0, 7]),
            dm_cache(8324, 1, [0; 4]),
        ),
        (dm_cache(4512, 1, [0; 4]), dm_cache(28, 1, [0; 4])),
        (dm_cache(784, 1, [0; 4]), dm_cache(416, 1, [0; 4])),
        (dm_cache(1, 700, [0; 4]), dm_cache(1, 2, [0; 4])),
        // The hits have grown beyond their old value since. The promotions begin at 0 at each load.
        (
            dm_cache(8549, 1, [0, 0, 2, 7]),
            dm_cache(9000, 5, [0, 0, 2, 6]),
        ),
        (
            dm_cache(8549, 1, [4096, 0, 0, 0]),
            dm_cache(8549, 1, [0; 4]),
        ),
        // Nothing reads so much between two looks.
        (
            dm_cache(4_000_000_000, 1, [0; 4]),
            dm_cache(1000, 1, [0; 4]),
        ),
    ] {
        assert_eq!(hits(&now, &before), None, "{now:?}");
    }
}

#[test]
fn counters_of_dm_writecache_begin_anew_and_never_wrap() {
    let of = |reads, hit| counted(Counting::Grows, hit, reads - hit, &[170, 0]);
    assert_eq!(hits(&of(1364, 181), &of(1204, 181)), Some((0, 160)));
    // `clear_stats`, and a table that is loaded.
    assert_eq!(hits(&of(5, 1), &of(1204, 181)), None);
    assert_eq!(hits(&of(5, 1), &of(4_294_967_290, 181)), None);
    // Another version of the target has another line.
    let longer = counted(Counting::Grows, 200, 2000, &[170, 0, 0]);
    assert_eq!(hits(&longer, &of(1204, 181)), None);
}

#[test]
fn counts_of_bcache_are_not_believed_when_they_may_have_been_folded() {
    let of = |hits, misses| counted(Counting::FoldsAt16Bits, hits, misses, &[]);
    let (before, now) = (of(91, 44), of(1091, 1044));
    let since = |requests| now.counts.since(&before.counts, requests);
    assert_eq!(since(65_535), Some((1000, 1000)));
    assert_eq!(since(65_536), None);
    // The start of the machine.
    assert_eq!(hits(&of(3, 1), &before), None);
    // The count comes up to 13.6 s after the requests: those of the time before count with it.
    let at = |seconds: u64, counts: OtherReading| OtherReading {
        counts: counts.counts,
        ..reading(seconds)
    };
    let (before, now) = (at(100, before), at(114, now));
    assert_eq!(now.since(&before, 0).unwrap().hits, Some((1000, 1000)));
    assert_eq!(now.since(&before, 65_400).unwrap().hits, None);
}

#[test]
fn a_system_that_counts_no_hits_has_none() {
    let of = |hits| counted(Counting::Not, hits, hits, &[]);
    assert_eq!(hits(&of(9), &of(1)), None);
    assert_eq!(Counting::of(OtherKind::RapidDisk), Counting::Not);
    assert_eq!(Counting::of(OtherKind::Bcache), Counting::FoldsAt16Bits);
}

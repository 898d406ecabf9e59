// SPDX-License-Identifier: GPL-3.0-or-later
//! Every write of metadata cut at every sector: recognised (promises 6, 10, 12), and the disk known again or not (21).

use std::sync::atomic::{AtomicU64, Ordering};

use tandem_sim::checks::Checks;
use tandem_sim::engine::Core;

/// The sum of what a test did over so many seeds.
fn sum(seeds: u64, test: impl Fn(&Checks, u64) -> u64 + Sync) -> u64 {
    let (next, sum) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let checks = Checks::of(&Core::linked());
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    sum.fetch_add(test(&checks, seed), Ordering::Relaxed);
                }
            });
        }
    });
    sum.into_inner()
}

// promise 6, 10: engine/format::a_torn_write_changes_nothing
#[test]
fn a_torn_write_changes_nothing() {
    let cuts = sum(12, Checks::torn);
    println!("{cuts} cuts");
    assert!(cuts > 20_000, "only {cuts} cuts");
}

// promise 21: engine/format::a_changed_disk_is_seen
#[test]
fn a_changed_disk_is_seen() {
    for seed in 0..200 {
        let samples = Checks::of(&Core::linked()).identity(seed);
        assert!(samples > 20, "only {samples} samples");
    }
}

// promise 21, 27: engine/format::superblocks_of_file_systems_name_places_within_the_disk
#[test]
fn superblocks_of_file_systems_name_places_within_the_disk() {
    let known = sum(20, Checks::places);
    assert!(known > 10_000, "only {known} are known");
}

// promise 10, 21: engine/format::a_cut_superblock_is_right_and_an_exchanged_disk_is_seen
#[test]
fn a_cut_superblock_is_right_and_an_exchanged_disk_is_seen() {
    let cuts = sum(300, Checks::lives);
    println!("{cuts} cuts");
    assert!(cuts > 1_000_000, "only {cuts} cuts");
}

// promise 10, 15: engine/format::a_cut_while_the_ssd_gets_another_size_leaves_the_old_index_the_new_one_or_none
#[test]
fn a_cut_while_the_ssd_gets_another_size_leaves_the_old_index_the_new_one_or_none() {
    let cuts = sum(100, Checks::resized);
    println!("{cuts} cuts");
    assert!(cuts > 20_000, "only {cuts} cuts");
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Every write of metadata cut at every sector: recognised (promises 6, 10, 12), and the disk known again or not (21).

use std::sync::atomic::{AtomicU64, Ordering};

// The crate brings core and the shim.
use tandem_sim as _;

const SEEDS: u64 = 12;

unsafe extern "C" {
    /// shim/torn.c: ends the program if something differs.
    fn sim_torn(seed: u64) -> u64;
    /// shim/identity.c: likewise.
    fn sim_identity(seed: u64) -> u64;
}

#[test]
fn a_torn_write_changes_nothing() {
    let (next, cuts) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SEEDS {
                        break;
                    }
                    // SAFETY: takes a number, and shares nothing between threads.
                    cuts.fetch_add(unsafe { sim_torn(seed) }, Ordering::Relaxed);
                }
            });
        }
    });
    let cuts = cuts.into_inner();
    println!("{cuts} cuts from {SEEDS} seeds");
    assert!(cuts > 20_000, "only {cuts} cuts");
}

#[test]
fn a_changed_disk_is_seen() {
    for seed in 0..200 {
        // SAFETY: as above.
        let samples = unsafe { sim_identity(seed) };
        assert!(samples > 20, "only {samples} samples");
    }
}

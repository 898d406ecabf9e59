// SPDX-License-Identifier: GPL-3.0-or-later
//! The places that a speed test reads: spread over the whole device by chance, and no place twice.

/// Bytes of a small read.
const SMALL: u64 = 4 << 10;
/// Bytes of a large read.
const LARGE: u64 = 1 << 20;
/// Large reads in a run. A disk needs about a twentieth of the time of a run to get to its place.
const RUN: u64 = 64;
/// A small device has at least so many runs.
const MIN_RUNS: u64 = 8;

/// Places on a device, in the order in which they are read. They follow from the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    seed: u64,
    /// Bytes of a read.
    bytes: u64,
    /// Reads in a run. The reads of a run follow each other on the device.
    run: u64,
    /// Runs on the device.
    runs: u64,
}

impl Places {
    /// Small reads, each at a place of its own, on a device of so many bytes.
    pub fn random(seed: u64, size: u64) -> Self {
        Self {
            seed,
            bytes: SMALL,
            run: 1,
            runs: size / SMALL,
        }
    }

    /// Large reads in long runs.
    pub fn runs(seed: u64, size: u64) -> Self {
        let reads = size / LARGE;
        let run = (reads / MIN_RUNS).clamp(1, RUN);
        Self {
            seed,
            bytes: LARGE,
            run,
            runs: reads / run,
        }
    }

    /// Bytes of a read.
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Whether no read follows another on the device.
    pub fn is_random(self) -> bool {
        self.bytes == SMALL
    }

    /// Number of places.
    pub fn count(self) -> u64 {
        self.run * self.runs
    }

    /// First byte of the read with this number, which is below [`Self::count`].
    pub fn at(self, number: u64) -> u64 {
        let (run, within) = (number / self.run, number % self.run);
        (permuted(run, self.runs, self.seed) * self.run + within) * self.bytes
    }
}

/// A permutation of the numbers below `count`: a Feistel network over the next power of four, entered again until the
/// result is below `count`. `number` is below `count`.
fn permuted(number: u64, count: u64, seed: u64) -> u64 {
    let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).div_ceil(2);
    let mask = (1_u64 << bits) - 1;
    let mut value = number;
    loop {
        let (mut left, mut right) = (value >> bits, value & mask);
        for round in 0..4_u64 {
            let mixed = mix(right ^ mix(seed.wrapping_add(round)));
            (left, right) = (right, (left ^ mixed) & mask);
        }
        value = left << bits | right;
        if value < count || count == 0 {
            return value.min(count.saturating_sub(1));
        }
    }
}

/// The finalizer of SplitMix64: each bit of the result depends on each bit of the value.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const TB: u64 = 1_000_000_000_000;

    #[test]
    fn places_are_aligned_and_within_the_device_and_no_place_comes_twice() {
        for size in [LARGE, 9 * LARGE, 200 * LARGE + 4097, 64 << 30, 2 * TB + 512] {
            for places in [Places::random(7, size), Places::runs(7, size)] {
                let read = places.count().min(5_000);
                let mut seen = BTreeSet::new();
                for number in 0..read {
                    let at = places.at(number);
                    assert_eq!(at % places.bytes(), 0);
                    assert!(at + places.bytes() <= size, "{at} of {size}");
                    assert!(seen.insert(at), "{at} comes twice");
                }
            }
        }
        assert_eq!(Places::runs(7, LARGE - 1).count(), 0);
        assert_eq!(Places::random(7, 0).at(0), 0);
    }

    #[test]
    fn places_are_spread_over_the_whole_device_and_follow_from_the_seed() {
        let places = Places::random(1, 2 * TB);
        let mut tenths = [0; 10];
        for number in 0..1_000 {
            tenths[usize::try_from(places.at(number) * 10 / (2 * TB)).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|n| (60..150).contains(n)), "{tenths:?}");
        let first = |seed| (0..8).map(move |n| Places::random(seed, 2 * TB).at(n));
        assert!(first(1).eq(first(1)));
        assert!(!first(1).eq(first(2)));
    }

    #[test]
    fn large_reads_follow_each_other_in_runs() {
        let places = Places::runs(3, 2 * TB);
        let follows = |number: u64| places.at(number) + LARGE == places.at(number + 1);
        assert!((0..RUN - 1).all(follows));
        assert!(!follows(RUN - 1));
        // A small device has several runs, too.
        let small = Places::runs(3, 40 * LARGE);
        assert_eq!((small.run, small.count()), (5, 40));
    }
}

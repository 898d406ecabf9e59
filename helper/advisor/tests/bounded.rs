// SPDX-License-Identifier: GPL-3.0-or-later
//! Memory, for whatever comes. A program of its own, since all of its memory is measured.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use common::{Player, TB};
use tandem_advisor::{Advisor, Kind};

/// The most that an advisor may take: "a few megabytes".
const LIMIT: u64 = 5 << 20;

/// Bytes of memory that this program has in use.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Core's `td_hash()` of a run.
fn hash(run: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = run.wrapping_mul(FACTOR);
    (hash ^ hash >> 32).wrapping_mul(FACTOR)
}

#[test]
fn a_hostile_stream_over_a_huge_disk_takes_no_more_memory() {
    let disk = 16 * TB;
    let before = resident();
    let mut player = Player::new(disk);
    let mut rng = fastrand::Rng::with_seed(1);
    // All that is in the sample of every size: what fills the largest soonest.
    for run in (0..disk / 2048).filter(|&run| hash(run) >> 52 == 0) {
        player.read(run * 2048, 2048);
    }
    for at in 0..400_000u64 {
        let sector = rng.u64(..disk);
        match at % 64 {
            0 => player.play(Kind::Write, sector, rng.u64(..1 << 10)),
            1 => player.play(Kind::Discard, sector, rng.u64(..1 << 12)),
            // Requests that cannot be.
            2 => player.read(sector, u64::MAX),
            3 => player.read(u64::MAX - 5, 8),
            4 => player.read(sector, 0),
            5 => player.play(Kind::Write, disk - 4, 8),
            6 => player.read(sector, (1 << 17) + 1),
            7 => player.time_us = rng.u64(..1 << 40),
            _ => player.read(sector, rng.u64(1..128)),
        }
        assert!(player.advisor.memory() <= LIMIT);
    }
    let used = resident().saturating_sub(before);
    let points = player.advisor.curve().points;
    println!(
        "{} sizes, {} KiB, resident {} KiB more, state {} KiB",
        points.len(),
        player.advisor.memory() >> 10,
        used >> 10,
        player.advisor.save().len() >> 10
    );
    assert_eq!(points.len(), 13, "the stream is large enough for all sizes");
    assert!(used <= LIMIT + (2 << 20), "{used}");
    assert!(player.advisor.seen().ignored > 25_000);
    assert!(player.advisor.save().len() as u64 <= LIMIT);
    assert!(Advisor::new(0).is_err() && Advisor::new(u64::MAX).is_err());
}

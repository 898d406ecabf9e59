// SPDX-License-Identifier: GPL-3.0-or-later
//! The prediction beside core itself, which gets all requests.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use common::{FRAME, GIB, Player, TB, skewed};
use tandem_advisor::Kind;
use tandem_engine_bench::hitrate::core::{Cache, Shape};
use tandem_sim::engine::Core;

/// Files that are read from end to end, single places that are read and written, and a slow scan of the disk.
fn requests() -> Vec<(Kind, u64, u64)> {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut requests = Vec::new();
    let mut scan = 0;
    while requests.len() < 120_000 {
        match rng.u8(..8) {
            0 => {
                let file = skewed(&mut rng, 1 << 10);
                let start = file * 0x9e37_79b1 % (1 << 16) * 4096 + file % 8;
                let step = 64 << rng.u64(..5);
                for at in 0..(64 << (file % 8)) / step {
                    requests.push((Kind::Read, start + at * step, step));
                }
            }
            1 => {
                for _ in 0..8 {
                    requests.push((Kind::Read, 400 * GIB + scan, 512));
                    scan += 512;
                }
            }
            kind => {
                let place = skewed(&mut rng, 1 << 17) * 0x9e37_79b1 % (1 << 20);
                let kind = if kind < 4 { Kind::Write } else { Kind::Read };
                requests.push((kind, 500 * GIB + place * FRAME, 1 + rng.u64(..24)));
            }
        }
    }
    requests
}

/// What part of the bytes read core serves with so many groups.
fn replayed(requests: &[(Kind, u64, u64)], groups: usize) -> f64 {
    let core = Core::linked();
    let shape = Shape {
        run_shift: 6,
        way_shift: 4,
    };
    let mut cache = Cache::new(&core, shape, groups << 10, TB / FRAME);
    for &(kind, sector, count) in requests {
        match kind {
            Kind::Write => cache.write(sector, count),
            _ => cache.read(sector, count, |_, _| {}),
        }
    }
    let sectors = |name| cache.counter(&core, name) as f64;
    100.0 * sectors("read_hit") / sectors("read_requested")
}

#[test]
fn predictions_are_what_core_does() {
    let requests = requests();
    let mut player = Player::new(TB);
    for &(kind, sector, count) in &requests {
        player.play(kind, sector, count);
    }
    let mut sizes = 0;
    for (size, most) in [(0, 0.05), (1, 2.0), (2, 3.0), (3, 4.0)] {
        let core = replayed(&requests, 32 << size);
        let (share, error) = player.served((GIB / 2) << size);
        println!(
            "{} MiB: core {core:.2} %, {share:.2} ± {error:.2} %",
            512 << size
        );
        assert!((share - core).abs() <= most, "{share} for {core} %");
        assert!((share - core).abs() <= 1.5 * error + 0.2, "± {error}");
        sizes += u32::from(core > 5.0);
    }
    assert_eq!(sizes, 4, "there is something to predict");
    assert!(player.advisor.curve().points.len() >= 4);
}

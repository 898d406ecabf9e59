// SPDX-License-Identifier: GPL-3.0-or-later
//! Streams of which the right answer is known.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::collections::HashSet;

use common::{FRAME, GIB, Player, TB, shuffled, skewed};
use tandem_advisor::{Advice, Kind, Reason};

#[test]
fn a_loop_that_fits_hits_each_time_but_the_first() {
    let mut player = Player::new(TB);
    for _ in 0..10 {
        player.read_all(7 * GIB, GIB / 8, 256);
    }
    let (share, error) = player.served(GIB / 2);
    assert!(
        (share - 90.0).abs() < 1e-9 && error == 0.0,
        "{share} {error}"
    );
    player.end_day();
    let Advice::NoHelp(Reason::FewReads) = player.advisor.advice() else {
        // 10 times 128 MiB in requests of 128 KiB are 10,240 reads.
        let Advice::Cache(point) = player.advisor.advice() else {
            panic!("{:?}", player.advisor.advice());
        };
        assert_eq!(point.bytes, 512 << 20);
        return;
    };
    panic!("there are enough reads");
}

#[test]
fn a_large_loop_needs_a_large_cache() {
    let mut player = Player::new(TB);
    for _ in 0..5 {
        player.read_all(7 * GIB, 3 * GIB, 512);
    }
    // Four of five times, when all of it fits.
    for size in [8, 16, 256] {
        let (share, error) = player.served(size * GIB);
        println!("{size} GiB: {share:.1} ± {error:.1} %");
        assert!((share - 80.0).abs() <= error.max(1.0), "{share} ± {error}");
        assert!(error < 10.0);
    }
    let (small, _) = player.served(GIB / 2);
    assert!(small < 20.0, "{small}");
    player.end_day();
    let Advice::Cache(point) = player.advisor.advice() else {
        panic!("{:?}", player.advisor.advice());
    };
    assert!((4..=8).contains(&(point.bytes >> 30)), "{point:?}");
}

#[test]
fn one_pass_over_the_disk_gives_nothing() {
    let mut player = Player::new(TB);
    player.read_all(0, 40 * GIB, 1024);
    let best = player.advisor.curve().points.last().copied().unwrap();
    assert_eq!(best.bytes_served.share, 0.0);
    player.end_day();
    assert_eq!(
        player.advisor.advice(),
        Advice::NoHelp(Reason::MostlySequential)
    );
}

#[test]
fn single_reads_of_ever_new_places_give_nothing() {
    let mut player = Player::new(TB);
    for frame in shuffled(19) {
        player.read(frame * FRAME, 8);
    }
    let best = player.advisor.curve().points.last().copied().unwrap();
    assert_eq!(best.bytes_served.share, 0.0);
    player.end_day();
    assert_eq!(
        player.advisor.advice(),
        Advice::NoHelp(Reason::NothingReadAgain)
    );
}

#[test]
fn a_disk_whose_requests_were_lost_is_not_told_that_nothing_helps() {
    let mut player = Player::new(TB);
    for frame in shuffled(19) {
        player.read(frame * FRAME, 8);
    }
    player.end_day();
    let seen = *player.advisor.seen();
    let counted = seen.reads + seen.writes;
    player.advisor.lose(counted / 9 - 1);
    let advice = player.advisor.advice();
    assert_eq!(advice, Advice::NoHelp(Reason::NothingReadAgain));
    player.advisor.lose(2);
    assert_eq!(player.advisor.advice(), Advice::Incomplete);
}

#[test]
fn favourites_hit_as_often_as_they_come_again() {
    let mut player = Player::new(4 * TB);
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut seen, mut again, mut all) = (HashSet::new(), 0, 0);
    for _ in 0..400_000 {
        // Neighbours in rank are no neighbours on the disk.
        let frame = skewed(&mut rng, 1 << 20) * 0x9e37_79b1 % (1 << 26);
        player.read(frame * FRAME, FRAME);
        again += u64::from(!seen.insert(frame));
        all += 1;
    }
    let most = 100.0 * again as f64 / f64::from(all);
    let points = player.advisor.curve().points;
    let (share, error) = player.served(points.last().unwrap().bytes / 512);
    println!(
        "{share:.2} ± {error:.2} of {most:.2} %, {} sizes",
        points.len()
    );
    assert!(points.len() > 3);
    assert!(
        (share - most).abs() <= error + 0.2,
        "{share} ± {error}, {most}"
    );
    player.end_day();
    assert!(matches!(player.advisor.advice(), Advice::Cache(_)));
}

#[test]
fn a_disk_that_is_mostly_written_gains_nothing() {
    let mut player = Player::new(TB);
    for (at, frame) in shuffled(18).enumerate() {
        let kind = if at % 16 == 0 {
            Kind::Read
        } else {
            Kind::Write
        };
        player.play(kind, frame * FRAME, FRAME);
    }
    player.end_day();
    assert_eq!(
        player.advisor.advice(),
        Advice::NoHelp(Reason::MostlyWrites)
    );
}

#[test]
fn a_disk_that_is_hardly_read_gains_nothing() {
    let mut player = Player::new(TB);
    for _ in 0..900 {
        player.read(4096, 8);
    }
    assert!(matches!(player.advisor.advice(), Advice::Wait { left_us } if left_us > 0));
    player.end_day();
    assert_eq!(player.advisor.advice(), Advice::NoHelp(Reason::FewReads));
}

/// What lies in a discarded range, however large that is, is read from the disk again.
#[test]
fn discarded_data_is_forgotten() {
    for (start, sectors) in [(7 * GIB, GIB / 8), (0, TB)] {
        let mut player = Player::new(TB);
        player.read_all(7 * GIB, GIB / 8, 256);
        player.play(Kind::Discard, start, sectors);
        player.read_all(7 * GIB, GIB / 8, 256);
        assert_eq!(player.served(GIB / 2).0, 0.0);
        player.read_all(7 * GIB, GIB / 8, 256);
        assert!((player.served(GIB / 2).0 - 100.0 / 3.0).abs() < 1e-9);
    }
}

/// A ghost looks for a small range frame by frame, and for a large one at all that it has.
#[test]
fn a_large_discard_forgets_what_small_ones_forget() {
    let states = [GIB / 4, GIB, 8 * GIB].map(|piece| {
        let mut player = Player::new(TB);
        player.read_all(GIB + 24, 3 * GIB, 512);
        let mut at = GIB + 2 * FRAME + 4;
        while at < 2 * GIB {
            let count = piece.min(2 * GIB - at);
            player.play(Kind::Discard, at, count);
            at += count;
        }
        let sizes = player.advisor.curve().points.len();
        assert!(sizes > 2, "{sizes} sizes");
        // Read again, what was forgotten and what was not.
        player.read_all(GIB, 3 * GIB, 512);
        player.advisor.curve()
    });
    assert_eq!(states[0], states[1]);
    assert_eq!(states[0], states[2]);
    assert!(states[0].points.last().unwrap().bytes_served.share > 0.2);
}

#[test]
fn written_data_is_read_from_the_ssd_while_there_is_room() {
    let mut player = Player::new(TB);
    for frame in shuffled(12) {
        player.play(Kind::Write, frame * FRAME, FRAME);
    }
    player.read_all(0, 4096 * FRAME, 256);
    assert_eq!(player.served(GIB / 2).0, 100.0);
}

#[test]
fn of_a_file_that_is_written_in_order_the_first_8_mib_are_read_from_the_ssd() {
    let mut player = Player::new(TB);
    for frame in 0..4096 {
        player.play(Kind::Write, frame * FRAME, FRAME);
    }
    player.read_all(0, 4096 * FRAME, 256);
    let share = player.served(GIB / 2).0;
    // The frame that makes it a stream goes to the disk already.
    assert!((share - 511.0 / 40.96).abs() < 0.01, "{share}");
}

#[test]
fn larger_caches_serve_no_less() {
    let mut player = Player::new(TB);
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 0..60_000u64 {
        match rng.u8(..8) {
            0 => player.read_all(100 * GIB + round * 2048, 2048, 512),
            1 => player.play(Kind::Write, skewed(&mut rng, 1 << 18) * 64 * FRAME, 8),
            _ => {
                let run = skewed(&mut rng, 1 << 14) * 0x9e37_79b1 % (1 << 18);
                player.read_all(run * 2048, 1024, 256);
            }
        }
    }
    let points = player.advisor.curve().points;
    assert!(points.len() >= 5, "{} sizes", points.len());
    for pair in points.windows(2) {
        let [low, high] = [pair[0], pair[1]];
        assert_eq!(high.bytes, 2 * low.bytes);
        for (low, high) in [
            (low.bytes_served, high.bytes_served),
            (low.reads_served, high.reads_served),
        ] {
            assert!(high.share >= low.share - high.error, "{low:?} {high:?}");
            assert!(high.error >= low.error);
        }
    }
    assert!(points.last().unwrap().bytes_served.share > points[0].bytes_served.share + 0.05);
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The arithmetic of a speed test. The whole test runs over the simulated machine.

use super::*;
use tandem_api::Direction;

fn sample(read: u64, hit: u64, written: u64) -> Sample {
    let direction = |requested, hit| Direction {
        requested,
        hit,
        ..Direction::default()
    };
    Sample {
        read: direction(read, hit),
        write: direction(written, 0),
        ..Sample::default()
    }
}

#[test]
fn a_small_share_of_other_programs_is_reliable_and_a_larger_one_is_not() {
    let of = |parts: &[(u64, u64)]| {
        let mut share = Share::default();
        parts.iter().for_each(|&(all, own)| share.add(all, own));
        (share.permille, share.trust())
    };
    assert_eq!(of(&[(600, 600), (1000, 950)]), (50, Trust::Reliable));
    assert_eq!(of(&[(1000, 949), (600, 600)]), (51, Trust::Disturbed));
    assert_eq!(of(&[(0, 0), (10, 12)]), (0, Trust::Reliable));
    assert_eq!(of(&[(u64::MAX, 0)]).0, 1000);
    let unknown = |permille| Share {
        permille,
        unknown: true,
    };
    assert_eq!(unknown(50).trust(), Trust::Unknown);
    assert_eq!(unknown(51).trust(), Trust::Disturbed);
}

#[test]
fn hits_that_may_be_of_other_programs_do_not_count_for_the_test() {
    let between = |after: Sample| Counted::between(&sample(1000, 500, 70), &after, 800);
    let counted = |all, ssd_permille| Some(Counted { all, ssd_permille });
    assert_eq!(between(sample(1800, 1300, 70)), counted(800, 1000));
    assert_eq!(between(sample(1800, 1100, 70)), counted(800, 750));
    assert_eq!(between(sample(1800, 500, 70)), counted(800, 0));
    // 80 sectors were read and 40 written by others; all hits of others are taken from the hits.
    assert_eq!(between(sample(1880, 1300, 110)), counted(920, 900));
    // Counters that began anew, and a test whose reads the cache has not counted.
    assert_eq!(between(sample(100, 100, 0)), None);
    assert_eq!(between(sample(1799, 1299, 70)), None);
}

#[test]
fn a_part_of_the_test_goes_on_with_its_time() {
    let part = |time| Part {
        from: 0.2,
        to: 0.6,
        began: Instant::now(),
        time: Duration::from_secs(time),
        through_cache: true,
    };
    assert!((0.2..0.21).contains(&part(3600).progress().done));
    // A part that takes longer than its time does not go on beyond its end.
    assert!((part(0).progress().done - 0.6).abs() < 1e-9);
    let seconds =
        SECONDS.random + SECONDS.sequential + SECONDS.random_cached + SECONDS.sequential_cached;
    assert!(Duration::from_secs(seconds.into()) + SPARE <= LIMIT);
}

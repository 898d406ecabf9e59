// SPDX-License-Identifier: GPL-3.0-or-later
//! The saved state: it goes on exactly, and nothing but a state is taken for one.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use common::{DAY, FRAME, GIB, Player, TB, skewed};
use tandem_advisor::{Advisor, Kind, StateError};

/// Bytes before the numbers.
const MAGIC: usize = 8;
/// Numbers before the streams: version, disk, shape, count of rungs, what was seen.
const HEAD: usize = 15;
const STREAMS: usize = 32;
/// The level of trials, behind the streams of each ghost.
const LEVEL: usize = 1;
/// Slots of a ghost, and numbers of its sets.
const SLOTS: usize = 32 * 1024;
const SETS: usize = SLOTS / 16 * 4;

fn play(player: &mut Player, seed: u64, count: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for at in 0..count {
        let sector = skewed(&mut rng, 1 << 17) * 0x9e37_79b1 % (1 << 22) * FRAME;
        match rng.u8(..16) {
            0 => player.play(Kind::Write, sector + 3, 21),
            1 => player.play(Kind::Discard, sector, 4096),
            2 => player.read_all(GIB * 300 + at * 1024, 1024, 256),
            _ => player.read(sector, 64),
        }
    }
}

fn player() -> Player {
    let mut player = Player::new(TB);
    play(&mut player, 1, 60_000);
    assert!(player.advisor.curve().points.len() > 1);
    player
}

/// With the checksum that fits.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 8;
    let checksum = u64::from(crc32c::crc32c(&bytes[..end]));
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let from = MAGIC + 8 * at;
    u64::from_le_bytes(bytes[from..from + 8].try_into().unwrap())
}

fn with(bytes: &[u8], at: usize, number: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let from = MAGIC + 8 * at;
    bytes[from..from + 8].copy_from_slice(&number.to_le_bytes());
    sealed(bytes)
}

fn refusal(bytes: &[u8]) -> Option<StateError> {
    Advisor::load(bytes, TB).err()
}

#[test]
fn watching_goes_on_as_if_never_stopped() {
    let mut stopped = player();
    let mut going = player();
    let saved = stopped.advisor.save();
    assert_eq!(
        saved,
        going.advisor.save(),
        "the same requests, another state"
    );
    stopped.advisor = Advisor::load(&saved, TB).unwrap();
    assert_eq!(stopped.advisor.save(), saved);
    // The clock may have begun anew, and the time between does not count.
    stopped.advisor.watch(stopped.time_us);
    play(&mut stopped, 2, 60_000);
    play(&mut going, 2, 60_000);
    assert_eq!(stopped.advisor.curve(), going.advisor.curve());
    assert_eq!(stopped.advisor.save(), going.advisor.save());
}

#[test]
fn time_under_watch_is_that_of_the_watch() {
    let mut player = Player::new(TB);
    player.advisor.watch(5 * DAY);
    player.advisor.watch(5 * DAY + 10);
    player.advisor.watch(3 * DAY);
    player.advisor.watch(5 * DAY + 15);
    assert_eq!(player.advisor.seen().watched_us, 15);
    let mut later = Advisor::load(&player.advisor.save(), TB).unwrap();
    later.watch(DAY);
    later.watch(DAY + 7);
    assert_eq!(later.seen().watched_us, 22);
    // Without a restart of the program, but with another clock.
    later.resume(3 * DAY);
    later.watch(3 * DAY + 4);
    later.resume(5);
    later.watch(7);
    assert_eq!(later.seen().watched_us, 28);
}

#[test]
fn a_state_of_something_else_is_refused() {
    let saved = player().advisor.save();
    assert_eq!(refusal(&saved), None);
    assert_eq!(
        Advisor::load(&saved, TB + 8).err(),
        Some(StateError::OtherDisk)
    );
    assert_eq!(refusal(&with(&saved, 0, 3)), Some(StateError::Version));
    for at in 2..6 {
        let other = with(&saved, at, number(&saved, at) + 1);
        assert_eq!(refusal(&other), Some(StateError::Version), "shape {at}");
    }
    assert_eq!(refusal(&[]), Some(StateError::Damaged));
    assert_eq!(refusal(b"TdAdvise"), Some(StateError::Damaged));
    assert_eq!(refusal(&[0xff; 1000]), Some(StateError::Damaged));
}

#[test]
fn a_damaged_state_is_refused() {
    let saved = player().advisor.save();
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..200 {
        let mut damaged = saved.clone();
        let at = rng.usize(..saved.len());
        damaged[at] ^= 1 << rng.u8(..8);
        assert_eq!(refusal(&damaged), Some(StateError::Damaged), "byte {at}");
    }
    for length in [
        0,
        1,
        8,
        16,
        20,
        saved.len() / 2,
        saved.len() - 8,
        saved.len() - 1,
    ] {
        assert_eq!(refusal(&saved[..length]), Some(StateError::Damaged));
        if length >= 16 && length % 8 == 0 {
            let cut = sealed(saved[..length].to_vec());
            assert!(refusal(&cut).is_some(), "cut at {length}");
        }
    }
    let longer = [&saved[..saved.len() - 8], &[0; 16]].concat();
    assert_eq!(refusal(&sealed(longer)), Some(StateError::Damaged));
}

/// Bytes that no advisor wrote, though their checksum is right, must not reach core.
#[test]
fn an_impossible_state_is_refused() {
    let saved = player().advisor.save();
    let level = HEAD + STREAMS + LEVEL + STREAMS;
    let words = level + LEVEL;
    let sets = words + SLOTS;
    let used = |from: usize| (from..sets).find(|&at| number(&saved, at) != 0).unwrap();
    let slot = used(words);
    let word = number(&saved, slot);
    let live = 1 << 58;
    assert_eq!(word >> 58 & 3, 1, "the word of a slot in use");
    let free = (words..sets).find(|&at| number(&saved, at) == 0).unwrap();
    let impossible = [
        ("a free slot holds something", slot, word & !live),
        ("busy", slot, word ^ 3 << 58),
        ("pinned", slot, word | 1 << 44),
        ("dirty", slot, word | 1 << 40),
        ("held", slot, word | 1 << 60),
        ("pending", slot, word | 1 << 61),
        ("stale", slot, word | 1 << 62),
        ("nothing valid", slot, word & !(0xf << 36)),
        ("beyond the disk", slot, word | 0xf_ffff_ffff),
        ("in the set of another frame", slot, word ^ 1),
        ("in a group of another frame", free, word),
        (
            "twice",
            if slot + 1024 < words + 1024 {
                slot
            } else {
                slot + 64
            },
            { number(&saved, used(slot + 1)) },
        ),
        (
            "a ghost beyond the ghosts",
            sets + 3,
            number(&saved, sets + 3) | 16 << 16,
        ),
        ("a way beyond the ways", sets + 3, 17 << 40),
        ("more trials than half of the ways", level, (6 << 16) + 1),
        (
            "less than one trial",
            level,
            (-(1_i64 << 16) - 1).cast_unsigned(),
        ),
        ("too much time", 7, u64::MAX),
        ("a gain too large", sets + SETS, i64::MIN.cast_unsigned()),
        ("no rung", 6, 0),
        ("more rungs than there are", 6, 14),
        ("rungs without end", 6, u64::MAX),
    ];
    for (what, at, number) in impossible {
        let changed = with(&saved, at, number);
        assert_eq!(refusal(&changed), Some(StateError::Damaged), "{what}");
    }
    // The same frame in two ways of its set.
    let other = (slot + 64..slot + 1024)
        .step_by(64)
        .find(|&at| at < words + 1024 && number(&saved, at) != 0)
        .unwrap_or(slot + 64);
    assert_eq!(
        refusal(&with(&saved, other, word)),
        Some(StateError::Damaged),
        "twice"
    );
}

/// Whatever numbers a state has: it is refused, or can be used.
#[test]
fn no_state_does_harm() {
    let saved = player().advisor.save();
    let mut rng = fastrand::Rng::with_seed(6);
    let (mut taken, count) = (0, saved.len() / 8 - 2);
    for round in 0..60 {
        let mut changed = saved.clone();
        for _ in 0..rng.usize(1..4) {
            // Most numbers are words; the others are changed as often.
            let at = if rng.bool() {
                rng.usize(..64)
            } else {
                rng.usize(..count)
            };
            changed = with(&changed, at, number(&saved, at) ^ 1 << rng.u8(..64));
        }
        if let Ok(advisor) = Advisor::load(&changed, TB) {
            taken += 1;
            let mut player = Player::new(TB);
            player.advisor = advisor;
            play(&mut player, round, 500);
            player.advisor.advice();
        }
    }
    assert!(taken > 0);
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! What the policy promises (large files, scans, nothing far below the best), on generated requests. Core is the real one.

use tandem_engine_bench::hitrate::arc::Arc;
use tandem_engine_bench::hitrate::core::{self, Cache, Shape, Writes};
use tandem_engine_bench::hitrate::hot_only::HotOnly;
use tandem_engine_bench::hitrate::lru::Lru;
use tandem_engine_bench::hitrate::min::Min;
use tandem_engine_bench::hitrate::s3_fifo::S3Fifo;
use tandem_engine_bench::hitrate::sieve::Sieve;
use tandem_engine_bench::hitrate::two_q::TwoQ;
use tandem_engine_bench::hitrate::{Policy, Recording, play};
use tandem_sim::engine::Core;

/// Bytes in a block.
const BLOCK: u64 = 16 << 10;
/// Sectors in a frame.
const FRAME: u64 = 32;
/// Slots of the caches here: 8 groups of real ones.
const ROOM: usize = 8192;
/// Frames of the disk.
const DISK: u64 = 1 << 20;
/// Frames that a reader of files asks for at once: 128 KiB.
const AT_ONCE: u64 = 8;

fn cache() -> Cache {
    let cache = Cache::new(&Core::linked(), Shape::for_room(ROOM), ROOM, DISK);
    assert_eq!(cache.slots() as usize, ROOM);
    cache
}

/// Reads frames one behind the other; returns how many of a hundred were hits.
fn read_file(cache: &mut Cache, first: u64, frames: u64) -> f64 {
    let mut hits = 0;
    for at in (first..first + frames).step_by(AT_ONCE as usize) {
        cache.read(at * FRAME, AT_ONCE * FRAME, |_, hit| hits += u64::from(hit));
    }
    100.0 * hits as f64 / frames as f64
}

/// A number below `below`, small ones more often: about one over its rank.
fn skewed(rng: &mut fastrand::Rng, below: u64) -> u64 {
    let rank = (below as f64).powf(rng.f64()) as u64;
    // Neighbours in rank are no neighbours on the disk.
    (rank.min(below - 1) * 0x9e37_79b1) % below
}

/// Reads `count` frames of a set of `frames`, any of them; returns how many of a hundred were hits.
fn use_hot(cache: &mut Cache, rng: &mut fastrand::Rng, first: u64, frames: u64, count: u64) -> f64 {
    let mut hits = 0;
    for _ in 0..count {
        let frame = first + rng.u64(..frames);
        cache.read(frame * FRAME, FRAME, |_, hit| hits += u64::from(hit));
    }
    100.0 * hits as f64 / count as f64
}

#[test]
fn a_file_is_fast_the_second_time_while_there_is_room() {
    let mut cache = cache();
    let frames = ROOM as u64 / 4;
    assert_eq!(read_file(&mut cache, 4096, frames), 0.0);
    let second = read_file(&mut cache, 4096, frames);
    println!("second time: {second:.1} %");
    assert!(second > 98.0);
}

#[test]
fn a_file_is_fast_the_third_time_in_a_full_cache() {
    for (share, least) in [(16, 97.0), (4, 95.0), (2, 90.0)] {
        let mut cache = cache();
        let mut rng = fastrand::Rng::with_seed(1);
        read_file(&mut cache, 0, 2 * ROOM as u64);
        use_hot(&mut cache, &mut rng, 0, ROOM as u64 / 4, 4 * ROOM as u64);
        let frames = ROOM as u64 / share;
        let times = [(); 3].map(|()| read_file(&mut cache, 500_032, frames));
        println!("1/{share} of the cache: {times:.1?} %");
        assert!(times[2] > least);
    }
}

#[test]
fn a_scan_leaves_the_hot_set() {
    let mut rng = fastrand::Rng::with_seed(2);
    for (share, full) in [(4, true), (2, true), (4, false)] {
        let mut cache = cache();
        let hot = ROOM as u64 / share;
        if full {
            read_file(&mut cache, 0, ROOM as u64);
        }
        use_hot(&mut cache, &mut rng, 200_000, hot, 8 * hot);
        let before = use_hot(&mut cache, &mut rng, 200_000, hot, hot);
        let scanned = read_file(&mut cache, 400_000, 3 * ROOM as u64);
        let after = use_hot(&mut cache, &mut rng, 200_000, hot, hot / 4);
        println!("hot set of 1/{share}: {before:.1} % before, {after:.1} % after");
        assert_eq!(scanned, 0.0);
        assert!(before > 90.0);
        assert!(after >= 0.95 * before);
    }
}

/// The rates of core, LRU, S3-FIFO, ARC, what promotes only what is hot, and the best possible.
fn rates(name: &str, requests: Vec<(bool, u64, u64)>) -> [f64; 6] {
    let recording = Recording::new(requests, BLOCK);
    let mut others: [Box<dyn Policy>; 5] = [
        Box::new(Lru::new(ROOM)),
        Box::new(S3Fifo::new(ROOM)),
        Box::new(Arc::new(ROOM)),
        Box::new(HotOnly::new(ROOM)),
        Box::new(Min::new(ROOM, &recording)),
    ];
    let others = others
        .each_mut()
        .map(|policy| play(&recording, policy.as_mut()).percent());
    let own = core::play(&recording, Writes::LikeReads, &mut cache()).percent();
    let [lru, s3, arc, hot, min] = others;
    println!(
        "{name}: core {own:.1}, LRU {lru:.1}, S3-FIFO {s3:.1}, ARC {arc:.1}, hot only {hot:.1}, MIN {min:.1}"
    );
    for rate in [own, lru, s3, arc, hot] {
        assert!(rate <= min, "nothing is better than MIN");
    }
    [own, lru, s3, arc, hot, min]
}

#[test]
fn favourites_stay() {
    let mut rng = fastrand::Rng::with_seed(3);
    let requests = (0..400_000)
        .map(|_| (false, skewed(&mut rng, 10 * ROOM as u64) * BLOCK, BLOCK))
        .collect();
    let [own, lru, s3, ..] = rates("skewed", requests);
    assert!(own > lru.max(s3) - 1.0);
    assert!(own > lru);
}

#[test]
fn a_loop_that_is_too_large_is_kept_in_part() {
    let frames = ROOM as u64 * 5 / 4;
    let requests = (0..20 * frames)
        .map(|at| (false, at % frames * BLOCK, BLOCK))
        .collect();
    let [own, lru, ..] = rates("loop", requests);
    assert_eq!(lru, 0.0);
    assert!(own > 20.0);
}

#[test]
fn a_mixture_is_served_as_well_as_elsewhere() {
    let mut rng = fastrand::Rng::with_seed(4);
    let mut requests = Vec::new();
    let mut scan = 0;
    while requests.len() < 300_000 {
        match rng.u8(..64) {
            0 => {
                for _ in 0..rng.u64(1..200) {
                    scan += 1;
                    requests.push((false, (300_000 + scan) * BLOCK, BLOCK));
                }
            }
            1..=16 => requests.push((true, rng.u64(..4 * ROOM as u64) * BLOCK, BLOCK)),
            _ => requests.push((false, (100_000 + skewed(&mut rng, 40_000)) * BLOCK, BLOCK)),
        }
    }
    let [own, lru, s3, ..] = rates("mixture", requests);
    assert!(own > lru.max(s3) - 1.0);
    assert!(own > lru);
}

/// Blocks that are read twice, with half as many others between as the cache has slots: what an eighth of it cannot hold.
fn read_twice(count: u64) -> Vec<(bool, u64, u64)> {
    let far = ROOM as u64 / 2;
    // Each read of a new block is followed by one of a block that is `far` reads older.
    let place = |at: u64| at * 0x9e37_79b1 % DISK * BLOCK;
    (0..2 * count)
        .map(|at| (at / 2, at % 2 == 1))
        .map(|(at, again)| {
            if again {
                at.saturating_sub(far / 2)
            } else {
                at
            }
        })
        .map(|at| (false, place(at), BLOCK))
        .collect()
}

#[test]
fn the_share_of_trials_follows_what_is_read() {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut cache = cache();
    let mut use_favourites = |cache: &mut Cache, count: u64| {
        let mut hits = 0;
        for _ in 0..count {
            let frame = skewed(&mut rng, 10 * ROOM as u64);
            cache.read(frame * FRAME, FRAME, |_, hit| hits += u64::from(hit));
        }
        100.0 * hits as f64 / count as f64
    };
    use_favourites(&mut cache, 200_000);
    let before = use_favourites(&mut cache, 200_000);
    let recording = Recording::new(read_twice(30_000), BLOCK);
    let twice = core::play(&recording, Writes::LikeReads, &mut cache).percent();
    use_favourites(&mut cache, 200_000);
    let after = use_favourites(&mut cache, 200_000);
    println!("favourites {before:.1} %, read twice {twice:.1} %, favourites {after:.1} %");
    assert!(twice > 25.0);
    assert!(after > before - 0.5);
}

/// Hits of one moment are no reason to keep a block: what is read four times at once, and then never again.
#[test]
fn a_burst_is_no_use_again() {
    let mut cache = cache();
    let mut rng = fastrand::Rng::with_seed(6);
    let hot = ROOM as u64 / 2;
    read_file(&mut cache, 0, ROOM as u64);
    use_hot(&mut cache, &mut rng, 200_000, hot, 8 * hot);
    let mut hits = 0;
    let count = 8 * ROOM as u64;
    for at in 0..count {
        let cold = 300_000 + at * 0x9e37_79b1 % (DISK - 300_000);
        for _ in 0..4 {
            cache.read(cold * FRAME, FRAME, |_, _| {});
        }
        let frame = 200_000 + rng.u64(..hot);
        cache.read(frame * FRAME, FRAME, |_, hit| hits += u64::from(hit));
    }
    let rate = 100.0 * hits as f64 / count as f64;
    println!("beside bursts: {rate:.1} %");
    assert!(rate > 90.0);
}

/// Which accesses to these blocks hit.
fn hits(policy: &mut dyn Policy, blocks: &str) -> String {
    blocks
        .bytes()
        .map(|block| match policy.access(u32::from(block - b'a')) {
            true => '+',
            false => '.',
        })
        .collect()
}

#[test]
fn the_others_do_as_their_papers_say() {
    assert_eq!(hits(&mut Lru::new(3), "abcadb"), "...+..");
    // A ghost that comes back makes room for what is recent (ARC) or is let in (S3-FIFO).
    assert_eq!(hits(&mut Arc::new(2), "aabcbc"), ".+...+");
    assert_eq!(hits(&mut S3Fifo::new(4), "aaabcdeabcde"), ".++....+....");
    // What was new once is no hit of the main queue; its ghost is.
    assert_eq!(hits(&mut TwoQ::new(4), "aabcdeafgha"), ".+........+");
    // The hand goes on where it stopped: behind the newest it begins with the oldest.
    assert_eq!(hits(&mut Sieve::new(3), "abcabdeab"), "...++....");
    let blocks = "abcabcabc";
    let recording = Recording::new(
        blocks
            .bytes()
            .map(|block| (false, u64::from(block) * BLOCK, BLOCK)),
        BLOCK,
    );
    assert_eq!(hits(&mut Min::new(2, &recording), blocks), "...++.++.");
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A checkpoint leaves pages out that groups stand for. Then the ring has no room for these groups, or one of them is lost.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::VecDeque;

use tandem_sim::engine::{
    Actions, Core, Engine, Geometry, Loaded, Mode, NewRequest, Region, ReqKind, WorkKind,
};
use tandem_sim::world::Word;

/// Sectors of a frame.
const FRAME: u64 = 32;
/// Slots in groups of 1024.
const SLOTS: u64 = 64 << 10;
/// Blocks of the journal.
const RING: u64 = 64;

fn geometry() -> Geometry {
    let mut end = 2048;
    let mut region = |length: u64| {
        let start = end;
        end += length;
        Region { start, length }
    };
    Geometry {
        origin_sectors: 16 * SLOTS * FRAME,
        journal: region(RING * 8),
        checkpoint: region(16 * (1 + SLOTS.div_ceil(511))),
        intent: region(9 * 8),
        data: region(SLOTS * FRAME),
        ssd_sectors: end,
        block_sectors: 1,
        groups: (SLOTS >> 10) as u32,
        run_shift: 6,
        way_shift: 4,
        parts: 1,
        origin_id_bytes: 1,
        ..Geometry::default()
    }
}

/// A cache, and the metadata that the SSD holds; its devices answer at once.
struct Cache {
    engine: Engine,
    image: Vec<u8>,
    heads: u32,
    /// No group was written since the last head.
    head_is_last: bool,
    /// The records that the groups so far have.
    recorded: Vec<u64>,
}

impl Cache {
    fn new() -> Cache {
        let (core, geometry) = (Core::linked(), geometry());
        let mut image = vec![0; geometry.data.start as usize * 512];
        for (sector, bytes) in core.format(&geometry) {
            image[sector as usize * 512..][..bytes.len()].copy_from_slice(&bytes);
        }
        Cache {
            engine: loaded(&image),
            image,
            heads: 0,
            head_is_last: false,
            recorded: vec![0; SLOTS as usize],
        }
    }

    /// Serves a request as far as that needs no I/O of the ledger.
    fn begin(&mut self, kind: ReqKind, frame: u64) {
        let count = if kind == ReqKind::Flush { 0 } else { FRAME };
        let new = NewRequest {
            kind,
            sector: frame * FRAME,
            count,
            parts: u32::from(kind == ReqKind::Write),
            no_memory: false,
            stream: false,
            lent: false,
            fua: false,
        };
        let request = self.engine.request(1, new);
        let mut due = VecDeque::from([self.engine.begin(&request).0]);
        loop {
            let Some(actions) = due.pop_front() else {
                assert!(self.work(&mut due), "a request is never answered");
                continue;
            };
            if actions.has(Actions::SSD) {
                due.push_back(self.engine.ssd_done(&request, true).0);
            }
            if actions.has(Actions::END) {
                break;
            }
        }
        self.engine.end(request);
    }

    /// One I/O of the ledger, whose result a start can read. False: there is none.
    fn work(&mut self, due: &mut VecDeque<Actions>) -> bool {
        let (Some(work), woken) = self.engine.next_io() else {
            return false;
        };
        due.extend(woken.into_iter().map(|(_, actions)| actions));
        let mut bytes = vec![[0; 512]; work.count as usize];
        self.engine.work_bytes(work.kind, 0, &mut bytes);
        if work.first < self.engine.geometry().data.start {
            self.image[work.first as usize * 512..][..bytes.len() * 512]
                .copy_from_slice(bytes.as_flattened());
        }
        let woken = self.engine.io_done(work.kind, true);
        due.extend(woken.into_iter().map(|(_, actions)| actions));
        match work.kind {
            WorkKind::Group => {
                self.head_is_last = false;
                self.note_records();
            }
            WorkKind::Head => {
                self.heads += 1;
                self.head_is_last = true;
                self.is_recorded();
            }
            _ => {}
        }
        true
    }

    fn note_records(&mut self) {
        let words = self.engine.words().into_iter().map(Word::of);
        for (known, word) in self.recorded.iter_mut().zip(words) {
            if !word.pending {
                *known = word.record();
            }
        }
    }

    /// A start finds all that was recorded and has not changed, also if it is to be recorded once more.
    fn is_recorded(&self) {
        let again = loaded(&self.image).words();
        for (slot, (word, again)) in self.engine.words().into_iter().zip(again).enumerate() {
            let (word, again) = (Word::of(word), Word::of(again));
            assert!(
                word.record() == again.record()
                    || (word.pending && word.record() != self.recorded[slot]),
                "after checkpoint {} slot {slot} is {:#x}, and after a start {:#x}",
                self.heads,
                word.record(),
                again.record()
            );
        }
    }
}

fn loaded(image: &[u8]) -> Engine {
    let (engine, end) = load(image);
    assert_eq!(end, Loaded::Good);
    engine
}

fn load(image: &[u8]) -> (Engine, Loaded) {
    let mut engine = Engine::new(&Core::linked(), geometry(), Mode::WriteBack);
    let mut load = engine.load();
    while let Some((sector, sectors)) = load.wants() {
        // The engine wants memory at a multiple of 8.
        let mut memory = vec![0; sectors as usize * 512 + 8];
        let from = memory.as_ptr().align_offset(8);
        let bytes = &mut memory[from..][..sectors as usize * 512];
        bytes.copy_from_slice(&image[sector as usize * 512..][..bytes.len()]);
        load.feed((sectors > 0).then_some(&*bytes));
    }
    let end = load.end();
    (engine, end)
}

/// Whether groups stand for pages of the newest checkpoint: they were durable before its head.
fn needs_groups(image: &[u8]) -> bool {
    let checkpoint = geometry().checkpoint;
    let area = checkpoint.length as usize / 2 * 512;
    let heads = [0, 1].map(|which| {
        let head = &image[checkpoint.start as usize * 512 + which * area..];
        // `number`, `group` and `until`: kmod/FORMAT.md.
        [16, 24, 48].map(|at| u64::from_le_bytes(head[at..at + 8].try_into().unwrap()))
    });
    heads
        .iter()
        .max()
        .is_some_and(|[_, group, until]| until > group)
}

/// The group that was written last: its blocks in the image.
fn last_group(image: &mut [u8]) -> Vec<&mut [u8]> {
    let journal = geometry().journal;
    let ring = &mut image[journal.start as usize * 512..][..journal.length as usize * 512];
    let number = |block: &[u8]| u64::from_le_bytes(block[16..24].try_into().unwrap());
    let blocks: Vec<_> = ring.chunks_mut(4096).collect();
    let last = blocks.iter().map(|block| number(block)).max().unwrap();
    assert!(last > 0);
    let of_last = |block: &&mut [u8]| number(block) == last;
    blocks.into_iter().filter(of_last).collect()
}

// promise 10: engine/pages::pages_that_are_left_out_are_written_when_the_ring_is_full
#[test]
fn pages_that_are_left_out_are_written_when_the_ring_is_full() {
    let mut cache = Cache::new();
    // Both areas get all pages.
    let mut new = 500_000..;
    let mut record = |cache: &mut Cache| {
        cache.begin(ReqKind::Write, new.next().unwrap());
        cache.begin(ReqKind::Flush, 0);
    };
    while cache.heads < 4 {
        record(&mut cache);
    }
    // Some pages differ in one slot.
    for far in 1..=8 {
        cache.begin(ReqKind::Write, far * 64 * 1024);
    }
    cache.begin(ReqKind::Flush, 0);
    while cache.engine.facts().used < 30 {
        record(&mut cache);
    }
    let heads = cache.heads;
    // A checkpoint begins in this sweep, for which the ring has no room.
    for frame in 64..64 + 16_000 {
        cache.begin(ReqKind::Write, frame);
    }
    cache.begin(ReqKind::Flush, 0);
    assert!(cache.heads > heads, "the ring had room");
}

// promise 1: engine/pages::a_lost_group_in_front_of_a_head_is_not_taken_for_a_torn_one
#[test]
fn a_lost_group_in_front_of_a_head_is_not_taken_for_a_torn_one() {
    let mut cache = Cache::new();
    let mut new = 500_000..;
    let mut due = VecDeque::new();
    while !(cache.head_is_last && needs_groups(&cache.image)) {
        cache.begin(ReqKind::Write, new.next().unwrap());
        cache.begin(ReqKind::Flush, 0);
        while cache.work(&mut due) {}
    }
    let mut image = cache.image.clone();
    assert_eq!(load(&image).1, Loaded::Good);
    for block in last_group(&mut image) {
        block.fill(0);
    }
    // Without the group a page that was left out would be older than the head, and nothing would say so.
    assert_eq!(load(&image).1, Loaded::Damaged);
}

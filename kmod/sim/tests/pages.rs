// SPDX-License-Identifier: GPL-3.0-or-later
//! A checkpoint leaves pages out that groups stand for, and then the ring has no room for these groups.

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
            WorkKind::Group => self.note_records(),
            WorkKind::Head => {
                self.heads += 1;
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
    assert_eq!(load.end(), Loaded::Good);
    engine
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

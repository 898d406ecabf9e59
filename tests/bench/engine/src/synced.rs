// SPDX-License-Identifier: GPL-3.0-or-later
//! What small writes cost that are each followed by a flush, as programs that save files make them.

use std::collections::VecDeque;

use tandem_sim::engine::{Actions, Engine, NewRequest, ReqKind, WorkKind};

/// Sectors of a write.
const COUNT: u64 = 8;
/// Writes before and while bytes are counted: some for each page of an index of 2 TB, of which a checkpoint leaves those with
/// few changes. A checkpoint is written when half of a ring of 64 MiB is full, each write costs a block of it.
const BEFORE: u32 = 1 << 20;
const COUNTED: u32 = 1 << 20;

/// Bytes of metadata on the SSD for one write of a block and its flush, in write-back, in the long run. The blocks are in
/// the first `sectors` of the disk, at random.
pub fn metadata_of_a_write(engine: &mut Engine, sectors: u64) -> f64 {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut bytes = 0;
    for i in 0..BEFORE + COUNTED {
        if i == BEFORE {
            bytes = 0;
        }
        let sector = rng.u64(..sectors / COUNT) * COUNT;
        bytes += serve(engine, ReqKind::Write, sector, COUNT);
        bytes += serve(engine, ReqKind::Flush, 0, 0);
    }
    bytes as f64 / f64::from(COUNTED)
}

/// Serves a request; the devices answer at once. Returns the metadata that was written meanwhile, in bytes.
fn serve(engine: &mut Engine, kind: ReqKind, sector: u64, count: u64) -> u64 {
    let frames = match kind {
        ReqKind::Flush => 0,
        _ => engine.span(kind, sector, count).frames,
    };
    let request = NewRequest {
        kind,
        sector,
        count,
        parts: frames,
        no_memory: false,
        stream: false,
        lent: false,
        fua: false,
    };
    let request = engine.request(1, request);
    let (actions, woken) = engine.begin(&request);
    let mut due: VecDeque<Actions> = [actions].into();
    due.extend(woken.into_iter().map(|(_, actions)| actions));
    let (mut bytes, mut answered) = (0, false);
    loop {
        let (work, woken) = engine.next_io();
        due.extend(woken.into_iter().map(|(_, actions)| actions));
        if let Some(work) = work {
            if work.kind != WorkKind::FlushDisk {
                bytes += work.count * 512;
            }
            let woken = engine.io_done(work.kind, true);
            due.extend(woken.into_iter().map(|(_, actions)| actions));
            continue;
        }
        let Some(actions) = due.pop_front() else {
            break;
        };
        let mut more = |(actions, woken): (Actions, tandem_sim::engine::Waking)| {
            due.push_back(actions);
            due.extend(woken.into_iter().map(|(_, actions)| actions));
        };
        if actions.has(Actions::START) {
            more(engine.start(&request));
        }
        if actions.has(Actions::DISK) {
            more(engine.disk_done(&request, true));
        }
        if actions.has(Actions::SSD) {
            more(engine.ssd_done(&request, true));
        }
        answered |= actions.has(Actions::ANSWER | Actions::PASS);
    }
    assert!(
        answered,
        "a request is not answered though nothing is under way"
    );
    engine.end(request);
    bytes
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! No safe call reads or writes beyond the caller's buffers, or core's.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use tandem_core::{
    Core, Engine, Geometry, Load, Loaded, Mode, NewRequest, ReqKind, Work, WorkKind,
};

/// Sectors of the disk and of the SSD.
const DISK: u64 = 1 << 20;
const SSD: u64 = 1 << 17;

fn geometry() -> Geometry {
    let mut geometry = Geometry {
        origin_sectors: DISK,
        ssd_sectors: SSD,
        block_sectors: 1,
        ..Geometry::default()
    };
    assert!(Core::linked().plan(&mut geometry));
    geometry
}

fn engine() -> Engine {
    Engine::new(&Core::linked(), geometry(), Mode::WriteBack)
}

/// A new cache's SSD without the slots.
fn image() -> Vec<u8> {
    let geometry = geometry();
    let mut image = vec![0; geometry.data.start as usize * 512];
    for (sector, bytes) in Core::linked().format(&geometry) {
        image[sector as usize * 512..][..bytes.len()].copy_from_slice(&bytes);
    }
    image
}

/// Feeds the load with what `part` takes of what the load wants and of what is behind that.
fn load(mut load: Load<'_>, image: &[u8], part: impl Fn(&[u8], usize) -> &[u8]) -> Loaded {
    while let Some((sector, count)) = load.wants() {
        let from = &image[sector as usize * 512..];
        load.feed((count > 0).then(|| part(from, count as usize * 512)));
    }
    load.end()
}

fn loaded() -> Engine {
    let mut engine = engine();
    let end = load(engine.load(), &image(), |from, length| &from[..length]);
    assert_eq!(end, Loaded::Good);
    engine
}

/// Does the ledger's work until there is one of this kind, which is left under way.
fn work(engine: &mut Engine, kind: WorkKind) -> Work {
    loop {
        let work = engine.next_io().0.unwrap();
        if work.kind == kind {
            return work;
        }
        engine.io_done(work.kind, true);
    }
}

/// A cache that is to record a write, and the record.
fn recording() -> (Engine, Work) {
    let mut engine = loaded();
    for (kind, count) in [(ReqKind::Write, 32), (ReqKind::Flush, 0)] {
        let new = NewRequest {
            kind,
            sector: 0,
            count,
            parts: u32::from(kind == ReqKind::Write),
            no_memory: false,
            stream: false,
            lent: false,
            fua: false,
        };
        // Neither is ended: core still knows them when the engine goes.
        let request = engine.request(1, new);
        engine.begin(&request);
        if kind == ReqKind::Write {
            engine.ssd_done(&request, true);
        }
    }
    // The first one wipes what may be left in the journal.
    let wipe = work(&mut engine, WorkKind::Group);
    engine.io_done(wipe.kind, true);
    let work = work(&mut engine, WorkKind::Group);
    assert!(work.count > 0);
    (engine, work)
}

#[test]
fn a_load_reads_nothing_behind_a_short_slice() {
    let image = image();
    // What is behind the slice is what the load wants there, so that a load that goes on is good.
    for missing in [1, 512] {
        let end = load(engine().load(), &image, |from, length| {
            &from[..length - missing]
        });
        assert_eq!(end, Loaded::Damaged, "{missing} bytes are missing");
    }
    let end = load(engine().load(), &image, |from, length| {
        &from[..from.len().min(length + 512)]
    });
    assert_eq!(end, Loaded::Good);
}

#[test]
#[should_panic(expected = "the load wants nothing now")]
fn a_load_is_not_fed_twice() {
    let mut engine = engine();
    let mut load = engine.load();
    load.wants();
    load.feed(None);
    load.feed(None);
}

#[test]
#[should_panic(expected = "the load wants nothing now")]
fn a_load_that_was_not_asked_is_not_fed() {
    engine().load().feed(None);
}

#[test]
fn a_work_shows_what_it_writes() {
    let (engine, work) = recording();
    let mut all = vec![[0; 512]; work.count as usize];
    engine.work_bytes(work.kind, 0, &mut all);
    assert!(all.iter().flatten().any(|&byte| byte != 0));
    let mut last = [[0; 512]];
    engine.work_bytes(work.kind, work.count - 1, &mut last);
    assert_eq!(last[0], all[all.len() - 1]);
    engine.work_bytes(work.kind, work.count, &mut []);
}

#[test]
#[should_panic(expected = "was asked for")]
fn a_work_shows_no_more_than_it_writes() {
    let (engine, work) = recording();
    engine.work_bytes(work.kind, work.count, &mut [[0; 512]]);
}

#[test]
#[should_panic(expected = "was asked for")]
fn a_number_that_core_does_not_hold_is_not_cut() {
    let (engine, work) = recording();
    engine.work_bytes(work.kind, 1 << 32, &mut [[0; 512]]);
}

#[test]
#[should_panic(expected = "work of 0 sectors was asked for 1")]
fn a_work_that_never_began_shows_nothing() {
    engine().work_bytes(WorkKind::Group, 0, &mut [[0; 512]]);
}

#[test]
fn a_trim_writes_nothing() {
    let mut engine = loaded();
    engine.trim_allow(1);
    let work = work(&mut engine, WorkKind::Trim);
    assert!(work.count > 0);
    let mut bytes = [[7; 512]];
    engine.work_bytes(WorkKind::Trim, 0, &mut bytes);
    assert_eq!(bytes, [[7; 512]]);
}

#[test]
fn a_file_system_has_as_many_places_as_core_holds() {
    let mut engine = engine();
    assert!(engine.look_begin());
    engine.look_end(&[0, 1, 2]);
    // What is to be learned is flushed first.
    assert_eq!(engine.learn_begin(), None);
    while let Some(work) = engine.next_io().0 {
        engine.io_done(work.kind, true);
    }
    let mut wanted = Vec::new();
    while let Some(quarter) = engine.learn_begin() {
        engine.learn_end(quarter, Some(&[0; 8]));
        wanted.push(quarter);
    }
    assert_eq!(wanted, [0, 1, 2]);
}

#[test]
#[should_panic(expected = "no more than 3 places")]
fn a_file_system_has_no_more_places_than_core_holds() {
    let mut engine = engine();
    assert!(engine.look_begin());
    engine.look_end(&[0, 1, 2, 3]);
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A sweep of a cache that is large enough for each level of the summary of what is pending.

use tandem_sim::checks::Full;
use tandem_sim::engine::{Core, Engine, Geometry, Loaded, Mode};
use tandem_sim::world::Word;

/// Sectors of an SSD of 16 GB: more slots than three words of the highest level stand for.
const SSD: u64 = 16_000_000_000 / 512;

/// An engine with a full index.
fn full(core: &Core) -> Engine {
    let mut geometry = Geometry {
        origin_sectors: 8 * SSD,
        ssd_sectors: SSD,
        block_sectors: 8,
        ..Geometry::default()
    };
    assert!(core.plan(&mut geometry), "no plan");
    let index = Full::new(core, &geometry);
    let mut engine = Engine::new(core, geometry, Mode::WriteBack);
    let mut load = engine.load();
    while let Some((sector, sectors)) = load.wants() {
        // The engine wants memory at a multiple of 8.
        let mut memory = vec![0; sectors as usize * 512 + 8];
        let from = memory.as_ptr().align_offset(8);
        let bytes = &mut memory[from..][..sectors as usize * 512];
        index.read(sector, bytes);
        load.feed((sectors > 0).then_some(&*bytes));
    }
    assert_eq!(load.end(), Loaded::Good);
    engine
}

fn pending(engine: &Engine) -> usize {
    let words = engine.words().into_iter();
    words.filter(|&word| Word::of(word).pending).count()
}

// promise 6: engine/sweep::every_change_is_recorded_wherever_it_is
#[test]
fn every_change_is_recorded_wherever_it_is() {
    let mut engine = full(&Core::linked());
    let groups = engine.layout().groups;
    for group in [0, 1, groups / 3, groups / 2, groups - 2, groups - 1] {
        engine.forget_group(group);
    }
    assert!(pending(&engine) > 4 * 1024);
    engine.tick();
    while let (Some(work), _) = engine.next_io() {
        engine.io_done(work.kind, true);
    }
    assert_eq!(pending(&engine), 0);
    assert_eq!(engine.facts().pending, 0);
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The ledger's own I/O.

use crate::engine::Engine;
use crate::types::{WORK_KINDS, Waking, Work, WorkKind};

// SAFETY (all calls below): as in engine.rs.
impl Engine {
    /// The ledger has I/O of its own.
    pub fn work_due(&self) -> bool {
        unsafe { (self.core.api.work_due)(self.raw) }
    }

    /// The ledger's next I/O, or a step that makes it.
    pub fn work_next(&mut self) -> (Option<Work>, Waking) {
        let (work, woken) = self.waking(|api, raw, list| {
            let (mut kind, mut sector, mut sectors, mut flush) = (0, 0, 0, false);
            let (at, count) = (&mut sector, &mut sectors);
            let any = unsafe { (api.work_next)(raw, &mut kind, at, count, &mut flush, list) };
            any.then(|| Work {
                kind: WORK_KINDS[kind as usize],
                first: sector,
                count: u64::from(sectors),
                flush,
            })
        });
        if let Some(work) = &work {
            self.work_sectors[work.kind as usize] = work.count;
        }
        (work, woken)
    }

    /// The ledger's next I/O, all of whose steps are done and whose bytes are filled in.
    pub fn next_io(&mut self) -> (Option<Work>, Waking) {
        let mut all = Waking::new();
        loop {
            let (work, woken) = self.work_next();
            all.extend(woken);
            match work {
                Some(Work {
                    kind: WorkKind::Step,
                    ..
                }) => {}
                Some(work) => {
                    self.work_fill(work.kind);
                    return (Some(work), all);
                }
                None => return (None, all),
            }
        }
    }

    /// Prints what the work under way is to write. Once, before [`Engine::work_bytes`].
    pub fn work_fill(&mut self, kind: WorkKind) {
        unsafe { (self.core.api.work_fill)(self.raw, kind as u32) }
    }

    /// The bytes that the work under way writes, from its sector `from` on. A trim writes none, and leaves `bytes` as they are.
    ///
    /// # Panics
    /// If the work has fewer sectors: what is left of `bytes` would be taken for what is to be written.
    pub fn work_bytes(&self, kind: WorkKind, from: u64, bytes: &mut [[u8; 512]]) {
        let (end, sectors) = (
            from.saturating_add(bytes.len() as u64),
            self.work_sectors[kind as usize],
        );
        assert!(
            end <= sectors,
            "work of {sectors} sectors was asked for {end}"
        );
        let count = bytes.len() as u32;
        let room = bytes.as_mut_ptr().cast();
        unsafe { (self.core.api.work_bytes)(self.raw, kind as u32, from as u32, count, room) }
    }

    /// The work of this kind ended. True: core applies its result in steps; this one was not the last.
    pub fn work_done(&mut self, kind: WorkKind, ok: bool) -> (bool, Waking) {
        self.waking(|api, raw, list| unsafe { (api.work_done)(raw, kind as u32, ok, list) })
    }

    /// The I/O of this kind ended, and its result is applied with all steps.
    pub fn io_done(&mut self, kind: WorkKind, ok: bool) -> Waking {
        let mut all = Waking::new();
        loop {
            let (again, woken) = self.work_done(kind, ok);
            all.extend(woken);
            if !again {
                return all;
            }
        }
    }

    /// A trim of at most `lanes` lanes may begin.
    pub fn trim_allow(&mut self, lanes: u32) {
        unsafe { (self.core.api.trim_allow)(self.raw, lanes) }
    }

    /// A second passed.
    pub fn tick(&mut self) {
        unsafe { (self.core.api.tick)(self.raw) }
    }
}

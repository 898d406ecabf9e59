// SPDX-License-Identifier: GPL-3.0-or-later
//! Watched places of the disk, for callers whose sectors are numbers (`shim/watching.c`).

use crate::engine::{Engine, Request};
use crate::ffi::PLACES_ROOM;
use crate::start::Samples;
use crate::types::{Actions, Waking};

// SAFETY (all calls below): as in engine.rs.
impl Engine {
    /// The quarter of which the request must say what it writes there (action SUM).
    pub fn summing(&self, request: &Request) -> u64 {
        unsafe { (self.core.api.summing)(request.0) }
    }

    /// The request writes these sectors of the place, with these checksums; `None`: it does not write the sector.
    pub fn summed(&mut self, request: &Request, sums: &[Option<u32>; 8]) -> (Actions, Waking) {
        let mask = (0..8).filter(|&at| sums[at].is_some());
        let mask = mask.fold(0, |mask, at| mask | 1 << at);
        let sums = sums.map(Option::unwrap_or_default);
        let request = request.0;
        let (actions, woken) = self.waking(|api, raw, list| unsafe {
            (api.summed)(raw, request, mask, sums.as_ptr(), list)
        });
        (Actions(actions), woken)
    }

    /// A start found these samples; `same`: the disk is as they say, and they are sure.
    pub fn watch_resume(&mut self, samples: &Samples, same: bool) {
        unsafe { (self.core.api.watch_resume)(self.raw, samples.raw(), same) }
    }

    /// The caller has to look at the disk.
    pub fn watch_asks(&self) -> bool {
        unsafe { (self.core.api.watch_asks)(self.raw) }
    }

    /// Begins to look which file system is on the disk.
    pub fn look_begin(&mut self) -> bool {
        unsafe { (self.core.api.look_begin)(self.raw) }
    }

    /// A file system was found that changes one of these quarters with each use.
    ///
    /// # Panics
    /// If there are more quarters than a file system has in core.
    pub fn look_end(&mut self, quarters: &[u64]) -> bool {
        assert!(
            quarters.len() <= PLACES_ROOM,
            "a file system has no more than {PLACES_ROOM} places"
        );
        unsafe { (self.core.api.look_end)(self.raw, quarters.as_ptr(), quarters.len() as u32) }
    }

    /// The next quarter that is to be read.
    pub fn learn_begin(&mut self) -> Option<u64> {
        let mut quarter = 0;
        unsafe { (self.core.api.learn_begin)(self.raw, &mut quarter) }.then_some(quarter)
    }

    /// The sums of this quarter's sectors were read; `None`: the quarter cannot be read.
    pub fn learn_end(&mut self, quarter: u64, sums: Option<&[u32; 8]>) {
        let sums = sums.map_or(std::ptr::null(), |sums| sums.as_ptr());
        unsafe { (self.core.api.learn_end)(self.raw, quarter, sums) }
    }
}

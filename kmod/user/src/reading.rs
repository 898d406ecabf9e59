// SPDX-License-Identifier: GPL-3.0-or-later
//! Where a read goes.

use crate::engine::Engine;
use crate::ffi::Look;
use crate::types::{Joined, Verdict};

// SAFETY (all calls below): as in engine.rs.
impl Engine {
    /// Looks a read up.
    pub fn look(&mut self, sector: u64, count: u64) -> (Verdict, Look) {
        let mut look = Look::default();
        let verdict =
            match unsafe { (self.core.api.read_look)(self.raw, sector, count as u32, &mut look) } {
                0 => Verdict::Hit,
                1 => Verdict::Miss,
                2 => Verdict::Pass,
                _ => Verdict::Busy,
            };
        (verdict, look)
    }

    /// A read is answered of which [`Engine::look`] said that the disk may answer it.
    pub fn disk_read_ends(&mut self) {
        unsafe { (self.core.api.disk_read_ends)(self.raw) }
    }

    /// A fill in flight may bring what a read that misses asks for: a hint.
    pub fn may_join(&self, sector: u64) -> bool {
        unsafe { (self.core.api.may_join)(self.raw, sector) }
    }

    /// The fill in flight whose memory has, or will have, the first sectors of a read that misses.
    pub fn join_fill(&mut self, sector: u64, count: u64) -> Option<Joined> {
        let (mut count, mut fill, mut answered) = (count as u32, 0, false);
        unsafe { (self.core.api.join_fill)(self.raw, sector, &mut count, &mut fill, &mut answered) }
            .then_some(Joined {
                fill,
                count: count.into(),
                answered,
            })
    }
}

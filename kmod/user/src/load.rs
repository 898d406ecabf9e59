// SPDX-License-Identifier: GPL-3.0-or-later
//! The load of an index, piece by piece.

use crate::engine::Engine;
use crate::ffi::RawLoad;
use crate::types::Loaded;

/// An index on its way from the SSD into memory.
pub struct Load<'a> {
    engine: &'a mut Engine,
    raw: *mut RawLoad,
    ended: bool,
}

// SAFETY (all calls below): the engine is borrowed, and the raw pointer is good until `load_end`, which is called once.
impl Load<'_> {
    pub(crate) fn new(engine: &mut Engine) -> Load<'_> {
        Load {
            raw: unsafe { (engine.core.api.load_new)(engine.raw) },
            engine,
            ended: false,
        }
    }

    /// What is to be read next: first sector and count.
    pub fn wants(&mut self) -> Option<(u64, u64)> {
        let (mut sector, mut sectors) = (0, 0);
        unsafe { (self.engine.core.api.load_next)(self.raw, &mut sector, &mut sectors) }
            .then_some((sector, u64::from(sectors)))
    }

    /// The content of what was wanted; `None` if it could not be read.
    pub fn feed(&mut self, bytes: Option<&[u8]>) {
        let bytes = bytes.map_or(std::ptr::null(), <[u8]>::as_ptr);
        unsafe { (self.engine.core.api.load_feed)(self.raw, bytes) }
    }

    /// The verdict.
    pub fn end(mut self) -> Loaded {
        self.ended = true;
        match unsafe { (self.engine.core.api.load_end)(self.raw) } {
            0 => Loaded::Good,
            1 => Loaded::Damaged,
            _ => Loaded::Impossible,
        }
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        if !self.ended {
            unsafe { (self.engine.core.api.load_end)(self.raw) };
        }
    }
}

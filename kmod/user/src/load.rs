// SPDX-License-Identifier: GPL-3.0-or-later
//! The load of an index, piece by piece.

use crate::engine::Engine;
use crate::ffi::RawLoad;
use crate::types::Loaded;

/// An index on its way from the SSD into memory.
pub struct Load<'a> {
    engine: &'a mut Engine,
    raw: *mut RawLoad,
    /// Sectors of what is to be fed next; `None`: nothing is.
    wanted: Option<u64>,
    ended: bool,
}

// SAFETY (all calls below): the engine is borrowed, and the raw pointer is good until `load_end`, which is called once.
impl Load<'_> {
    pub(crate) fn new(engine: &mut Engine) -> Load<'_> {
        Load {
            raw: unsafe { (engine.core.api.load_new)(engine.raw) },
            engine,
            wanted: None,
            ended: false,
        }
    }

    /// What is to be read next: first sector and count.
    pub fn wants(&mut self) -> Option<(u64, u64)> {
        let (mut sector, mut sectors) = (0, 0);
        let more = unsafe { (self.engine.core.api.load_next)(self.raw, &mut sector, &mut sectors) };
        self.wanted = more.then_some(u64::from(sectors));
        self.wanted.map(|sectors| (sector, sectors))
    }

    /// The content of what was wanted; `None` if it could not be read. Less than what was wanted counts as that.
    ///
    /// # Panics
    /// If [`Load::wants`] has asked for nothing since the last call: core would go on behind its tables.
    pub fn feed(&mut self, bytes: Option<&[u8]>) {
        let sectors = self.wanted.take();
        assert!(sectors.is_some(), "the load wants nothing now");
        let bytes = bytes.filter(|bytes| Some(bytes.len() as u64 / 512) >= sectors);
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

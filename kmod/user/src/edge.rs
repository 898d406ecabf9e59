// SPDX-License-Identifier: GPL-3.0-or-later
//! The rest of quarters of which a write has a part.

use crate::engine::{Engine, Request};
use crate::types::{Actions, Waking};

// SAFETY (all calls below): as in engine.rs.
impl Engine {
    /// What is to be read from the disk into the request's memory (action MERGE): first sectors and counts.
    pub fn rests(&self, request: &Request) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        let (mut cursor, mut sector, mut count) = (0, 0, 0);
        while unsafe {
            let next = self.core.api.next_rest;
            next(self.raw, request.0, &mut cursor, &mut sector, &mut count)
        } {
            all.push((sector, u64::from(count)));
        }
        all
    }

    /// All of that was read; or not.
    pub fn rest_read(&mut self, request: &Request, ok: bool) -> (Actions, Waking) {
        self.done(self.core.api.rest_read, request, ok)
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A write of a part of a quarter reads the rest of it from the disk first.

use super::io::{Role, token};
use super::{Fault, World, ensure};
use crate::queue::Side;

impl World {
    /// Reads what core asks for into the private memory of the write `id`.
    pub(super) fn merge(&mut self, id: u64) -> Result<(), Fault> {
        let rests = self.engine.rests(self.request(id)?);
        let sub = self.sub(id)?;
        let (op, first, end) = (sub.op, sub.first, sub.first + sub.count);
        let Some((memory, base)) = sub.private else {
            return Err(Fault::Other(format!("#{op} has no private memory")));
        };
        ensure!(!rests.is_empty(), "#{op} asks for the rest of nothing");
        for &(at, count) in &rests {
            let head = at % 8 == 0 && at + count == first;
            let tail = at == end && (at + count) % 8 == 0;
            let last = at == end && at + count == self.engine.layout().origin_sectors;
            ensure!(
                (head || tail || last) && (1..8).contains(&count),
                "{at}+{count} is no rest of a quarter of #{op}, which writes {first}..{end}"
            );
            ensure!(
                !self.is_valid(at),
                "sector {at}: the rest of a quarter that is on the SSD is read from the disk"
            );
        }
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.rests = (rests.len(), false);
            self.seen.merges += u64::from(!sub.merged);
            sub.merged = true;
        }
        for (at, count) in rests {
            let place = (memory, at - base);
            self.read(Side::Origin, (at, count), place, token(id, Role::Rest));
        }
        Ok(())
    }

    /// One rest was read; or not.
    pub(super) fn rest_done(&mut self, id: u64, failed: bool) -> Result<(), Fault> {
        let Some(sub) = self.subs.get_mut(&id) else {
            return Err(Fault::Other(format!("request {id} is unknown")));
        };
        sub.rests.0 -= 1;
        sub.rests.1 |= failed;
        let (left, failed) = sub.rests;
        if left > 0 {
            return Ok(());
        }
        self.restart_with(id, "goes on with the rest", |engine, request| {
            engine.rest_read(request, !failed)
        })?;
        self.last = "rest read";
        Ok(())
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Space of the SSD that no copy uses is trimmed there: the SSD may show anything in it from then on.

use super::io::{Role, role};
use super::{Fault, World, ensure};
use crate::queue::{Kind, Side};

impl World {
    /// After half of the seconds a trim may begin, and after half of the trims another one.
    pub(super) fn allow_trim(&mut self) {
        if self.rng.bool() {
            let lanes = self.rng.u32(1..9);
            self.engine.trim_allow(lanes);
        }
    }

    /// `count` sectors of the SSD, from `first` on, are about to be trimmed.
    pub(super) fn check_trim(&self, first: u64, count: u64) -> Result<(), Fault> {
        let (start, slots) = {
            let layout = self.engine.layout();
            (layout.data_start, u64::from(layout.slots))
        };
        ensure!(
            count > 0
                && first >= start
                && first + count <= start + slots * 32
                && (first - start).is_multiple_of(32)
                && count.is_multiple_of(32),
            "{count} sectors from {first} on are trimmed, which are no slots"
        );
        for slot in (first - start) / 32..(first + count - start) / 32 {
            ensure!(
                self.durable.is_known(slot as u32),
                "slot {slot} is trimmed, whose record is not known"
            );
            for word in self.durable.records(slot as u32) {
                ensure!(
                    word.valid == 0,
                    "slot {slot} is trimmed, which is recorded with frame {}",
                    word.tag
                );
            }
        }
        let meets = self.queue.iter().find(|io| {
            io.side == Side::Ssd && io.first < first + count && first < io.first + io.count
        });
        ensure!(meets.is_none(), "a trim of {first}+{count} meets {meets:?}");
        Ok(())
    }

    /// `count` sectors are about to be stored on the SSD, from its sector `to` on.
    pub(super) fn check_no_trim(&self, to: u64, count: u64) -> Result<(), Fault> {
        let trim = self.queue.iter().find(|io| {
            role(io) == Role::Work
                && matches!(io.kind, Kind::Discard(_))
                && io.first < to + count
                && to < io.first + io.count
        });
        ensure!(trim.is_none(), "{to}+{count} is stored beside {trim:?}");
        Ok(())
    }
}

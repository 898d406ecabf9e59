// SPDX-License-Identifier: GPL-3.0-or-later
//! How much memory the computer has.

/// The memory of the computer at one moment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// All of it.
    pub total: u64,
    /// The part that programs can have without swapping (`MemAvailable`).
    pub available: u64,
}

impl Room {
    /// Programs need the memory that caches have: less than a tenth is available.
    pub fn is_short(self) -> bool {
        self.available < self.total / 10
    }

    /// A cache that has given its memory back may take so many bytes again: a fifth stays available also when the cache is full.
    pub fn fits(self, bytes: u64) -> bool {
        self.available >= bytes.saturating_add(self.total / 5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache that comes back and fills does not have to go again, if nothing else changes.
    #[test]
    fn what_fits_does_not_make_the_room_short() {
        let total = 1000;
        for available in 0..=total {
            let room = Room { total, available };
            for bytes in [0, 1, 64, 500, u64::MAX] {
                let full = Room {
                    total,
                    available: available.saturating_sub(bytes),
                };
                assert!(!(room.fits(bytes) && full.is_short()), "{room:?} {bytes}");
            }
        }
        let at = |available| Room { total, available };
        assert!(at(99).is_short() && !at(100).is_short());
        assert!(at(264).fits(64) && !at(263).fits(64));
    }
}

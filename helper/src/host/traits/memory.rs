// SPDX-License-Identifier: GPL-3.0-or-later
//! The computer's memory, of which caches may have a part in place of an SSD.

use crate::model::memory::Room;

/// How much memory there is. [`crate::host::traits::Mappings::apply`] takes it for a cache and gives it back.
pub trait Memory: Send + Sync + 'static {
    /// Most bytes of memory that caches may take together; 0 without zram.
    fn memory_for_caches(&self) -> u64 {
        0
    }

    /// The memory of the computer now; `None` if the kernel does not tell.
    fn memory_room(&self) -> Option<Room> {
        None
    }
}

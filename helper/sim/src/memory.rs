// SPDX-License-Identifier: GPL-3.0-or-later
//! The simulated computer's memory, of which caches have a part in place of an SSD.

use super::Simulated;
use super::world::{Block, Scene};
use tandem_api::Failure;
use tandem_helper::host::traits::Memory;
use tandem_helper::model::action::Pair;
use tandem_helper::model::memory::Room;

/// All memory of the computer, in bytes.
pub const TOTAL: u64 = 16 << 30;
/// The kind of a block device in memory: see [`Block::backing`].
pub const KIND: &str = "memory";

impl Memory for Simulated {
    fn memory_for_caches(&self) -> u64 {
        TOTAL / 2
    }

    fn memory_room(&self) -> Option<Room> {
        let available = self.world.read(|scene| scene.memory_available);
        Some(Room {
            total: TOTAL,
            available,
        })
    }
}

fn is_of(block: &Block, uuid: &str) -> bool {
    matches!(&block.backing, Some((of, kind)) if kind == KIND && of == uuid)
}

impl Scene {
    /// Makes the memory of a cache, empty.
    pub fn make_memory(&mut self, pair: &Pair) {
        self.blocks.retain(|_, block| !is_of(block, &pair.uuid));
        let free = |n: &u32| !self.blocks.contains_key(&format!("zram{n}"));
        let name = format!("zram{}", (0..).find(free).unwrap_or(0));
        self.next_diskseq += 1;
        let block = Block {
            size: pair.ssd.text.size,
            blank: true,
            diskseq: self.next_diskseq,
            backing: Some((pair.uuid.clone(), KIND.to_owned())),
            ..Block::default()
        };
        self.blocks.insert(name, block);
    }

    /// Gives the memory of a cache back, unless its mapping uses it.
    pub fn give_back_memory(&mut self, pair: &Pair) -> Result<(), Failure> {
        if self.maps.get(&pair.uuid).is_some_and(|map| map.attached) {
            return Err(super::failed("device or resource busy"));
        }
        self.blocks.retain(|_, block| !is_of(block, &pair.uuid));
        Ok(())
    }

    /// The machine was switched off.
    pub fn forget_memory(&mut self) {
        let is_memory = |block: &Block| matches!(&block.backing, Some((_, kind)) if kind == KIND);
        self.blocks.retain(|_, block| !is_memory(block));
    }
}

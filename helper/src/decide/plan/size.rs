// SPDX-License-Identifier: GPL-3.0-or-later
//! The size of a cache on an SSD, computed as kmod/core/super.c does, so that a plan can show the size before anything
//! is written.

/// Sectors of a frame, the unit of caching.
const FRAME: u64 = 32;
/// Sectors before the first region. The data begins at a multiple of this number.
const SUPER: u64 = 2048;
/// Sectors of a block of metadata.
const BLOCK: u64 = 8;
/// Least and most sectors of the journal.
const JOURNAL: (u64, u64) = (512, 131_072);
/// Slots of a checkpoint's page.
const PAGE_SLOTS: u64 = 511;
/// Slots are numbered in 31 bits. Room for more slots stays unused.
const MAX_SECTORS: u64 = FRAME << 31;
/// Intent marks: of one block, of all, and least sectors of a region.
const BLOCK_MARKS: u64 = 4032 * BLOCK;
const MAX_MARKS: u64 = 1 << 18;
const REGION: u64 = 2048;
/// Largest run and number of ways, as powers of two, and the least number of groups wanted.
const RUN_SHIFT: u32 = 6;
const WAY_SHIFT: u32 = 4;
const GROUPS: u64 = 16;
/// Kernel memory: for a slot's word and for its bit, in bits; for a set and for a region's mark, in bytes.
const SLOT_BITS: u64 = 64 + 1;
const SET_BYTES: u64 = 32;
const MARK_BYTES: u64 = 16;
/// Kernel memory for the data on its way from the SSD to the disk.
const CLEANER_BYTES: u64 = 16 << 18;

/// Regions of a disk of this many sectors, each with an intent mark.
fn marks(origin: u64) -> u64 {
    let mut region = REGION;
    while origin.div_ceil(region) > MAX_MARKS {
        region *= 2;
    }
    origin.div_ceil(region)
}

/// The room for copies on an SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSpace {
    slots: u64,
    way_shift: u32,
    marks: u64,
}

impl CacheSpace {
    /// The room on an SSD, for a disk; both sizes in bytes.
    pub fn new(ssd: u64, origin: u64) -> Self {
        let sectors = (ssd / 512).min(MAX_SECTORS);
        let marks = marks(origin / 512);
        let journal = (sectors / 256)
            .clamp(JOURNAL.0, JOURNAL.1)
            .next_multiple_of(BLOCK);
        let checkpoint = 2 * (1 + (sectors / FRAME).div_ceil(PAGE_SLOTS)) * BLOCK;
        let intent = MAX_MARKS.div_ceil(BLOCK_MARKS) * BLOCK;
        let data = (SUPER + journal + checkpoint + intent).next_multiple_of(SUPER);
        let slots = sectors.saturating_sub(data) / FRAME;
        let (mut run, mut way) = (RUN_SHIFT, WAY_SHIFT);
        while slots >> (run + way) < GROUPS && run + way > 4 {
            if run > 2 {
                run -= 1;
            } else {
                way -= 1;
            }
        }
        Self {
            slots: slots >> (run + way) << (run + way),
            way_shift: way,
            marks,
        }
    }

    /// Bytes of data that the cache holds; 0 if the SSD is too small.
    pub fn cache_bytes(&self) -> u64 {
        self.slots * FRAME * 512
    }

    /// Bytes of kernel memory that the cache takes.
    pub fn memory_bytes(&self) -> u64 {
        self.slots * SLOT_BITS / 8
            + (self.slots >> self.way_shift) * SET_BYTES
            + self.marks * MARK_BYTES
            + CLEANER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_sim::engine::{Core, Geometry};

    /// What core plans: slots and ways; none if it refuses.
    fn core(core: &Core, ssd: u64, origin: u64) -> Option<(u64, u32)> {
        let mut geometry = Geometry {
            ssd_sectors: ssd / 512,
            origin_sectors: origin / 512,
            block_sectors: 1,
            ..Geometry::default()
        };
        let way = core.plan(&mut geometry).then_some(geometry.way_shift)?;
        let slots = u64::from(geometry.groups) << (geometry.run_shift + way);
        Some((slots, way))
    }

    #[test]
    fn it_is_what_the_module_makes_of_it() {
        let module = Core::linked();
        // From nothing to beyond what slots can be numbered, by a factor that meets no power of two twice.
        let mut tried = 0;
        let mut ssd = 1_000_000_u64;
        while ssd < 80 << 40 {
            for origin in [16 << 20, 31_999 << 30, 256 << 30, 257 << 30, 900 << 40] {
                let room = CacheSpace::new(ssd, origin);
                let planned = core(&module, ssd, origin);
                let ours = (room.slots > 0).then_some((room.slots, room.way_shift));
                assert_eq!(ours, planned, "SSD {ssd}, disk {origin}");
                tried += 1;
            }
            ssd = ssd / 100 * 103 + 4097;
        }
        assert!(tried > 2_000, "{tried}");
    }

    #[test]
    fn most_of_an_ssd_holds_data_and_memory_is_a_thousandth_of_it() {
        for gib in [1, 7, 120, 2_000, 30_000] {
            let (bytes, origin) = (gib << 30, 4 << 40);
            let room = CacheSpace::new(bytes, origin);
            let (held, memory) = (room.cache_bytes(), room.memory_bytes());
            assert!(held < bytes && held > bytes / 100 * 98, "{gib}: {held}");
            assert!(memory < held / 1_500 + (9 << 20), "{gib}: {memory}");
        }
    }
}

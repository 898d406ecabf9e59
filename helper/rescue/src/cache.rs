// SPDX-License-Identifier: GPL-3.0-or-later
//! The cache on an SSD, as a start of the module finds it.

use serde::Serialize;
use tandem_core::start::{COPIES, Flags, Samples, SuperCopy, SuperError, Superblock};
use tandem_core::{Core, Engine, Loaded, Mode};

use crate::Error;
use crate::error::Fault;
use crate::medium::{BLOCK_BYTES, Medium, SECTOR_BYTES};
use crate::order::{FRAME_SECTORS, QUARTER_SECTORS, Range, in_disk_order};

/// Sectors in front of the first region.
const SUPER_AREA: u64 = 2048;

/// A cache that was loaded from its SSD. Nothing was written.
pub struct Cache {
    /// The engine's code.
    pub core: Core,
    /// What is on the SSD; the engine has no request under way.
    pub engine: Engine,
    /// Which cache this is.
    pub superblock: Superblock,
    /// Which of the two superblocks are sound.
    pub sound: [bool; 2],
    /// What the SSD says of the disk.
    pub samples: Samples,
    /// Whether the index could be used.
    pub index: Index,
}

/// What a start makes of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Index {
    /// The index is sound.
    Sound,
    /// The index cannot be used, or is older than the superblock, which says that nothing on the SSD is dirty.
    NotNeeded,
}

/// What is on the SSD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Of the cache, 32 hex digits.
    pub uuid: String,
    /// What the SSD knows of the disk's identity, in hex.
    pub disk_id: String,
    /// Length of the disk.
    pub disk_bytes: u64,
    /// How much the SSD can hold.
    pub capacity_bytes: u64,
    /// Copies of what is also on the disk.
    pub clean_bytes: u64,
    /// What is not yet on the disk.
    pub dirty_bytes: u64,
    /// Pieces of the disk that the dirty data belongs to.
    pub dirty_pieces: u64,
    /// The cache was stopped; else it crashed, the power went out, or a rescue was interrupted.
    pub stopped: bool,
    /// How often the superblock was written.
    pub generation: u64,
    /// Superblocks that are sound, of 2.
    pub sound_superblocks: u8,
    /// Slots in which a copy could not be read.
    pub retired_slots: u32,
    /// Whether the index could be used.
    pub index: Index,
}

impl Cache {
    /// Loads what is on the SSD, as a start of the module does. Nothing is written.
    ///
    /// # Errors
    /// If there is no cache on it, or the module would refuse it.
    pub fn load(ssd: &dyn Medium) -> Result<Self, Error> {
        let core = Core::linked();
        let name = ssd.name();
        if ssd.sectors() <= SUPER_AREA {
            return Err(Error::ssd(name, Fault::TooSmall));
        }
        let mut copies: [SuperCopy; 2] = [[0; 2 * BLOCK_BYTES]; 2];
        let (mut unreadable, mut noted) = (0, [true; 2]);
        for ((copy, place), noted) in copies.iter_mut().zip(COPIES).zip(&mut noted) {
            for (block, bytes) in (0..).zip(copy.as_chunks_mut::<BLOCK_BYTES>().0) {
                // As in the module, a block that cannot be read counts as one that was never written.
                if ssd.read(place + block * QUARTER_SECTORS, bytes).is_err() {
                    bytes.fill(0);
                    unreadable += u32::from(block == 0);
                    *noted &= block == 0;
                }
            }
        }
        if unreadable == 2 {
            return Err(Error::ssd(name, Fault::Unreadable));
        }
        let superblock = core
            .choose_super(&copies, 1)
            .map_err(|error| match fault(error) {
                Fault::Newer if copies.iter().any(served_by_dm_cache) => Fault::NothingNewer,
                fault => fault,
            })
            .map_err(|fault| Error::ssd(name, fault))?;
        if ssd.sectors() < superblock.geometry.ssd_sectors {
            return Err(Error::ssd(name, Fault::Shrunk));
        }
        let notes = [0, 1].map(|copy: usize| noted[copy].then_some(&copies[copy]));
        let samples = core.choose_readable_samples(notes, &superblock.geometry);
        let mut engine = Engine::new(&core, superblock.geometry, Mode::WriteThrough);
        engine.set_retired(superblock.retired.slots());
        let sound = core.sound_supers(&copies);
        let index = load_index(&mut engine, &superblock, ssd)?;
        if index == Index::NotNeeded {
            engine = Engine::new(&core, superblock.geometry, Mode::WriteThrough);
        }
        core.resume_heat(&engine, &samples);
        Ok(Self {
            core,
            engine,
            superblock,
            sound,
            samples,
            index,
        })
    }

    /// Sectors of the disk.
    pub fn disk_sectors(&self) -> u64 {
        self.superblock.geometry.origin_sectors
    }

    /// Bytes that are not yet on the disk, in whole quarters.
    pub fn dirty_bytes(&self) -> u64 {
        self.engine.facts().dirty * BLOCK_BYTES as u64
    }

    /// Calls `each` with all dirty data in the order of the disk, from the sector `from` on, until it returns false.
    pub fn dirty(&self, from: u64, each: impl FnMut(Range) -> bool) {
        in_disk_order(&self.engine, from, |word| word.dirty, each);
    }

    /// Calls `each` with all copies of what is on the disk, in the order of the disk, until it returns false.
    pub fn clean(&self, each: impl FnMut(Range) -> bool) {
        in_disk_order(&self.engine, 0, |word| word.valid & !word.dirty, each);
    }

    /// The uuid of the cache.
    pub fn uuid(&self) -> String {
        hex(&self.superblock.geometry.uuid)
    }

    /// The identity of the disk.
    pub fn disk_id(&self) -> String {
        let geometry = &self.superblock.geometry;
        let id = geometry.origin_id.get(..geometry.origin_id_bytes as usize);
        hex(id.unwrap_or_default())
    }

    /// What is on the SSD, in figures.
    pub fn summary(&self) -> Summary {
        let slots = self.engine.layout().slots;
        let mut clean = 0;
        for slot in 0..slots {
            let word = self.engine.word(slot);
            clean += u64::from((word.valid & !word.dirty).count_ones());
        }
        let (mut pieces, mut end) = (0, u64::MAX);
        self.dirty(0, |range| {
            pieces += u64::from(range.sector != end);
            end = range.sector + range.count;
            true
        });
        Summary {
            uuid: self.uuid(),
            disk_id: self.disk_id(),
            disk_bytes: self.disk_sectors() * SECTOR_BYTES,
            capacity_bytes: u64::from(slots) * FRAME_SECTORS * SECTOR_BYTES,
            clean_bytes: clean * BLOCK_BYTES as u64,
            dirty_bytes: self.dirty_bytes(),
            dirty_pieces: pieces,
            stopped: self.samples.is_stopped(),
            generation: self.superblock.geometry.sequence,
            sound_superblocks: self.sound.iter().map(|&sound| u8::from(sound)).sum(),
            retired_slots: self.superblock.retired.slots().len() as u32,
            index: self.index,
        }
    }
}

/// Lower-case hex digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the index, and decides about one that cannot be used as the module does.
fn load_index(
    engine: &mut Engine,
    superblock: &Superblock,
    ssd: &dyn Medium,
) -> Result<Index, Error> {
    let name = ssd.name();
    let clean = superblock.flags.has(Flags::CLEAN);
    let cold = superblock.flags.has(Flags::COLD);
    // What a crashed kernel left in the SSD's volatile cache must be durable before it is believed.
    ssd.flush()
        .map_err(|e| Error::ssd(name, Fault::NotFlushed(e)))?;
    let loaded = if cold {
        Loaded::Damaged
    } else {
        read_index(engine, ssd)
    };
    match loaded {
        // The superblock says that nothing is dirty: then a dirty record is one that a drain was about to take back.
        Loaded::Good if clean && engine.facts().dirty > 0 => Ok(Index::NotNeeded),
        Loaded::Good => Ok(Index::Sound),
        Loaded::Damaged | Loaded::Impossible if clean => Ok(Index::NotNeeded),
        Loaded::Damaged => Err(Error::ssd(name, Fault::IndexDamaged)),
        Loaded::Impossible => Err(Error::ssd(name, Fault::IndexImpossible)),
    }
}

fn read_index(engine: &mut Engine, ssd: &dyn Medium) -> Loaded {
    let mut load = engine.load();
    let mut bytes = Vec::new();
    while let Some((first, count)) = load.wants() {
        bytes.resize((count * SECTOR_BYTES) as usize, 0);
        let read = count == 0 || ssd.read(first, &mut bytes).is_ok();
        load.feed(read.then_some(bytes.as_slice()).filter(|_| count > 0));
    }
    load.end()
}

/// Whether a copy of the superblock is of a cache that dm-cache of the kernel serves: flag 8 at byte 20
/// (kmod/FORMAT.md). The engine has read the copy, and refused this flag.
fn served_by_dm_cache(copy: &SuperCopy) -> bool {
    copy.starts_with(b"TANDEM01") && copy.get(20).is_some_and(|flags| flags & 8 != 0)
}

/// Why a superblock is not taken.
fn fault(error: SuperError) -> Fault {
    match error {
        SuperError::Blank | SuperError::Foreign => Fault::NoCache,
        SuperError::Overwritten => Fault::Overwritten,
        SuperError::Damaged | SuperError::Geometry => Fault::Damaged,
        SuperError::Version | SuperError::Feature => Fault::Newer,
        SuperError::SsdSize => Fault::Shrunk,
        SuperError::OtherCache
        | SuperError::OtherDisk
        | SuperError::DiskSize
        | SuperError::Unknown => Fault::Other,
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! What a start of the module makes of two disks after a cut: the superblocks, the index that they lead to, and the samples
//! of the disk.

use anyhow::{Result, ensure};
use tandem_record_log::{Device, Head, SECTOR};
use tandem_sim::engine::start::Verdict;
use tandem_sim::engine::start::{BLOCK_BYTES, COPIES, COPY_SECTORS, Flags, SuperCopy, SuperError};
use tandem_sim::engine::{Core, Engine, Geometry, Loaded, Mode};
use tandem_sim::stamp::Stamp;
use tandem_sim::world::Word;

use crate::contents::Contents;
use crate::history::History;

const FRAME: usize = 32;
const QUARTER: usize = 8;

/// The recovery that starts caches on disks of these sizes.
pub struct Recovery {
    core: Core,
    /// The sizes; a superblock says the rest.
    disks: Geometry,
}

/// A cache as a start finds it.
pub struct Recovered {
    /// The disk.
    pub disk: Vec<Stamp>,
    /// The SSD.
    pub ssd: Vec<Stamp>,
    /// The flags of the superblock, or why the start finds none.
    pub superblock: Result<Flags, SuperError>,
    /// Which copies of the superblock are sound.
    pub sound: [bool; 2],
    /// The judgement of the samples and the watched places.
    pub samples: Verdict,
    /// The samples say that the cache was stopped in order.
    pub stopped: bool,
    /// Slots in use.
    pub used: u64,
    /// Dirty sectors, in whole quarters.
    pub dirty: u64,
    /// The first sector of each valid quarter on the disk and on the SSD, and whether it is dirty.
    quarters: Vec<(usize, usize, bool)>,
}

/// The bytes of some sectors.
fn bytes_of(sectors: &[Stamp], contents: &Contents) -> Vec<u8> {
    let bytes = sectors.iter().map(|&stamp| contents.bytes(stamp));
    bytes.collect::<Vec<_>>().concat()
}

/// One copy of the superblock, with the samples behind it.
fn super_copy(ssd: &[Stamp], copy: u64, contents: &Contents) -> SuperCopy {
    let mut bytes = [0; 2 * BLOCK_BYTES];
    let sectors = &ssd[copy as usize..(copy + COPY_SECTORS) as usize];
    bytes.copy_from_slice(&bytes_of(sectors, contents));
    bytes
}

impl Recovery {
    /// For disks of these sizes, with blocks of 512 bytes.
    pub fn new(head: Head) -> Self {
        Self {
            core: Core::linked(),
            disks: Geometry {
                origin_sectors: head.disk_sectors,
                ssd_sectors: head.ssd_sectors,
                block_sectors: 1,
                ..Geometry::default()
            },
        }
    }

    /// Starts a cache: by what is on the SSD, and by nothing else.
    pub fn start(
        &self,
        disk: Vec<Stamp>,
        ssd: Vec<Stamp>,
        contents: &Contents,
    ) -> Result<Recovered> {
        let copies = COPIES.map(|copy| super_copy(&ssd, copy, contents));
        let superblock = self.core.read_super(&copies, &self.disks);
        let mut left = Recovered {
            superblock: superblock.map(|(_, flags)| flags),
            sound: self.core.sound_supers(&copies),
            samples: Verdict::Unknown,
            stopped: false,
            used: 0,
            dirty: 0,
            disk,
            ssd,
            quarters: Vec::new(),
        };
        let Ok((geometry, flags)) = superblock else {
            return Ok(left);
        };
        let samples = self.core.choose_samples(&copies, &geometry);
        let read = |sector: u64| {
            let mut bytes = [0; BLOCK_BYTES];
            let first = sector as usize;
            let sectors = &left.disk[first..first + BLOCK_BYTES / SECTOR];
            bytes.copy_from_slice(&bytes_of(sectors, contents));
            bytes
        };
        let verdict = self.core.compare(&samples, &|sector| Some(read(sector)));
        // A use of the disk without the cache changes the last sector of one watched place.
        for trace in samples.traces().iter().filter(|_| samples.is_sure()) {
            let elsewhere = self.core.compare(&samples, &|sector| {
                let mut bytes = read(sector);
                bytes[BLOCK_BYTES - 1] ^= u8::from(sector == trace.quarter * QUARTER as u64);
                Some(bytes)
            });
            ensure!(
                elsewhere == Verdict::Changed,
                "a use of the disk without the cache is found {elsewhere:?}"
            );
        }
        (left.samples, left.stopped) = (verdict, samples.is_stopped());
        if flags.has(Flags::COLD) {
            ensure!(
                flags.has(Flags::CLEAN),
                "the superblock says COLD, but not CLEAN: the start is refused"
            );
            return Ok(left);
        }
        self.load(geometry, &mut left, contents)?;
        Ok(left)
    }

    /// Loads the index.
    fn load(&self, geometry: Geometry, left: &mut Recovered, contents: &Contents) -> Result<()> {
        let mut engine = Engine::new(&self.core, geometry, Mode::WriteBack);
        let mut load = engine.load();
        while let Some((first, count)) = load.wants() {
            let sectors = left.ssd.get(first as usize..(first + count) as usize);
            let bytes = sectors.map(|sectors| bytes_of(sectors, contents));
            ensure!(
                bytes.is_some(),
                "the load reads beyond the SSD: {first}+{count}"
            );
            load.feed(bytes.as_deref());
        }
        let loaded = load.end();
        ensure!(loaded == Loaded::Good, "the index is found {loaded:?}");
        let start = engine.layout().data_start as usize;
        for (slot, &bits) in engine.words().iter().enumerate() {
            let word = Word::of(bits);
            for quarter in (0..4).filter(|quarter| word.valid >> quarter & 1 != 0) {
                let sector = word.tag as usize * FRAME + quarter * QUARTER;
                let on_ssd = start + slot * FRAME + quarter * QUARTER;
                ensure!(
                    sector + QUARTER <= left.disk.len(),
                    "slot {slot} holds sector {sector}, beyond the disk"
                );
                let dirty = word.dirty >> quarter & 1 != 0;
                left.quarters.push((sector, on_ssd, dirty));
            }
        }
        left.used = engine.used();
        left.dirty = engine.facts().dirty * QUARTER as u64;
        Ok(())
    }
}

impl Recovered {
    /// What the cached device shows in all its sectors.
    pub fn shown(&self) -> Vec<Stamp> {
        let mut shown = self.disk.clone();
        for &(sector, on_ssd, dirty) in &self.quarters {
            if dirty {
                shown[sector..sector + QUARTER]
                    .copy_from_slice(&self.ssd[on_ssd..on_ssd + QUARTER]);
            }
        }
        shown
    }

    /// Checks that each clean copy equals the disk, and that each sector shows a value that the history allows.
    pub fn check(&self, history: &History, contents: &Contents) -> Result<()> {
        for &(sector, on_ssd, dirty) in &self.quarters {
            for at in (0..QUARTER).filter(|_| !dirty) {
                let (disk, copy) = (self.disk[sector + at], self.ssd[on_ssd + at]);
                ensure!(
                    disk == copy,
                    "wrong content: sector {}: the disk holds {}, its clean copy at {} of the SSD {}",
                    sector + at,
                    contents.describe(disk),
                    on_ssd + at,
                    contents.describe(copy)
                );
            }
        }
        let shown = self.shown();
        let check = |sector: u32| {
            let stamp = shown[sector as usize];
            if history.allows(sector, stamp) {
                return Ok(());
            }
            let allowed = history.allowed(sector);
            let allowed: Vec<_> = allowed.iter().map(|&s| contents.describe(s)).collect();
            anyhow::bail!(
                "wrong content: sector {sector} shows {}, allowed are: {}",
                contents.describe(stamp),
                allowed.join(", ")
            )
        };
        history
            .touched()
            .iter()
            .try_for_each(|&sector| check(sector))?;
        // A dirty quarter may have sectors that no request wrote to.
        let dirty = self.quarters.iter().filter(|(_, _, dirty)| *dirty);
        dirty
            .flat_map(|&(sector, ..)| sector as u32..(sector + QUARTER) as u32)
            .try_for_each(check)
    }

    /// All sectors of both disks that differ from the first content.
    pub fn written(&self) -> impl Iterator<Item = (Device, u64, Stamp)> {
        let all = [(Device::Disk, &self.disk), (Device::Ssd, &self.ssd)];
        all.into_iter().flat_map(|(device, sectors)| {
            let numbered = (0..).zip(sectors.iter().copied());
            numbered
                .filter(move |&(sector, stamp)| stamp != crate::contents::fresh(device, sector))
                .map(move |(sector, stamp)| (device, sector, stamp))
        })
    }
}

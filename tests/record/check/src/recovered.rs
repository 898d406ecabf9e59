// SPDX-License-Identifier: GPL-3.0-or-later
//! What core makes of two disks after a cut.

use anyhow::{Result, ensure};
use tandem_record_log::{Device, Head};
use tandem_sim::engine::{Core, Engine, Geometry, Loaded, Mode};
use tandem_sim::stamp::Stamp;
use tandem_sim::world::Word;

use crate::contents::Contents;
use crate::history::History;

const FRAME: usize = 32;
const QUARTER: usize = 8;

/// Recovers caches of one shape.
pub struct Recovery {
    core: Core,
    geometry: Geometry,
}

/// A recovered cache.
pub struct Recovered {
    /// The disk.
    pub disk: Vec<Stamp>,
    /// The SSD.
    pub ssd: Vec<Stamp>,
    /// Slots in use.
    pub used: u64,
    /// Dirty sectors, in whole quarters.
    pub dirty: u64,
    /// The first sector of each valid quarter on the disk and on the SSD, and whether it is dirty.
    quarters: Vec<(usize, usize, bool)>,
}

impl Recovery {
    /// For disks of these sizes, with blocks of 512 bytes.
    pub fn new(head: Head) -> Result<Self> {
        let core = Core::linked();
        let mut geometry = Geometry {
            origin_sectors: head.disk_sectors,
            ssd_sectors: head.ssd_sectors,
            block_sectors: 1,
            ..Geometry::default()
        };
        ensure!(core.plan(&mut geometry), "core plans no cache of this size");
        Ok(Self { core, geometry })
    }

    /// Loads the index.
    pub fn load(
        &self,
        disk: Vec<Stamp>,
        ssd: Vec<Stamp>,
        contents: &Contents,
    ) -> Result<Recovered> {
        let mut engine = Engine::new(&self.core, self.geometry, Mode::WriteBack);
        let mut load = engine.load();
        while let Some((first, count)) = load.wants() {
            let sectors = ssd.get(first as usize..(first + count) as usize);
            let bytes = sectors.map(|sectors| {
                let bytes = sectors.iter().map(|&stamp| contents.bytes(stamp));
                bytes.collect::<Vec<_>>().concat()
            });
            ensure!(
                bytes.is_some(),
                "the load reads beyond the SSD: {first}+{count}"
            );
            load.feed(bytes.as_deref());
        }
        let loaded = load.end();
        ensure!(loaded == Loaded::Good, "the index is found {loaded:?}");
        let start = engine.layout().data_start as usize;
        let mut quarters = Vec::new();
        for (slot, &bits) in engine.words().iter().enumerate() {
            let word = Word::of(bits);
            for quarter in (0..4).filter(|quarter| word.valid >> quarter & 1 != 0) {
                let sector = word.tag as usize * FRAME + quarter * QUARTER;
                let on_ssd = start + slot * FRAME + quarter * QUARTER;
                ensure!(
                    sector + QUARTER <= disk.len(),
                    "slot {slot} holds sector {sector}, beyond the disk"
                );
                quarters.push((sector, on_ssd, word.dirty >> quarter & 1 != 0));
            }
        }
        Ok(Recovered {
            used: engine.used(),
            dirty: engine.facts().dirty * QUARTER as u64,
            disk,
            ssd,
            quarters,
        })
    }
}

impl Recovered {
    /// What the cached device shows.
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

    /// Whether every sector shows what it may, from the SSD as from the disk.
    pub fn check(&self, history: &History, contents: &Contents) -> Result<()> {
        for &(sector, on_ssd, dirty) in &self.quarters {
            for at in (0..QUARTER).filter(|_| !dirty) {
                let (disk, copy) = (self.disk[sector + at], self.ssd[on_ssd + at]);
                ensure!(
                    disk == copy,
                    "sector {}: the disk holds {}, its clean copy at {} of the SSD {}",
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
                "sector {sector} shows {}, allowed are: {}",
                contents.describe(stamp),
                allowed.join(", ")
            )
        };
        history
            .touched()
            .iter()
            .try_for_each(|&sector| check(sector))?;
        // A dirty quarter may reach beyond what was written to.
        let dirty = self.quarters.iter().filter(|(_, _, dirty)| *dirty);
        dirty
            .flat_map(|&(sector, ..)| sector as u32..(sector + QUARTER) as u32)
            .try_for_each(check)
    }

    /// What both disks hold, other than at first.
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

// SPDX-License-Identifier: GPL-3.0-or-later
//! A disk and an SSD with dirty data, made by the simulator of the kernel module.

use fastrand::Rng;
use tandem_core::start::{COPIES, Flags};
use tandem_core::{Core, Geometry, Mode};
use tandem_sim::trace::Trace;
use tandem_sim::workload::{Request, Verb};
use tandem_sim::world::{Machine, World};

/// Bytes of a sector.
pub const SECTOR: usize = 512;
const DISK_SECTORS: u64 = 16_384 + 13;
const SSD_SECTORS: u64 = 12_288;
/// The request of the start has the first number.
const FIRST_OP: u32 = 2;

/// The content of a sector.
pub type Sector = [u8; SECTOR];

/// What a cache left behind, and what its users were promised.
#[derive(Clone)]
pub struct Pair {
    /// The disk.
    pub disk: Vec<Sector>,
    /// The SSD.
    pub ssd: Vec<Sector>,
    /// What each sector of the cached device must show.
    pub shown: Vec<Sector>,
}

fn name_of(op: u32, sector: u64) -> Sector {
    let mut bytes = [0xa5; SECTOR];
    let stamp = tandem_sim::stamp::Stamp::new(op, sector, 0);
    bytes[..8].copy_from_slice(&stamp.0.to_le_bytes());
    bytes
}

impl Pair {
    /// A cache in write-back after some hundred requests. With `stopped` it was stopped, else the power went out right after the
    /// last flush.
    pub fn new(seed: u64, stopped: bool) -> Self {
        let core = Core::linked();
        let mut geometry = Geometry {
            origin_sectors: DISK_SECTORS,
            ssd_sectors: SSD_SECTORS,
            block_sectors: 1,
            ..Geometry::default()
        };
        assert!(core.plan(&mut geometry));
        let machine = Machine {
            geometry,
            disk_block: 1,
            mode: Mode::WriteBack,
            stream: u32::MAX,
            flaw: None,
        };
        let mut world = World::new(&core, &machine, Trace::default());
        world.rng = Rng::with_seed(seed);
        world.finish().unwrap();
        let mut rng = Rng::with_seed(seed);
        let mut shown: Vec<_> = (0..DISK_SECTORS).map(|sector| name_of(0, sector)).collect();
        let mut op = FIRST_OP;
        let mut submit = |world: &mut World, verb: Verb, first: u64, count: u64| {
            world.submit(Request {
                verb,
                first,
                count,
                restless: false,
            });
            world.finish().unwrap();
            let number = op;
            op += 1;
            number
        };
        for round in 0..220_u64 {
            // Places that are used often, at the disk's beginning and end too.
            let place = match rng.u64(..24) {
                0 => 0,
                1 => DISK_SECTORS - 96,
                place => place * 640,
            };
            let first = place + rng.u64(..64);
            let count = rng.u64(1..=80).min(DISK_SECTORS - first);
            match rng.u8(..10) {
                0..5 => {
                    let number = submit(&mut world, Verb::Write { fua: false }, first, count);
                    for sector in first..first + count {
                        shown[sector as usize] = name_of(number, sector);
                    }
                }
                5..9 => drop(submit(&mut world, Verb::Read, first, count)),
                _ => drop(submit(&mut world, Verb::Flush, 0, 0)),
            }
            if round % 70 == 69 {
                world.clean(true).unwrap();
                world.finish().unwrap();
            }
        }
        submit(&mut world, Verb::Flush, 0, 0);
        assert!(world.engine.facts().dirty > 100);
        let bytes = |stamps: &[tandem_sim::stamp::Stamp]| -> Vec<Sector> {
            stamps
                .iter()
                .map(|&stamp| world.sector_bytes(stamp))
                .collect()
        };
        let mut pair = Self {
            disk: bytes(world.disk.content()),
            ssd: bytes(world.ssd.content()),
            shown,
        };
        for (number, place) in (0..).zip(COPIES) {
            let block = core.encode_super(&geometry, Flags(0), number);
            pair.write(place, &block);
            let disk = pair.disk.clone();
            let samples = core.encode_samples(&geometry, stopped, number, &|sector| {
                Some(block_of(&disk, sector))
            });
            pair.write(place + 8, &samples);
        }
        pair
    }

    /// Overwrites a part of the SSD.
    pub fn write(&mut self, sector: u64, bytes: &[u8]) {
        for (at, bytes) in (sector as usize..).zip(bytes.as_chunks::<SECTOR>().0) {
            self.ssd[at] = *bytes;
        }
    }
}

/// The eight sectors from this one on.
pub fn block_of(sectors: &[Sector], sector: u64) -> [u8; 4096] {
    let first = sector as usize;
    let mut bytes = [0; 4096];
    bytes.copy_from_slice(sectors[first..first + 8].as_flattened());
    bytes
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! One disk with a volatile write cache: what is written is on the medium after a flush. The medium is kept in memory, so
//! that a copy of the disk costs little.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::{Chance, Cut};

/// Bytes that a disk writes as a whole or not at all.
pub const SECTOR: usize = 512;
/// Sectors that the write cache has room for: 32 MiB. A disk whose cache is full writes by itself.
const ROOM: usize = 64 << 10;

type Sector = Arc<[u8; SECTOR]>;

/// A disk. A clone has the same content, and from then on its own.
#[derive(Clone)]
pub struct Drive {
    /// The medium as it was at the beginning. Nothing is written here.
    file: Arc<File>,
    sectors: u64,
    /// The sectors of the medium that were written since.
    medium: BTreeMap<u64, Sector>,
    /// The newest content of the sectors that were written since the last flush.
    unflushed: BTreeMap<u64, Sector>,
}

impl Drive {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let sectors = file.metadata()?.len() / SECTOR as u64;
        Ok(Self {
            file: Arc::new(file),
            sectors,
            medium: BTreeMap::new(),
            unflushed: BTreeMap::new(),
        })
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.sectors * SECTOR as u64
    }

    /// The first sector and the number of sectors of a request.
    fn range(&self, offset: u64, length: usize) -> io::Result<(u64, u64)> {
        let (first, count) = (offset / SECTOR as u64, (length / SECTOR) as u64);
        let whole = offset.is_multiple_of(SECTOR as u64) && length.is_multiple_of(SECTOR);
        let ends = first.checked_add(count).is_some_and(|e| e <= self.sectors);
        match whole && ends {
            true => Ok((first, count)),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (first, count) = self.range(offset, bytes.len())?;
        self.file.read_exact_at(bytes, offset)?;
        let (sectors, _) = bytes.as_chunks_mut::<SECTOR>();
        let range = first..first + count;
        // The newest content comes last.
        let written = self.medium.range(range.clone());
        for (number, sector) in written.chain(self.unflushed.range(range)) {
            if let Some(place) = usize::try_from(number - first)
                .ok()
                .and_then(|n| sectors.get_mut(n))
            {
                place.copy_from_slice(&**sector);
            }
        }
        Ok(())
    }

    /// Writes into the write cache, or to the medium (`forced`).
    pub fn write(&mut self, offset: u64, bytes: &[u8], forced: bool) -> io::Result<()> {
        let (first, _) = self.range(offset, bytes.len())?;
        let (sectors, _) = bytes.as_chunks::<SECTOR>();
        for (number, sector) in (first..).zip(sectors) {
            if forced {
                self.unflushed.remove(&number);
                self.medium.insert(number, Arc::new(*sector));
            } else {
                self.unflushed.insert(number, Arc::new(*sector));
            }
        }
        if self.unflushed.len() > ROOM {
            self.flush();
        }
        Ok(())
    }

    /// Writes all sectors to the medium.
    pub fn flush(&mut self) {
        self.medium.extend(std::mem::take(&mut self.unflushed));
    }

    /// Writes a random part of the sectors to the medium, and forgets the others. How large the part is, is random too:
    /// none of them, all of them, or a share.
    pub fn cut(&mut self, chance: &mut Chance) -> Cut {
        let quarters = chance.next() % 5;
        let all = std::mem::take(&mut self.unflushed);
        let before = all.len() as u64;
        let mut kept = 0;
        for (number, sector) in all {
            if chance.next() % 4 < quarters {
                self.medium.insert(number, sector);
                kept += 1;
            }
        }
        Cut {
            kept,
            lost: before - kept,
        }
    }
}

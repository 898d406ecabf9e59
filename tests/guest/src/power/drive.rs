// SPDX-License-Identifier: GPL-3.0-or-later
//! One disk with a volatile write cache: what is written is on the medium after a flush.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Chance, Cut};

/// Bytes that a disk writes as a whole or not at all.
pub const SECTOR: usize = 512;
/// Sectors that the write cache has room for: 32 MiB. A disk whose cache is full writes by itself.
const ROOM: usize = 64 << 10;

type Sector = Box<[u8; SECTOR]>;

/// A disk.
pub struct Drive {
    /// The medium.
    file: File,
    sectors: u64,
    /// The newest content of the sectors that were written since the last flush.
    unflushed: BTreeMap<u64, Sector>,
}

impl Drive {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let sectors = file.metadata()?.len() / SECTOR as u64;
        Ok(Self {
            file,
            sectors,
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
        for (number, sector) in self.unflushed.range(first..first + count) {
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
        let (first, count) = self.range(offset, bytes.len())?;
        let (sectors, _) = bytes.as_chunks::<SECTOR>();
        if forced {
            self.file.write_all_at(bytes, offset)?;
            for number in first..first + count {
                self.unflushed.remove(&number);
            }
            return Ok(());
        }
        for (number, sector) in (first..).zip(sectors) {
            self.unflushed.insert(number, Box::new(*sector));
        }
        if self.unflushed.len() > ROOM {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes all sectors to the medium.
    pub fn flush(&mut self) -> io::Result<()> {
        let all = std::mem::take(&mut self.unflushed);
        self.put(all.into_iter())
    }

    /// Writes a random part of the sectors to the medium, and forgets the others. How large the part is, is random too:
    /// none of them, all of them, or a share.
    pub fn cut(&mut self, chance: &mut Chance) -> io::Result<Cut> {
        let quarters = chance.next() % 5;
        let all = std::mem::take(&mut self.unflushed);
        let number = all.len() as u64;
        let kept: Vec<_> = all
            .into_iter()
            .filter(|_| chance.next() % 4 < quarters)
            .collect();
        let cut = Cut {
            kept: kept.len() as u64,
            lost: number - kept.len() as u64,
        };
        self.put(kept.into_iter())?;
        Ok(cut)
    }

    /// Writes sectors, which come in order, in as few writes as possible.
    fn put(&self, sectors: impl Iterator<Item = (u64, Sector)>) -> io::Result<()> {
        let (mut start, mut run) = (0, Vec::new());
        for (number, sector) in sectors {
            if start + (run.len() / SECTOR) as u64 != number {
                self.file.write_all_at(&run, start * SECTOR as u64)?;
                run.clear();
                start = number;
            }
            run.extend_from_slice(&*sector);
        }
        self.file.write_all_at(&run, start * SECTOR as u64)
    }
}

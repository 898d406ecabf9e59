// SPDX-License-Identifier: GPL-3.0-or-later
//! Who writes: to files, with a mark in the log for all that a program may rely on after a cut; or past all file systems.
//!
//! Marks, as [`Promised`] reads them again:
//! `file NAME LENGTH SEED`: it is there, with just this content; `removing NAME`: from here on it may be gone;
//! `place THREAD BLOCK GENERATION`: the block of the thread's file that is written in place is at least that new.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use rustix::fs::OFlags;

use super::log::Log;
use crate::io::{self, SECTOR};

/// Threads that write at the same time.
const THREADS: u64 = 3;
/// Blocks of a file that is written in place.
const PLACES: u64 = 96;
const BLOCK: usize = 4096;
const LONGEST: usize = 160_000;

fn name(dir: &Path, name: &str) -> PathBuf {
    dir.join(name)
}

fn place(dir: &Path, thread: u64) -> PathBuf {
    dir.join(format!("place-{thread}"))
}

/// What a block that is written in place holds: each sector says which block of whom it is, and how new.
fn block(thread: u64, block: u64, generation: u64) -> Vec<u8> {
    let mut bytes = io::random(BLOCK, generation << 20 | block << 4 | thread);
    for sector in bytes.as_chunks_mut::<SECTOR>().0 {
        for (to, number) in sector
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .zip([thread, block, generation])
        {
            *to = number.to_le_bytes();
        }
    }
    bytes
}

/// Lets several threads write in `dir`; `life` makes their names differ from those of earlier ones.
pub fn files(dir: &Path, log: &Log, life: u64, operations: usize, seed: u64) -> Result<()> {
    together(|thread| {
        let mut writer = FileWriter {
            dir,
            log,
            thread: life * THREADS + thread,
            rng: Rng::with_seed(seed ^ (life * THREADS + thread) << 32),
            own: Vec::new(),
            next: 0,
        };
        writer.run(operations)
    })
}

fn together(work: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().ok().context("a writer panicked")?)
    })
}

struct FileWriter<'a> {
    dir: &'a Path,
    log: &'a Log,
    thread: u64,
    rng: Rng,
    own: Vec<String>,
    next: u64,
}

impl FileWriter<'_> {
    fn run(&mut self, operations: usize) -> Result<()> {
        let path = place(self.dir, self.thread);
        let zero: Vec<u8> = (0..PLACES).flat_map(|b| block(self.thread, b, 0)).collect();
        fs::write(&path, zero)?;
        File::open(&path)?.sync_all()?;
        self.sync_dir()?;
        for b in 0..PLACES {
            self.log.mark(&format!("place {} {b} 0", self.thread));
        }
        let how = [
            OFlags::empty(),
            OFlags::DIRECT,
            OFlags::DIRECT | OFlags::DSYNC,
        ];
        let places = how.map(|flags| {
            File::options()
                .write(true)
                .read(true)
                .custom_flags(flags.bits().cast_signed())
                .open(&path)
        });
        for generation in 1..=operations as u64 {
            match self.rng.u8(..10) {
                0..4 => self.new_file()?,
                4 => self.remove()?,
                5 => self.read()?,
                _ => {
                    let which = self.rng.usize(..places.len());
                    let file = places[which]
                        .as_ref()
                        .ok()
                        .context("cannot open the places")?;
                    self.in_place(file, generation)?;
                }
            }
        }
        Ok(())
    }

    fn sync_dir(&self) -> Result<()> {
        Ok(File::open(self.dir)?.sync_all()?)
    }

    fn new_file(&mut self) -> Result<()> {
        let file_name = format!("{}-{}", self.thread, self.next);
        self.next += 1;
        let path = name(self.dir, &file_name);
        let longest = *self.rng.choice(&[BLOCK, 30_000, LONGEST]).unwrap_or(&BLOCK);
        let (length, seed) = (self.rng.usize(1..longest), self.rng.u32(..));
        fs::write(&path, io::random(length, u64::from(seed)))?;
        if self.rng.bool() {
            File::open(&path)?.sync_all()?;
            self.sync_dir()?;
            self.log.mark(&format!("file {file_name} {length} {seed}"));
            self.own.push(file_name);
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        if self.own.len() > 4 {
            let file_name = self.own.swap_remove(self.rng.usize(..self.own.len()));
            self.log.mark(&format!("removing {file_name}"));
            fs::remove_file(name(self.dir, &file_name))?;
        }
        Ok(())
    }

    /// Reads past the page cache, so that the cache below gets to see it.
    fn read(&mut self) -> Result<()> {
        if let Some(file_name) = self.rng.choice(&self.own) {
            let file = io::direct(&name(self.dir, file_name))?;
            let mut buffer = io::Buffer::new(LONGEST.next_multiple_of(BLOCK))?;
            file.read_at(&mut buffer, 0)?;
        }
        Ok(())
    }

    fn in_place(&mut self, file: &File, generation: u64) -> Result<()> {
        let first = self.rng.u64(..PLACES);
        let last = (first + self.rng.u64(1..8)).min(PLACES);
        for b in first..last {
            io::write(file, b * BLOCK as u64, &block(self.thread, b, generation))?;
        }
        if self.rng.u8(..4) > 0 {
            file.sync_data()?;
            for b in first..last {
                self.log
                    .mark(&format!("place {} {b} {generation}", self.thread));
            }
        }
        Ok(())
    }
}

/// Lets several threads write to a device without regard for one another, with discards and FUA between.
pub fn raw(node: &Path, sectors: u64, operations: usize, seed: u64) -> Result<()> {
    together(|thread| {
        let mut rng = Rng::with_seed(seed ^ thread << 32);
        let (plain, fua) = (io::direct(node)?, io::durable(node)?);
        for _ in 0..operations {
            let longest = *rng.choice(&[8, 32, 256]).unwrap_or(&8);
            let count = rng.u64(1..=longest);
            // Most of it in a part that fits the SSD several times over, but not the SSD as a whole.
            let within = if rng.u8(..4) > 0 {
                sectors / 8
            } else {
                sectors
            };
            let mut offset = rng.u64(..within - count) * SECTOR as u64;
            let mut length = count as usize * SECTOR;
            if rng.bool() {
                offset -= offset % BLOCK as u64;
                length = length.next_multiple_of(BLOCK);
            }
            match rng.u8(..32) {
                0 => io::discard(&plain, offset, length as u64)?,
                1..4 => plain.sync_data()?,
                4..7 => io::write(&fua, offset, &io::random(length, rng.u64(..)))?,
                7..11 => drop(io::read(&plain, offset, length)?),
                _ => io::write(&plain, offset, &io::random(length, rng.u64(..)))?,
            }
        }
        Ok(())
    })
}

/// What the marks up to a cut say that must be there after it.
#[derive(Default)]
pub struct Promised {
    files: HashMap<String, (usize, u64)>,
    places: HashMap<(u64, u64), u64>,
}

impl Promised {
    /// One mark more.
    pub fn add(&mut self, mark: &str) -> Result<()> {
        let words: Vec<&str> = mark.split(' ').collect();
        match words[..] {
            ["file", name, length, seed] => {
                let content = (length.parse()?, seed.parse()?);
                self.files.insert(name.to_owned(), content);
            }
            ["removing", name] => {
                self.files.remove(name);
            }
            ["place", thread, block, generation] => {
                let at = (thread.parse()?, block.parse()?);
                self.places.insert(at, generation.parse()?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether all of it is there; returns how many files and blocks were looked at.
    pub fn kept(&self, dir: &Path) -> Result<usize> {
        for (file, &(length, seed)) in &self.files {
            let content =
                fs::read(name(dir, file)).with_context(|| format!("fsync'd file {file}"))?;
            ensure!(
                content == io::random(length, seed),
                "the fsync'd file {file} has another content"
            );
        }
        for (&(thread, b), &oldest) in &self.places {
            let mut found = vec![0; BLOCK];
            File::open(place(dir, thread))?.read_exact_at(&mut found, b * BLOCK as u64)?;
            for (number, sector) in found.as_chunks::<SECTOR>().0.iter().enumerate() {
                let generation = sector[16..24].try_into().map(u64::from_le_bytes)?;
                let right = block(thread, b, generation);
                let range = number * SECTOR..(number + 1) * SECTOR;
                ensure!(
                    right[range] == sector[..],
                    "block {b} of place-{thread}: sector {number} is of no generation"
                );
                ensure!(
                    generation >= oldest,
                    "block {b} of place-{thread}: generation {generation}, but {oldest} was fsync'd"
                );
            }
        }
        Ok(self.files.len() + self.places.len())
    }
}

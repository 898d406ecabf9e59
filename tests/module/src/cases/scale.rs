// SPDX-License-Identifier: GPL-3.0-or-later
//! A cache of 4 TiB, full: its disks are sparse files of the host, and its index is written by hand, as FORMAT.md says.
//!
//! The cases check bytes and places, which are exact, and print seconds, which are of the machine at hand.

use std::fs::File;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use super::memory::{available, named};
use crate::disk::{self, Stat};
use crate::dm::{Dm, Line};
use crate::io::{self, MIB};
use crate::rig::Status;

pub const CASES: &[Entry] = &[
    // promise 13, 34: uml-scale/scale: a full cache of 4 TiB starts warm, and each copy is found
    (
        "scale: a full cache of 4 TiB starts warm, and each copy is found",
        warm,
    ),
    (
        "scale: what a sync of one block costs does not grow with the cache",
        syncs,
    ),
    (
        "scale: a full cache is forgotten for its image, beside flushes",
        dropped,
    ),
    ("scale: a full cache starts cold for its image", cold),
];

const UUID: &str = "00112233445566778899aabbccddeeff";
/// Bytes of the frames that the cases look at.
const FRAME: usize = 16384;
const BLOCK: usize = 4096;
/// Records in a page of the index.
const PAGE_SLOTS: usize = 511;
/// A full index takes long to be read and written.
const PATIENCE: Duration = Duration::from_secs(900);

/// The two disks, and where the superblock says that things lie. Bytes.
struct Place {
    disk: String,
    ssd: String,
    /// Of the SSD.
    file: File,
    checkpoint: u64,
    data: u64,
    groups: u64,
}

/// The run of the disk in each lane of the SSD; `None`: the lane is empty.
struct Full(Vec<Option<u32>>);

fn number(block: &[u8], at: usize, bytes: usize) -> u64 {
    let bytes = block[at..at + bytes].iter().rev();
    bytes.fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The hash of FORMAT.md.
fn hash(number: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let some = number.wrapping_mul(FACTOR);
    (some ^ some >> 32).wrapping_mul(FACTOR)
}

impl Place {
    /// A new cache, made by the module and stopped.
    fn new() -> Result<Self> {
        let (disk, ssd) = (named("DISK")?, named("SSD")?);
        let file = io::direct(Path::new(&ssd))?;
        io::write_in_pieces(&file, 0, &vec![0; MIB])?;
        let mut place = Self {
            disk,
            ssd,
            file,
            checkpoint: 0,
            data: 0,
            groups: 0,
        };
        let device = place.started("writethrough 6 format new")?;
        place.quiet(&device)?;
        device.remove()?;
        let block = io::read(&place.file, 0, BLOCK)?;
        ensure!(block.starts_with(b"TANDEM01"), "no superblock");
        ensure!(
            number(&block, 72, 4) == 6 && number(&block, 76, 4) == 4,
            "other runs or ways than of a large cache"
        );
        ensure!(
            number(&block, 20, 4) & 4 != 0,
            "a new index without the flag of its parts"
        );
        place.checkpoint = number(&block, 168, 8) * 512;
        place.data = number(&block, 200, 8) * 512;
        place.groups = number(&block, 80, 4);
        Ok(place)
    }

    fn started(&self, mode_and_words: &str) -> Result<Dm> {
        let sectors = (io::size(Path::new(&self.disk))? / 512) as u64;
        let (mode, words) = mode_and_words.split_once(' ').context("no words")?;
        let (count, words) = words.split_once(' ').unwrap_or((words, ""));
        let args = format!(
            "{} {} {mode} {count} uuid {UUID} origin_id beef {words}",
            self.disk, self.ssd
        );
        let device = Dm::with("scale", Line::new(sectors, "tandem", args.trim_end()))?;
        // The first request waits for the index.
        io::read(&io::direct(device.path())?, 0, BLOCK)?;
        Ok(device)
    }

    fn stat(&self) -> Result<Stat> {
        disk::stat(Path::new(&self.ssd))
    }

    /// Fails if more than 1.2 times an index was written since `before`. Prints how much, and what `beside` says.
    fn wrote_an_index(&self, before: &Stat, beside: &str) -> Result<()> {
        let written = (self.stat()?.written - before.written) * 512;
        let image = self.image();
        println!(
            "     {} MiB written for {} MiB of index{beside}",
            written >> 20,
            image >> 20
        );
        ensure!(
            written * 10 <= image * 12,
            "more than 1.2 times the index was written"
        );
        Ok(())
    }

    /// Waits until nothing is written to the SSD.
    fn quiet(&self, device: &Dm) -> Result<Status> {
        let until = Instant::now() + PATIENCE;
        let (mut last, mut same) = (self.stat()?, 0);
        while same < 5 {
            sleep(Duration::from_millis(100));
            let now = self.stat()?;
            same = if now.written == last.written && now.read == last.read {
                same + 1
            } else {
                0
            };
            last = now;
            ensure!(
                Instant::now() < until,
                "the SSD is not quiet after {PATIENCE:?}"
            );
        }
        Status::of(device)
    }

    fn lanes(&self) -> u64 {
        self.groups * 16
    }

    /// Pages of an index, without its head.
    fn pages(&self) -> u64 {
        (self.lanes() * 64).div_ceil(PAGE_SLOTS as u64)
    }

    /// Bytes of an index.
    fn image(&self) -> u64 {
        (self.pages() + 1) * BLOCK as u64
    }

    /// Where a frame of the run of a lane lies on the SSD. Bytes.
    fn of_lane(&self, lane: u64, frame: u64) -> u64 {
        self.data + (lane * 64 + frame) * FRAME as u64
    }

    /// Writes an index in which each lane holds a run of the disk, in the place of the newest one.
    fn fill(&self) -> Result<Full> {
        let full = self.choose()?;
        let areas = [0, 1].map(|area| self.checkpoint + area * self.image());
        let heads = areas.map(|at| io::read(&self.file, at, BLOCK));
        let mut newest: Option<(Vec<u8>, u64)> = None;
        for (head, at) in heads.into_iter().zip(areas) {
            let head = head?;
            let sound = head.starts_with(b"TDECPT01")
                && self.sum(&[0; 16], &head[12..])? == number(&head, 8, 4) as u32;
            let known = newest
                .as_ref()
                .is_some_and(|(other, _)| number(other, 16, 8) > number(&head, 16, 8));
            if sound && !known {
                newest = Some((head.to_vec(), at));
            }
        }
        let (mut head, at) = newest.context("no sound head")?;
        let checkpoint = number(&head, 16, 8);
        let mut digest = 0_u64;
        let mut pages = Vec::with_capacity(MIB);
        for page in 0..self.pages() {
            digest = digest.wrapping_add(hash(page << 32 | checkpoint & 0xffff_ffff));
            pages.extend(self.page(&full, page, checkpoint)?);
            if pages.len() == MIB || page + 1 == self.pages() {
                let end = at + (page + 2) * BLOCK as u64;
                io::write(&self.file, end - pages.len() as u64, &pages)?;
                pages.clear();
            }
        }
        head[12..16].fill(0);
        head[40..48].copy_from_slice(&digest.to_le_bytes());
        let crc = self.sum(&[0; 16], &head[12..])?;
        head[8..12].copy_from_slice(&crc.to_le_bytes());
        io::write(&self.file, at, &head)?;
        self.file.sync_all()?;
        Ok(full)
    }

    /// Each group gets the first runs of the disk that belong there.
    fn choose(&self) -> Result<Full> {
        let runs = io::size(Path::new(&self.disk))? / MIB;
        let mut used = vec![0_u8; usize::try_from(self.groups)?];
        let mut full = vec![None; usize::try_from(self.lanes())?];
        for run in 0..u32::try_from(runs)? {
            let group = usize::try_from(((hash(u64::from(run)) >> 32) * self.lanes()) >> 32)? / 16;
            if used[group] < 16 {
                full[group * 16 + usize::from(used[group])] = Some(run);
                used[group] += 1;
            }
        }
        Ok(Full(full))
    }

    fn page(&self, full: &Full, page: u64, checkpoint: u64) -> Result<Vec<u8>> {
        let mut block = vec![0; BLOCK];
        block[4..8].copy_from_slice(&(checkpoint as u32).to_le_bytes());
        let slots = page * PAGE_SLOTS as u64..;
        for (slot, place) in slots.zip(block[8..].chunks_exact_mut(8)) {
            let run = full.0.get(usize::try_from(slot / 64)?).copied().flatten();
            if let Some(run) = run {
                let record = (u64::from(run) << 6) | (slot % 64) | (0xf << 36);
                place.copy_from_slice(&record.to_le_bytes());
            }
        }
        let mut numbers = checkpoint.to_le_bytes().to_vec();
        numbers.extend(page.to_le_bytes());
        let crc = self.sum(&numbers, &block[4..])?;
        block[..4].copy_from_slice(&crc.to_le_bytes());
        Ok(block)
    }

    /// The checksum of a block of this cache: of the identity, of two numbers, and of the rest.
    fn sum(&self, numbers: &[u8], rest: &[u8]) -> Result<u32> {
        let uuid = u128::from_str_radix(UUID, 16)?.to_be_bytes();
        let sum = crc32c::crc32c_append(crc32c::crc32c(&uuid), numbers);
        Ok(crc32c::crc32c_append(sum, rest))
    }
}

impl Full {
    /// Where the last frame of the run in a lane lies on the disk. Bytes.
    fn last_frame(&self, lane: usize) -> Result<u64> {
        let run = self.0[lane].context("no run")?;
        Ok(u64::from(run) * MIB as u64 + 63 * FRAME as u64)
    }

    fn lanes(&self) -> usize {
        self.0.iter().flatten().count()
    }
}

/// Seconds since then, for a line of figures.
fn since(start: Instant) -> f32 {
    start.elapsed().as_secs_f32()
}

fn warm() -> Result<()> {
    let place = Place::new()?;
    let full = place.fill()?;
    ensure!(
        full.lanes() as u64 * 1000 > place.lanes() * 999,
        "the disk is too small to fill the cache"
    );
    let memory = available()?;
    let (before, start) = (place.stat()?, Instant::now());
    // Copies that differ from the disk show where a read came from.
    let mut rng = Rng::with_seed(1);
    let last = full.0.iter().rposition(Option::is_some).context("no run")?;
    let mut looked = vec![0, last];
    looked.extend((0..200).map(|_| rng.usize(0..=last)));
    looked.retain(|lane| full.0[*lane].is_some());
    looked.sort_unstable();
    looked.dedup();
    for lane in &looked {
        io::write(
            &place.file,
            place.of_lane(*lane as u64, 63),
            &io::random(FRAME, *lane as u64),
        )?;
    }
    let device = place.started("writethrough 4")?;
    println!("     started in {:.1} s", since(start));
    let status = Status::of(&device)?;
    ensure!(
        status.used == full.lanes() as u64 * 64,
        "{} of {} slots are used",
        status.used,
        full.lanes() * 64
    );
    let read = (place.stat()?.read - before.read) * 512;
    println!(
        "     read {} MiB of the SSD, an index has {} MiB",
        read >> 20,
        place.image() >> 20
    );
    let used = memory.saturating_sub(available()?);
    let blocks = status.total * 4;
    println!(
        "     {} MiB of memory, {:.2} bytes for each 4 KiB",
        used >> 20,
        used as f64 / blocks as f64
    );
    ensure!(
        read <= place.image() + (160 << 20),
        "more than the index and the journal was read"
    );
    ensure!(
        used <= blocks * 21 / 10,
        "more than 2.1 bytes of memory for 4 KiB"
    );
    look(&place, &device, &full, &looked)?;
    let start = Instant::now();
    device.remove()?;
    println!("     stopped in {:.1} s", since(start));
    Ok(())
}

/// Reads the last frames of the runs in these lanes, writes them, and reads them again.
fn look(place: &Place, device: &Dm, full: &Full, looked: &[usize]) -> Result<()> {
    let file = io::direct(device.path())?;
    for lane in looked {
        let at = full.last_frame(*lane)?;
        let found = io::read(&file, at, FRAME)?;
        ensure!(
            found[..] == io::random(FRAME, *lane as u64)[..],
            "{at} is not read from lane {lane}"
        );
    }
    let hits = Status::of(device)?.get("read_hit")?;
    ensure!(
        hits >= (looked.len() * FRAME / 512) as u64,
        "{hits} sectors were hits"
    );
    for lane in looked {
        let at = full.last_frame(*lane)?;
        let data = io::random(FRAME, !(*lane as u64));
        io::write(&file, at, &data)?;
        let found = io::read(&file, at, FRAME)?;
        ensure!(found[..] == data[..], "{at} is not what was written");
        let disk = io::read(&io::direct(Path::new(&place.disk))?, at, FRAME)?;
        ensure!(disk[..] == data[..], "the disk has something else at {at}");
    }
    Ok(())
}

/// Waits until so many checkpoints more have been written.
fn synced_until(device: &Dm, checkpoints: u64, rng: &mut Rng, full: &Full) -> Result<u64> {
    let file = io::direct(device.path())?;
    let first = Status::of(device)?.get("checkpoints")?;
    let mut number = 0;
    while number % 256 != 0 || Status::of(device)?.get("checkpoints")? < first + checkpoints {
        number += 1;
        let lane = rng.usize(0..full.0.len());
        let run = full.0[lane].unwrap_or_default();
        let at = u64::from(run) * MIB as u64 + rng.u64(0..256) * BLOCK as u64;
        io::write(&file, at, &[number as u8; BLOCK])?;
        file.sync_data()?;
        ensure!(number < 200_000, "no checkpoint");
    }
    Ok(number)
}

fn syncs() -> Result<()> {
    let place = Place::new()?;
    let full = place.fill()?;
    let device = place.started("writeback 4")?;
    let mut rng = Rng::with_seed(2);
    // The first checkpoints after a start write all pages of the areas that it did not read.
    synced_until(&device, 2, &mut rng, &full)?;
    place.quiet(&device)?;
    let (before, start) = (place.stat()?, Instant::now());
    let count = synced_until(&device, 2, &mut rng, &full)?;
    let seconds = since(start);
    place.quiet(&device)?;
    let written = (place.stat()?.written - before.written) * 512;
    let each = written / count - BLOCK as u64;
    println!("     {count} syncs in {seconds:.1} s: {each} bytes of metadata each");
    ensure!(each <= 8192, "{each} bytes of metadata for a sync");
    device.remove()
}

fn dropped() -> Result<()> {
    let place = Place::new()?;
    let full = place.fill()?;
    let device = place.started("writethrough 4")?;
    place.quiet(&device)?;
    let (before, start) = (place.stat()?, Instant::now());
    device.message("drop")?;
    println!("     dropped in {:.1} s", since(start));
    let file = io::direct(device.path())?;
    let (mut flushes, mut longest) = (0, 0.0_f32);
    while (place.stat()?.written - before.written) * 512 < place.image() / 2 {
        let begun = Instant::now();
        let run = full.0[flushes].unwrap_or_default();
        io::write(&file, u64::from(run) * MIB as u64, &[7; BLOCK])?;
        file.sync_data()?;
        longest = longest.max(since(begun));
        flushes += 1;
        ensure!(start.elapsed() < PATIENCE, "no end");
    }
    let status = place.quiet(&device)?;
    let beside = format!("; {flushes} writes were synced meanwhile, the longest in {longest:.2} s");
    place.wrote_an_index(&before, &beside)?;
    ensure!(
        status.used <= flushes as u64,
        "{} slots are used",
        status.used
    );
    ensure!(flushes > 10, "only {flushes} writes were synced meanwhile");
    drop(file);
    device.remove()
}

fn cold() -> Result<()> {
    let place = Place::new()?;
    let full = place.fill()?;
    // A copy that the disk does not have must not be seen.
    io::write(&place.file, place.of_lane(0, 0), &io::random(FRAME, 3))?;
    let (before, start) = (place.stat()?, Instant::now());
    let device = place.started("writethrough 6 start cold")?;
    println!("     started in {:.1} s", since(start));
    let status = place.quiet(&device)?;
    ensure!(status.used <= 1, "{} slots are used", status.used);
    place.wrote_an_index(&before, "")?;
    let at = u64::from(full.0[0].context("no run")?) * MIB as u64;
    let [found, disk] = [device.path(), Path::new(&place.disk)]
        .map(|path| io::direct(path).and_then(|file| io::read(&file, at, FRAME)));
    ensure!(found?[..] == disk?[..], "not what the disk has");
    device.remove()
}

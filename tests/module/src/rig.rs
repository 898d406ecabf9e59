// SPDX-License-Identifier: GPL-3.0-or-later
//! A cache under test: two disks in memory, and a tandem device over them.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::disk::{Disk, Shape};
use crate::dm::{Dm, Line};
use crate::io;
pub use crate::status::Status;

/// What a cache under test is made of.
#[derive(Clone, Copy)]
pub struct Config {
    /// The disk.
    pub origin: Shape,
    /// The SSD.
    pub ssd: Shape,
    /// Word for the mode in the table.
    pub mode: &'static str,
    /// A device-mapper target to put between, by which a case makes a device slow or lets it fail.
    pub origin_under: Option<Under>,
    /// The same for the SSD.
    pub ssd_under: Option<Under>,
    /// Whether [`Rig::attach`] begins to [`Rig::keep`].
    pub keeps: bool,
}

/// A target between the cache and a disk.
#[derive(Clone, Copy)]
pub enum Under {
    /// The device passes everything on.
    Linear,
    /// The device holds reads and writes back for so many milliseconds.
    Delay(u32, u32),
}

impl Under {
    /// The table line over a disk.
    pub fn line(self, disk: &Disk) -> Line {
        let path = disk.path().display();
        match self {
            Self::Linear => Line::new(disk.sectors(), "linear", format!("{path} 0")),
            Self::Delay(read, write) => Line::new(
                disk.sectors(),
                "delay",
                format!("{path} 0 {read} {path} 0 {write}"),
            ),
        }
    }
}

impl Config {
    /// The same cache, where dirty data stays dirty until it is to be written back.
    pub fn keeping(mut self) -> Self {
        self.origin.failing = true;
        self.keeps = true;
        self
    }

    /// The same cache on disks of which a power cut can be made.
    pub fn cuttable(self) -> Self {
        Self {
            origin: self.origin.cuttable(),
            ssd: self.ssd.cuttable(),
            ..self
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            origin: Shape::new(40),
            ssd: Shape::new(16),
            mode: "writethrough",
            origin_under: None,
            ssd_under: None,
            keeps: false,
        }
    }
}

/// Makes the superblock of what begins with `content` look like ext4's.
pub fn format(content: &mut [u8]) {
    content[1024 + 56..][..2].copy_from_slice(&[0x53, 0xef]);
    // Features.
    content[1024 + 92..][..12].fill(0);
    // No other file system is there.
    content[510..512].fill(0);
}

/// A cache under test. The fields are dropped from top to bottom: the mapped device first, the disks last.
pub struct Rig {
    mapped: Option<Dm>,
    /// Target between the cache and the disk.
    pub below_origin: Option<Dm>,
    /// Target between the cache and the SSD.
    pub below_ssd: Option<Dm>,
    /// The disk.
    pub origin: Disk,
    /// The SSD.
    pub ssd: Disk,
    /// Identity of the cache, 32 hex digits.
    pub uuid: String,
    /// Identity of the disk, hex digits.
    pub origin_id: String,
    /// Name of the mapped device.
    pub name: String,
    config: Config,
    /// Whether the disk takes no data.
    kept: Cell<bool>,
    /// How many times [`Rig::cut`] was called; the seed of the next cut.
    cuts: Cell<u32>,
}

impl Rig {
    /// Two disks, nothing mapped yet.
    pub fn disks(config: Config) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let uuid = format!("{number:08x}00112233445566778899aabb");
        let name = format!("tandem-{number:08x}");
        let origin = Disk::new(config.origin)?;
        let ssd = Disk::new(config.ssd)?;
        let below = |under: Option<Under>, disk: &Disk, what: &str| {
            under
                .map(|under| Dm::with(&format!("{name}-{what}"), under.line(disk)))
                .transpose()
        };
        let below_origin = below(config.origin_under, &origin, "disk")?;
        let below_ssd = below(config.ssd_under, &ssd, "ssd")?;
        let origin_id = format!("{number:04x}deadbeef");
        Ok(Self {
            mapped: None,
            below_origin,
            below_ssd,
            origin,
            ssd,
            uuid,
            origin_id,
            name,
            config,
            kept: Cell::new(false),
            cuts: Cell::new(0),
        })
    }

    /// Two disks, the origin full of random bytes, and a new cache over them. Returns the bytes.
    pub fn new(config: Config) -> Result<(Self, Vec<u8>)> {
        let mut rig = Self::disks(config)?;
        let content = rig.origin.fill(u64::from(number(&rig.name)))?;
        rig.attach(true)?;
        Ok((rig, content))
    }

    /// The same with what the cache takes for a file system of the family of ext4: each use of it changes the disk's first
    /// quarter, which therefore is watched.
    pub fn formatted(config: Config) -> Result<(Self, Vec<u8>)> {
        Self::holding(config, format)
    }

    /// The same with a disk that `change` makes of random content.
    pub fn holding(config: Config, change: impl FnOnce(&mut [u8])) -> Result<(Self, Vec<u8>)> {
        let mut rig = Self::disks(config)?;
        let mut content = rig.origin.fill(u64::from(number(&rig.name)))?;
        change(&mut content);
        rig.origin.put(0, &content)?;
        rig.attach(true)?;
        Ok((rig, content))
    }

    /// The device that the cache has as its disk.
    pub fn origin_path(&self) -> &Path {
        self.below_origin
            .as_ref()
            .map_or(self.origin.path(), Dm::path)
    }

    /// The device that the cache has as its SSD.
    pub fn ssd_path(&self) -> &Path {
        self.below_ssd.as_ref().map_or(self.ssd.path(), Dm::path)
    }

    /// The target between the cache and the disk.
    pub fn origin_target(&self) -> Result<&Dm> {
        let below = self.below_origin.as_ref();
        below.context("no target below the disk")
    }

    /// The target between the cache and the SSD.
    pub fn ssd_target(&self) -> Result<&Dm> {
        let below = self.below_ssd.as_ref();
        below.context("no target below the SSD")
    }

    /// Puts a test disk in place of the target below the disk.
    pub fn test_origin(&self) -> Result<&Dm> {
        let below = self.origin_target()?;
        below.swap(self.origin.plain_test_line())?;
        Ok(below)
    }

    /// Puts a test disk in place of the target below the SSD.
    pub fn test_ssd(&self) -> Result<&Dm> {
        let below = self.ssd_target()?;
        below.swap(self.ssd.plain_test_line())?;
        Ok(below)
    }

    /// The words behind the mode.
    pub fn words(&self, format: bool) -> String {
        let Self {
            uuid, origin_id, ..
        } = self;
        match format {
            true => format!("6 uuid {uuid} origin_id {origin_id} format new"),
            false => format!("4 uuid {uuid} origin_id {origin_id}"),
        }
    }

    /// A table line with these words behind the devices.
    pub fn line(&self, mode_and_words: &str) -> Line {
        let args = format!(
            "{} {} {mode_and_words}",
            self.origin_path().display(),
            self.ssd_path().display()
        );
        Line::new(self.origin.sectors(), "tandem", args)
    }

    /// The right table line.
    pub fn good_line(&self, format: bool) -> Line {
        self.line(&format!("{} {}", self.config.mode, self.words(format)))
    }

    /// Maps the cache: a new one, or the one that is on the SSD.
    pub fn attach(&mut self, format: bool) -> Result<()> {
        ensure!(self.mapped.is_none(), "already mapped");
        if self.config.keeps {
            self.keep(true)?;
        }
        let mapped = Dm::with(&self.name, self.good_line(format));
        if mapped.is_err() {
            self.keep(false)?;
        }
        self.mapped = Some(mapped?);
        Ok(())
    }

    /// Removes the mapped device.
    pub fn detach(&mut self) -> Result<()> {
        self.mapped.take().context("nothing is mapped")?.remove()?;
        self.keep(false)
    }

    /// Keeps dirty data dirty, however long the machine stands still before a case looks: from now on the disk takes no
    /// data, and what cannot be written back stays dirty. Or lets it be written back. The disk is [`Shape::failing`] or
    /// cuttable.
    pub fn keep(&self, keep: bool) -> Result<()> {
        if self.kept.replace(keep) != keep {
            self.origin.refuse_data(keep)?;
        }
        Ok(())
    }

    /// From now on the disk answers no read for a minute; or answers, what it held back first. Something is under the disk.
    pub fn hold_reads(&self, hold: bool) -> Result<()> {
        let under = if hold {
            Under::Delay(60_000, 0)
        } else {
            Under::Linear
        };
        self.origin_target()?.swap(under.line(&self.origin))
    }

    /// The mapped device.
    pub fn mapped(&self) -> Result<&Dm> {
        self.mapped.as_ref().context("nothing is mapped")
    }

    /// Node of the mapped device.
    pub fn path(&self) -> Result<PathBuf> {
        Ok(self.mapped()?.path().to_owned())
    }

    /// The parsed status line.
    pub fn status(&self) -> Result<Status> {
        Status::of(self.mapped()?)
    }

    /// Waits until the status is as it is to be.
    pub fn until(&self, what: &str, holds: impl Fn(&Status) -> bool) -> Result<Status> {
        Status::until(self.mapped()?, what, holds)
    }

    /// Waits until neither fills nor anything else moves.
    pub fn quiet(&self) -> Result<Status> {
        let until = Instant::now() + Duration::from_secs(20);
        let sample = || {
            visit_each_processor()?;
            anyhow::Ok((
                self.mapped()?.status()?,
                self.ssd.stat()?,
                self.origin.stat()?,
            ))
        };
        let mut last = sample()?;
        let mut same = 0;
        while same < 3 {
            sleep(Duration::from_millis(20));
            let now = sample()?;
            same = if now == last { same + 1 } else { 0 };
            last = now;
            ensure!(
                same == 3 || Instant::now() < until,
                "not quiet after 20 s: {}",
                last.0
            );
        }
        let status = Status::parse(&last.0)?;
        status.adds_up()?;
        Ok(status)
    }

    /// The disks as a power cut would leave them now, mapped by nobody yet. Both disks are [`Shape::cuttable`], and the cut
    /// hits both at one instant. Nothing that was not flushed survives the first cut of a rig; a part of it, by a seed,
    /// survives each later one.
    pub fn cut(&self) -> Result<Self> {
        let seed = self.cuts.get();
        self.cuts.set(seed + 1);
        self.cut_by(seed)
    }

    /// The same; the seed says what survives that was not flushed, 0 nothing.
    pub fn cut_by(&self, seed: u32) -> Result<Self> {
        let rig = Self::disks(self.config)?;
        Disk::cut(seed, &[(&self.ssd, &rig.ssd), (&self.origin, &rig.origin)])?;
        Ok(Self {
            uuid: self.uuid.clone(),
            origin_id: self.origin_id.clone(),
            ..rig
        })
    }

    /// Maps the cache that is on the SSD in another mode from now on.
    pub fn attach_as(&mut self, mode: &'static str) -> Result<()> {
        self.config.mode = mode;
        self.attach(false)
    }

    /// Waits until nothing is dirty; in write-back that takes the message "flush start".
    pub fn wait_clean(&self) -> Result<Status> {
        self.keep(false)?;
        self.until("clean", |status| status.dirty == 0)
    }

    /// Writes back what is dirty.
    pub fn drain(&self) -> Result<()> {
        self.keep(false)?;
        // Another target may have taken the cache's place.
        if self.mapped()?.status()?.is_empty() || self.status()?.dirty == 0 {
            return Ok(());
        }
        self.mapped()?.message("flush start")?;
        self.wait_clean()?;
        self.mapped()?.message("flush stop")
    }

    /// Compares the mapped device with what should be on it.
    pub fn shows(&self, model: &[u8]) -> Result<()> {
        if let Some(difference) = io::compare(&self.path()?, model)? {
            bail!("mapped device: {difference}; {}", self.mapped()?.status()?);
        }
        Ok(())
    }

    /// Compares the mapped device, twice, and the disk with what should be on them. Writes back what is dirty.
    pub fn equals(&self, model: &[u8]) -> Result<()> {
        let mapped = self.path()?;
        if let Some(difference) = io::compare(&mapped, model)? {
            bail!("mapped device, before it was drained: {difference}");
        }
        self.drain()?;
        for (what, path) in [
            ("mapped device", mapped.as_path()),
            ("mapped device, read again", mapped.as_path()),
            ("plain disk", self.origin.path()),
        ] {
            if let Some(difference) = io::compare(path, model)? {
                bail!("{what}: {difference}; {}", self.mapped()?.status()?);
            }
        }
        Ok(())
    }

    /// The same with what the mapped device shows now as the measure.
    pub fn agrees(&self) -> Result<()> {
        self.equals(&io::whole(&self.path()?)?)
    }
}

fn number(name: &str) -> u32 {
    name.bytes().fold(0, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    })
}

/// Runs for a moment on each processor. A processor of an emulated machine can stand still; what the module has queued
/// there stands still too, and this waits until the processor goes on.
fn visit_each_processor() -> Result<()> {
    let all = sched_getaffinity(None)?;
    let processors = (0..CpuSet::MAX_CPU).filter(|number| all.is_set(*number));
    for number in processors {
        let mut one = CpuSet::new();
        one.set(number);
        sched_setaffinity(None, &one)?;
    }
    Ok(sched_setaffinity(None, &all)?)
}

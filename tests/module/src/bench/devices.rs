// SPDX-License-Identifier: GPL-3.0-or-later
//! The devices that are measured side by side, how to ask each how many reads its SSD served, and how to have each
//! write back what is dirty.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::BLOCK;
use crate::dm::{Dm, Line};
use crate::io::{self, Buffer};
use crate::rig::Status;

/// Bytes of the models: a disk much larger than its SSD, so that random blocks lie as far apart as on a real one.
const MODEL_DISK: usize = 16 << 30;
const MODEL_SSD: usize = 1 << 30;
/// Nothing takes this long to be written back.
const DRAIN_LIMIT: Duration = Duration::from_secs(3600);

/// What caches are made of.
pub struct Base {
    disk: PathBuf,
    ssd: PathBuf,
    metadata: PathBuf,
    models: Vec<Dm>,
}

impl Base {
    fn of_ram() -> Self {
        Self {
            disk: "/dev/ram0".into(),
            ssd: "/dev/ram1".into(),
            metadata: "/dev/ram2".into(),
            models: Vec::new(),
        }
    }

    /// Three RAM disks, all pages of which are there.
    pub fn ram() -> Result<Self> {
        let base = Self::of_ram();
        for path in [&base.disk, &base.ssd, &base.metadata] {
            make_pages(path, io::size(path)?)?;
        }
        Ok(base)
    }

    /// A model of a disk and one of an SSD, on two of the RAM disks. That of the disk has memory only for what is written.
    /// The RAM disk of the SSD has all of its pages: else a cache would be slower that writes a place for the first time.
    pub fn models() -> Result<Self> {
        let mut base = Self::of_ram();
        make_pages(&base.ssd, MODEL_SSD)?;
        for (path, kind, bytes) in [
            (&mut base.disk, "disk", MODEL_DISK),
            (&mut base.ssd, "ssd", MODEL_SSD),
        ] {
            let sectors = (bytes / io::SECTOR) as u64;
            let line = Line::new(sectors, "model", format!("{} {kind}", path.display()));
            let model = Dm::with(kind, line)?;
            ensure!(
                io::queue_text(model.path(), "write_cache")? == "write back",
                "no flush would reach the {kind}"
            );
            *path = model.path().to_owned();
            base.models.push(model);
        }
        Ok(base)
    }
}

/// Writes the first bytes of a RAM disk, so that their pages are there: how deep the kernel looks for a page depends on the
/// last that there is, and making one costs more than using it.
fn make_pages(ram: &Path, bytes: usize) -> Result<()> {
    let (file, zeroes) = (io::direct(ram)?, Buffer::new(io::MIB)?);
    for at in (0..bytes).step_by(io::MIB) {
        file.write_all_at(&zeroes, at as u64)?;
    }
    Ok(())
}

enum Hits {
    /// The device has no SSD, or nothing else.
    None,
    /// In requests, words of the status line that are added up.
    Words(Range<usize>),
    /// In sectors, a named counter of the status line.
    Counter(&'static str),
    /// In blocks, into which requests are cut: the number that follows this text in a status of prose.
    Prose(&'static str),
    /// In requests, a file.
    File(&'static str),
}

/// How a device is told to write back all that is dirty.
enum Drain {
    /// Nothing is dirty once it was flushed.
    Flush,
    /// A message, and the status line says when it is done.
    Tandem,
    /// A message that returns when it is done.
    Message,
    /// The same, after a suspend, which empties its memory.
    Writeboost,
    /// Another policy, with these arguments; the status line says when it is done.
    Policy(String),
    /// A file.
    Bcache,
}

/// A device to measure. What it is made of goes after it.
pub struct Device {
    path: PathBuf,
    hits: Hits,
    drain: Drain,
    flushes: bool,
    dm: Option<Dm>,
    _base: Base,
}

const BCACHE: &str = "/sys/block/bcache0/bcache";

impl Device {
    /// Makes the device of that name.
    pub fn new(name: &str, base: Base) -> Result<Self> {
        let disk = base.disk.display();
        let ssd = base.ssd.display();
        if let Some(variant) = name.strip_prefix("rapiddisk") {
            return Self::rapiddisk(name, variant, base);
        }
        let (plain, mode) = match name.strip_suffix("-wb") {
            Some(plain) => (plain, "writeback"),
            None => (name, "writethrough"),
        };
        let mapped = match plain {
            "disk" | "elevator" => return Ok(Self::bare(base.disk.clone(), Hits::None, base)),
            "ssd" => return Ok(Self::bare(base.ssd.clone(), Hits::None, base)),
            "bcache" => {
                let path = bcache(&base, mode)?;
                let hits = Hits::File("stats_total/cache_hits");
                let mut device = Self::bare(path, hits, base);
                device.drain = Drain::Bcache;
                return Ok(device);
            }
            "dm-linear" => ("linear", format!("{disk} 0"), Hits::None, Drain::Flush),
            "dm-writecache" => (
                "writecache",
                format!("s {disk} {ssd} 4096 0"),
                Hits::Words(5..6),
                Drain::Message,
            ),
            // Reads that hit: in memory or on the SSD, of whole blocks or less.
            "dm-writeboost" => (
                "writeboost",
                format!("{disk} {ssd} 2 read_cache_threshold 127"),
                Hits::Words(11..15),
                Drain::Writeboost,
            ),
            "dm-cache" => {
                let args = |policy| {
                    let metadata = base.metadata.display();
                    format!("{metadata} {ssd} {disk} 64 1 {mode} {policy} 0")
                };
                let cleaner = Drain::Policy(args("cleaner"));
                ("cache", args("smq"), Hits::Words(4..5), cleaner)
            }
            "tandem" => {
                let words = "6 uuid 00112233445566778899aabbccddeeff origin_id abcd format new";
                let args = format!("{disk} {ssd} {mode} {words}");
                ("tandem", args, Hits::Counter("read_hit"), Drain::Tandem)
            }
            _ => bail!("unknown device {name}"),
        };
        let (target, args, hits, drain) = mapped;
        let sectors = (io::size(&base.disk)? / io::SECTOR) as u64;
        let dm = Dm::with(name, Line::new(sectors, target, args))?;
        Ok(Self {
            path: dm.path().to_owned(),
            hits,
            drain,
            flushes: true,
            dm: Some(dm),
            _base: base,
        })
    }

    /// RapidDisk's cache: in a RAM disk of its own, which is as large as the SSD, or on the SSD. Its target takes only what is
    /// named as one of its RAM disks, so the SSD gets such a name.
    fn rapiddisk(name: &str, variant: &str, base: Base) -> Result<Self> {
        let sectors = |path: &Path| -> Result<u64> { Ok((io::size(path)? / io::SECTOR) as u64) };
        let size = sectors(&base.ssd)?;
        let (cache, mode) = match variant {
            "" | "-wa" => {
                let words = format!("rapiddisk attach 0 {}", size * io::SECTOR as u64);
                fs::write("/sys/kernel/rapiddisk/mgmt", words)
                    .context("RapidDisk makes no RAM disk")?;
                ("/dev/rd0", u8::from(variant == "-wa"))
            }
            "-ssd" => {
                let cache = "/dev/rd-ssd";
                symlink(&base.ssd, cache)?;
                (cache, 0)
            }
            _ => bail!("unknown device {name}"),
        };
        let args = format!("{} {cache} {size} {mode}", base.disk.display());
        let line = Line::new(sectors(&base.disk)?, "rapiddisk-cache", args);
        let dm = Dm::with(name, line)?;
        let mut device = Self::bare(dm.path().to_owned(), Hits::Prose("cache hits("), base);
        device.flushes = false;
        device.dm = Some(dm);
        Ok(device)
    }

    fn bare(path: PathBuf, hits: Hits, base: Base) -> Self {
        Self {
            path,
            hits,
            drain: Drain::Flush,
            flushes: true,
            dm: None,
            _base: base,
        }
    }

    /// Node of the device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a flush reaches its disk.
    pub fn flushes(&self) -> bool {
        self.flushes
    }

    /// The device-mapper device that it is.
    pub fn dm(&self) -> Result<&Dm> {
        self.dm.as_ref().context("no device-mapper device")
    }

    /// The status of a Tandem device.
    pub fn status(&self) -> Result<Status> {
        Status::parse(&self.dm()?.status()?)
    }

    fn status_word(&self, index: usize) -> Result<u64> {
        let status = self.dm()?.status()?;
        let word = status.split_whitespace().nth(index);
        Ok(word.with_context(|| format!("status {status}"))?.parse()?)
    }

    /// A number that grows with the reads that its SSD serves.
    pub fn hits(&self) -> Result<u64> {
        Ok(match &self.hits {
            Hits::None => 0,
            Hits::Words(words) => words
                .clone()
                .map(|index| self.status_word(index))
                .sum::<Result<_>>()?,
            Hits::Counter(name) => self.status()?.get(name)?,
            Hits::Prose(before) => {
                let status = self.dm()?.status()?;
                let after = status.split_once(before).map(|(_, after)| after);
                let number = after.and_then(|after| after.split(')').next());
                number
                    .with_context(|| format!("status {status}"))?
                    .parse()?
            }
            Hits::File(name) => {
                // bcache adds its counters up every 22 s.
                sleep(Duration::from_secs(50));
                bcache_says(name)?.parse()?
            }
        })
    }

    /// How many of a hundred of these reads came from the SSD since it had `hits`. Some devices count requests, and cut
    /// large ones.
    pub fn share(&self, hits: u64, reads: usize, length: usize) -> Result<u64> {
        let expected = match &self.hits {
            Hits::None => return Ok(100),
            Hits::Counter(_) => reads * (length / io::SECTOR),
            Hits::Prose(_) => reads * (length / BLOCK),
            Hits::Words(_) | Hits::File(_) => reads,
        };
        Ok(((self.hits()? - hits) * 100 / expected as u64).min(100))
    }

    /// Writes back all that is dirty, as fast as the device does that; it serves requests as before afterwards.
    pub fn drain(&self) -> Result<Duration> {
        let start = Instant::now();
        let wait = |done: &dyn Fn() -> Result<bool>| -> Result<Duration> {
            while !done()? {
                ensure!(start.elapsed() < DRAIN_LIMIT, "it does not end");
                // Short beside the seconds that are measured.
                sleep(Duration::from_millis(10));
            }
            Ok(start.elapsed())
        };
        match &self.drain {
            Drain::Flush => {
                io::direct(&self.path)?.sync_all()?;
                Ok(start.elapsed())
            }
            Drain::Message => {
                self.dm()?.message("flush")?;
                Ok(start.elapsed())
            }
            Drain::Writeboost => {
                self.dm()?.suspend()?;
                self.dm()?.resume()?;
                self.dm()?.message("drop_caches")?;
                Ok(start.elapsed())
            }
            Drain::Tandem => {
                self.dm()?.message("flush start")?;
                let time = wait(&|| Ok(self.status()?.dirty == 0))?;
                self.dm()?.message("flush stop")?;
                Ok(time)
            }
            Drain::Policy(args) => {
                let dm = self.dm()?;
                let sectors = (io::size(&self.path)? / io::SECTOR) as u64;
                dm.load(Line::new(sectors, "cache", args))?;
                dm.suspend()?;
                dm.resume()?;
                wait(&|| Ok(self.status_word(10)? == 0))
            }
            Drain::Bcache => {
                bcache_set("writeback_percent", "0")?;
                bcache_set("writeback_delay", "0")?;
                bcache_set("writeback_rate", "2000000000")?;
                wait(&|| Ok(bcache_says("state")? == "clean"))
            }
        }
    }
}

fn bcache_says(file: &str) -> Result<String> {
    let path = Path::new(BCACHE).join(file);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.trim().to_owned())
}

fn bcache_set(file: &str, value: &str) -> Result<()> {
    let path = Path::new(BCACHE).join(file);
    fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))
}

fn bcache(base: &Base, mode: &str) -> Result<PathBuf> {
    let output = Command::new("/make-bcache")
        .arg("-C")
        .arg(&base.ssd)
        .arg("-B")
        .arg(&base.disk)
        .args(["--block", "4k", "--bucket", "64k"])
        .output()
        .context("cannot start make-bcache")?;
    ensure!(
        output.status.success(),
        "make-bcache: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    for node in [&base.ssd, &base.disk] {
        fs::write(
            "/sys/fs/bcache/register",
            node.as_os_str().as_encoded_bytes(),
        )
        .with_context(|| format!("cannot register {}", node.display()))?;
    }
    let path = PathBuf::from("/dev/bcache0");
    let start = Instant::now();
    while !path.exists() {
        ensure!(start.elapsed() < Duration::from_secs(30), "no /dev/bcache0");
        sleep(Duration::from_millis(100));
    }
    bcache_set("sequential_cutoff", "0")?;
    bcache_set("cache/congested_read_threshold_us", "0")?;
    bcache_set("cache/congested_write_threshold_us", "0")?;
    bcache_set("cache_mode", mode)?;
    Ok(path)
}

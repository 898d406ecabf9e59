// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks in memory, and what the kernel counts on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail, ensure};

use crate::dm::{Dm, Line};
use crate::io;
use crate::loopback::Loop;

const CONFIGFS: &str = "/sys/kernel/config/nullb";

/// What a disk is like.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Size in MiB.
    pub mib: u64,
    /// Logical block size in bytes; with more than 512 the fields below do not count.
    pub block: u32,
    /// Whether it has a volatile write cache, so that flushes reach it and are counted.
    pub volatile: bool,
    /// Whether it takes discards.
    pub discard: bool,
    /// Time in nanoseconds that each request takes; 0 completes at once.
    pub delay_ns: u64,
    /// Whether it takes one request at a time.
    pub single: bool,
    /// Whether it is zoned.
    pub zoned: bool,
    /// Whether a power cut can be made of it: [`Disk::cut`].
    pub cuttable: bool,
    /// Whether a request can be made to fail: [`Disk::fail_request`].
    pub failing: bool,
    /// The DMA alignment that it asks for, as a mask; 0 for that of a null_blk.
    pub dma_alignment: u32,
}

impl Shape {
    /// A disk of this many MiB with blocks of 512 bytes and a volatile write cache.
    pub fn new(mib: u64) -> Self {
        Self {
            mib,
            block: 512,
            volatile: true,
            discard: true,
            delay_ns: 0,
            single: false,
            zoned: false,
            cuttable: false,
            failing: false,
            dma_alignment: 0,
        }
    }

    /// The same disk, of which a power cut can be made.
    pub fn cuttable(self) -> Self {
        Self {
            cuttable: true,
            ..self
        }
    }
}

/// A disk in memory, gone when it goes out of scope.
pub struct Disk {
    /// The target testdisk over the backing, with its label. Dropped before the backing.
    top: Option<(Dm, String)>,
    backing: Backing,
    sectors: u64,
}

enum Backing {
    Null(Null),
    Loop(Loop),
}

/// A null_blk.
struct Null {
    directory: PathBuf,
    node: PathBuf,
}

/// Requests that reached a device since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Sectors read.
    pub read: u64,
    /// Sectors written.
    pub written: u64,
    /// Requests to discard.
    pub discards: u64,
    /// Sectors discarded.
    pub discarded: u64,
    /// Flushes.
    pub flushes: u64,
}

impl std::ops::Sub for Stat {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            read: self.read - earlier.read,
            written: self.written - earlier.written,
            discards: self.discards - earlier.discards,
            discarded: self.discarded - earlier.discarded,
            flushes: self.flushes - earlier.flushes,
        }
    }
}

impl Disk {
    /// Makes a disk full of zeroes.
    pub fn new(shape: Shape) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("suite{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let backing = if shape.block > 512 {
            Backing::Loop(Loop::new(&name, shape.mib << 20, shape.block)?)
        } else {
            Backing::Null(Null::new(&name, shape)?)
        };
        let mut disk = Self {
            top: None,
            backing,
            sectors: shape.mib * 2048,
        };
        if shape.cuttable || shape.failing || shape.dma_alignment > 0 {
            let kind = if shape.cuttable { "volatile" } else { "plain" };
            let line = disk.test_line(&name, kind, shape.dma_alignment);
            disk.top = Some((Dm::with(&format!("{name}-test"), line)?, name));
        }
        Ok(disk)
    }

    /// The table line of a test disk (tests/module/disk) over this disk.
    fn test_line(&self, label: &str, kind: &str, dma_alignment: u32) -> Line {
        let path = self.path().display();
        let args = format!("{path} {label} {kind} {dma_alignment}");
        Line::new(self.sectors, "testdisk", args)
    }

    /// The table line of a test disk over this disk that keeps its content here.
    pub fn plain_test_line(&self) -> Line {
        self.test_line("plain", "plain", 0)
    }

    /// At one instant, gives each `to` the content that a power cut would leave on `from`. All of them are
    /// [`Shape::cuttable`]. The seed chooses which sectors survive that were not durable, 0 none.
    pub fn cut(seed: u32, pairs: &[(&Self, &Self)]) -> Result<()> {
        let top = |disk: &Self| {
            let top = disk.top.as_ref();
            top.map(|(_, label)| label.clone())
                .context("a disk that is not cuttable")
        };
        let mut words = format!("cut {seed}");
        for (from, to) in pairs {
            words += &format!(" {} {}", top(from)?, top(to)?);
        }
        let (first, _) = pairs.first().context("nothing to cut")?;
        first.test()?.message(&words)
    }

    /// Lets the `n`-th request from now on fail, counted from 1. The disk is [`Shape::failing`].
    pub fn fail_request(&self, n: u32) -> Result<()> {
        self.test()?.message(&format!("fail request {n}"))
    }

    /// From now on the device counts as another disk, as a drive does after its medium was changed. The content stays.
    /// The disk is [`Shape::failing`].
    pub fn exchange(&self) -> Result<()> {
        let (top, _) = self.top.as_ref().context("no test disk")?;
        top.message("medium changed")
    }

    /// Lets these requests fail from now on: `all`, `reads`, `writes`, `flushes`, `nothing`. The disk is [`Shape::failing`].
    pub fn fail_requests(&self, which: &str) -> Result<()> {
        let (top, _) = self.top.as_ref().context("no test disk")?;
        top.message(&format!("fail {which}"))
    }

    /// Ends what [`Self::fail_request`] began. Returns false if there were less than `n` requests.
    pub fn has_failed_request(&self) -> Result<bool> {
        let failed = self.test_counter("fail_in")? == 0;
        self.fail_request(0)?;
        Ok(failed)
    }

    /// Lets all writes of data fail from now on, or no request. The disk is [`Shape::failing`] or cuttable.
    pub fn refuse_data(&self, refuse: bool) -> Result<()> {
        self.test()?
            .message(if refuse { "fail data" } else { "fail nothing" })
    }

    /// The test disk on top.
    pub fn test(&self) -> Result<&Dm> {
        let (top, _) = self.top.as_ref().context("no test disk")?;
        Ok(top)
    }

    /// A counter of the test disk, by its name.
    pub fn test_counter(&self, name: &str) -> Result<u64> {
        counter(&self.test()?.status()?, name)
    }

    /// The node.
    pub fn path(&self) -> &Path {
        match &self.top {
            Some((top, _)) => top.path(),
            None => self.backing.path(),
        }
    }

    /// Size in sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// What reached the disk so far.
    pub fn stat(&self) -> Result<Stat> {
        stat(self.backing.path())
    }

    /// Reads, and writes with discards, that are in flight now.
    pub fn in_flight(&self) -> Result<(u64, u64)> {
        let name = self.path().file_name().context("a node without a name")?;
        let text = fs::read_to_string(Path::new("/sys/block").join(name).join("inflight"))?;
        let mut words = text.split_whitespace();
        let mut next = || anyhow::Ok(words.next().context("a short file")?.parse()?);
        Ok((next()?, next()?))
    }

    /// The whole content.
    pub fn content(&self) -> Result<Vec<u8>> {
        io::whole(self.path())
    }

    /// Fills the disk with reproducible random bytes and returns them.
    pub fn fill(&self, seed: u64) -> Result<Vec<u8>> {
        let content = io::random(usize::try_from(self.sectors)? * io::SECTOR, seed);
        self.put(0, &content)?;
        Ok(content)
    }

    /// Makes these sectors, the first and the last, fail whatever is asked of them, or lets them be as before.
    pub fn fail(&self, first: u64, last: u64, fail: bool) -> Result<()> {
        let Backing::Null(null) = &self.backing else {
            bail!("no sectors of a loop device can fail");
        };
        let sign = if fail { '+' } else { '-' };
        fs::write(
            null.directory.join("badblocks"),
            format!("{sign}{first}-{last}"),
        )
        .context("cannot set the bad blocks of a null_blk")
    }

    /// Writes at a byte offset, past every cache of the kernel.
    pub fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = io::direct(self.path())?;
        io::write_in_pieces(&file, offset, bytes)?;
        file.sync_all()?;
        Ok(())
    }
}

impl Backing {
    fn path(&self) -> &Path {
        match self {
            Self::Null(null) => &null.node,
            Self::Loop(device) => device.path(),
        }
    }
}

impl Null {
    fn new(name: &str, shape: Shape) -> Result<Self> {
        let directory = Path::new(CONFIGFS).join(name);
        fs::create_dir(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let mut null = Self {
            directory,
            node: PathBuf::new(),
        };
        null.set("size", shape.mib)?;
        null.set("blocksize", 512)?;
        null.set("memory_backed", 1)?;
        null.set("submit_queues", 1)?;
        null.set("discard", u64::from(shape.discard))?;
        if shape.volatile {
            null.set("cache_size", shape.mib)?;
        }
        if shape.single {
            null.set("hw_queue_depth", 1)?;
        }
        if shape.zoned {
            null.set("zoned", 1)?;
            null.set("zone_size", 4)?;
        }
        // 0 completes in the caller, 2 by a timer.
        null.set("irqmode", if shape.delay_ns > 0 { 2 } else { 0 })?;
        null.set("completion_nsec", shape.delay_ns)?;
        null.set("power", 1)?;
        let index = fs::read_to_string(null.directory.join("index"))
            .context("cannot read the index of a null_blk")?;
        // Newer kernels name the disk after its directory, older ones after its index.
        let named = Path::new("/dev").join(name);
        null.node = if named.exists() {
            named
        } else {
            format!("/dev/nullb{}", index.trim()).into()
        };
        ensure!(null.node.exists(), "{} has no node", null.node.display());
        Ok(null)
    }

    fn set(&self, attribute: &str, value: u64) -> Result<()> {
        fs::write(self.directory.join(attribute), format!("{value}\n"))
            .with_context(|| format!("cannot set {attribute} of a null_blk to {value}"))
    }
}

impl Drop for Null {
    fn drop(&mut self) {
        let _ = self.set("power", 0);
        if let Err(error) = fs::remove_dir(&self.directory) {
            println!("     cannot remove {}: {error}", self.directory.display());
        }
    }
}

/// A counter in the status line of a test disk.
pub fn counter(status: &str, name: &str) -> Result<u64> {
    let words: Vec<&str> = status.split_whitespace().collect();
    let value = words.chunks(2).find(|pair| pair[0] == name);
    let value = value.with_context(|| format!("no counter {name} in {status:?}"))?;
    Ok(value[1].parse()?)
}

/// What reached a block device so far, from its `stat` file in sysfs.
pub fn stat(node: &Path) -> Result<Stat> {
    let name = node.file_name().context("a node without a name")?;
    let text = fs::read_to_string(Path::new("/sys/block").join(name).join("stat"))?;
    let fields: Vec<u64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    ensure!(fields.len() >= 17, "short stat file: {text}");
    Ok(Stat {
        read: fields[2],
        written: fields[6],
        discards: fields[11],
        discarded: fields[13],
        flushes: fields[15],
    })
}

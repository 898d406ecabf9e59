// SPDX-License-Identifier: GPL-3.0-or-later
//! The devices that are measured side by side, and how to ask each how many reads its SSD served.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::dm::{Dm, Line};
use crate::io::{self, Buffer};

/// What caches are made of.
pub struct Base {
    disk: PathBuf,
    ssd: PathBuf,
    metadata: PathBuf,
    models: Vec<Dm>,
}

impl Base {
    /// Three RAM disks, all pages of which are there: how deep the kernel looks for one depends on the last that there
    /// is, and making one costs more than using it.
    pub fn ram() -> Result<Self> {
        let base = Self {
            disk: "/dev/ram0".into(),
            ssd: "/dev/ram1".into(),
            metadata: "/dev/ram2".into(),
            models: Vec::new(),
        };
        for path in [&base.disk, &base.ssd, &base.metadata] {
            let (file, zeroes) = (io::direct(path)?, Buffer::new(io::MIB)?);
            for at in (0..io::size(path)?).step_by(io::MIB) {
                file.write_all_at(&zeroes, at as u64)?;
            }
        }
        Ok(base)
    }

    /// A model of a disk and one of an SSD, on two of the RAM disks.
    pub fn models() -> Result<Self> {
        let mut base = Self::ram()?;
        for (path, kind) in [(&mut base.disk, "disk"), (&mut base.ssd, "ssd")] {
            let sectors = (io::size(path)? / io::SECTOR) as u64;
            let line = Line::new(sectors, "model", format!("{} {kind}", path.display()));
            let model = Dm::with(kind, line)?;
            *path = model.path().to_owned();
            base.models.push(model);
        }
        Ok(base)
    }
}

enum Hits {
    /// It has no SSD, or nothing else.
    None,
    /// In requests, a word of the status line.
    Word(usize),
    /// In sectors, a named counter of the status line.
    Counter(&'static str),
    /// In requests, a file.
    File(&'static str),
}

/// A device to measure. What it is made of goes after it.
pub struct Device {
    path: PathBuf,
    hits: Hits,
    dm: Option<Dm>,
    _base: Base,
}

impl Device {
    /// Makes the device of that name.
    pub fn new(name: &str, base: Base) -> Result<Self> {
        let disk = base.disk.display();
        let ssd = base.ssd.display();
        let mapped = match name {
            "disk" => return Ok(Self::bare(base.disk.clone(), Hits::None, base)),
            "ssd" => return Ok(Self::bare(base.ssd.clone(), Hits::None, base)),
            "bcache" => {
                let path = bcache(&base)?;
                let hits = Hits::File("/sys/block/bcache0/bcache/stats_total/cache_hits");
                return Ok(Self::bare(path, hits, base));
            }
            "dm-linear" => ("linear", format!("{disk} 0"), Hits::None),
            "dm-writecache" => (
                "writecache",
                format!("s {disk} {ssd} 4096 0"),
                Hits::Word(5),
            ),
            "dm-cache" => {
                let metadata = base.metadata.display();
                let args = format!("{metadata} {ssd} {disk} 64 1 writethrough smq 0");
                ("cache", args, Hits::Word(4))
            }
            "tandem" => {
                let words = "6 uuid 00112233445566778899aabbccddeeff origin_id abcd format new";
                let args = format!("{disk} {ssd} writethrough {words}");
                ("tandem", args, Hits::Counter("read_hit"))
            }
            _ => bail!("unknown device {name}"),
        };
        let (target, args, hits) = mapped;
        let sectors = (io::size(&base.disk)? / io::SECTOR) as u64;
        let dm = Dm::with(name, Line::new(sectors, target, args))?;
        Ok(Self {
            path: dm.path().to_owned(),
            hits,
            dm: Some(dm),
            _base: base,
        })
    }

    fn bare(path: PathBuf, hits: Hits, base: Base) -> Self {
        Self {
            path,
            hits,
            dm: None,
            _base: base,
        }
    }

    /// Its node.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A number that grows with the reads that its SSD serves.
    pub fn hits(&self) -> Result<u64> {
        let status = || {
            let dm = self.dm.as_ref().context("no device-mapper device")?;
            dm.status()
        };
        Ok(match self.hits {
            Hits::None => 0,
            Hits::Word(index) => {
                let status = status()?;
                let word = status.split_whitespace().nth(index);
                word.with_context(|| format!("status {status}"))?.parse()?
            }
            Hits::Counter(name) => crate::rig::Status::parse(&status()?)?.get(name)?,
            Hits::File(path) => {
                // bcache adds its counters up every 22 s.
                sleep(Duration::from_secs(50));
                fs::read_to_string(path)?.trim().parse()?
            }
        })
    }

    /// Whether this many reads came from the SSD since it had `hits`. Some devices count requests, and cut large ones.
    pub fn served(&self, hits: u64, reads: usize, length: usize) -> Result<bool> {
        let expected = match self.hits {
            Hits::None => 0,
            Hits::Counter(_) => reads * (length / io::SECTOR),
            Hits::Word(_) | Hits::File(_) => reads,
        };
        Ok(self.hits()? - hits >= expected as u64)
    }
}

fn bcache(base: &Base) -> Result<PathBuf> {
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
    for (file, value) in [
        ("sequential_cutoff", "0"),
        ("cache/congested_read_threshold_us", "0"),
        ("cache/congested_write_threshold_us", "0"),
    ] {
        let file = PathBuf::from("/sys/block/bcache0/bcache").join(file);
        fs::write(&file, value).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(path)
}

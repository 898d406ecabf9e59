// SPDX-License-Identifier: GPL-3.0-or-later
//! How long a start takes to load the index of a full cache, beside the reading of it alone.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tandem_sim::checks::Full;
use tandem_sim::engine::{Core, Engine, Geometry, Loaded, Mode};

/// The hard disk: eight times as large as the largest SSD that is asked for here.
const DISK_SECTORS: u64 = 8_000_000_000_000 / 512;
/// `TD_LOAD_BYTES`: the most that is asked for at once.
const PART: usize = 256 << 10;
/// What direct I/O wants.
const ALIGN: usize = 4096;
/// Parts that are read ahead, as the module does it.
const AHEAD: usize = 4;
/// `O_DIRECT`, so that it is the device which is read.
const O_DIRECT: i32 = if cfg!(any(target_arch = "arm", target_arch = "aarch64")) {
    0o200_000
} else {
    0o40_000
};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Core plans no cache on such an SSD.
    #[error("no cache can be planned on an SSD of that size")]
    Size,
    /// The file could not be written or read.
    #[error("the copy of the index, which direct I/O must reach: {0}")]
    File(#[from] io::Error),
    /// Core refused it.
    #[error("core takes the index for {0:?}")]
    Refused(Loaded),
}

/// The figures.
pub struct Speed {
    /// Places for frames.
    pub slots: u32,
    /// All that is read.
    pub bytes: u64,
    /// The parts, one after the other, and nothing else.
    pub read: Duration,
    /// What core does with them, and nothing else.
    pub core: Duration,
    /// Both, with some parts read ahead.
    pub both: Duration,
}

/// Bytes at an address that direct I/O takes.
struct Part {
    memory: Vec<u8>,
    from: usize,
    bytes: usize,
}

impl Part {
    fn new() -> Part {
        let memory = vec![0; PART + ALIGN];
        let from = memory.as_ptr().align_offset(ALIGN);
        Part {
            memory,
            from,
            bytes: 0,
        }
    }

    fn content(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.bytes]
    }
}

/// Loads the index of a full cache on an SSD of `gigabytes`; `dir` gets a copy of the index for as long as that takes.
pub fn measure(core: &Core, gigabytes: u64, dir: &Path) -> Result<Speed, Error> {
    let mut geometry = Geometry {
        origin_sectors: DISK_SECTORS,
        ssd_sectors: gigabytes * 1_000_000_000 / 512,
        block_sectors: 8,
        ..Geometry::default()
    };
    if !core.plan(&mut geometry) {
        return Err(Error::Size);
    }
    let path = dir.join("index-of-a-full-cache");
    let result = measured(core, geometry, &path);
    // If there is none, the result says why.
    let _ = std::fs::remove_file(&path);
    result
}

fn measured(core: &Core, geometry: Geometry, path: &Path) -> Result<Speed, Error> {
    let (lengths, alone) = copy(core, geometry, path)?;
    let mut parts = Ahead::new(path, lengths.clone())?;
    let start = Instant::now();
    for _ in &lengths {
        parts.next()?;
    }
    let read = start.elapsed();
    let mut engine = Engine::new(core, geometry, Mode::WriteBack);
    let mut parts = Ahead::new(path, lengths.clone())?;
    let start = Instant::now();
    let mut load = engine.load();
    while let Some((_, sectors)) = load.wants() {
        let bytes = (sectors > 0).then(|| parts.next()).transpose()?;
        load.feed(bytes);
    }
    let both = start.elapsed();
    good(load.end())?;
    Ok(Speed {
        slots: core.layout(&geometry).slots,
        bytes: lengths.iter().map(|bytes| *bytes as u64).sum(),
        read,
        core: alone,
        both,
    })
}

/// Loads it once and keeps what was asked for, in order; returns the lengths and what core took.
fn copy(core: &Core, geometry: Geometry, path: &Path) -> Result<(Vec<usize>, Duration), Error> {
    let full = Full::new(core, &geometry);
    let mut engine = Engine::new(core, geometry, Mode::WriteBack);
    let mut file = File::create(path)?;
    let (mut lengths, mut time) = (Vec::new(), Duration::ZERO);
    let mut part = Part::new();
    let mut load = engine.load();
    while let Some((sector, sectors)) = load.wants() {
        if sectors > 0 {
            part.bytes = sectors as usize * 512;
            full.read(sector, part.content());
            file.write_all(part.content())?;
            lengths.push(part.bytes);
        }
        let start = Instant::now();
        load.feed((sectors > 0).then(|| &*part.content()));
        time += start.elapsed();
    }
    good(load.end())?;
    file.sync_all()?;
    Ok((lengths, time))
}

fn good(loaded: Loaded) -> Result<(), Error> {
    match loaded {
        Loaded::Good => Ok(()),
        other => Err(Error::Refused(other)),
    }
}

/// Parts of a file that another thread reads ahead.
struct Ahead {
    full: Receiver<io::Result<Part>>,
    empty: Sender<Part>,
    used: Option<Part>,
}

impl Ahead {
    fn new(path: &Path, lengths: Vec<usize>) -> io::Result<Ahead> {
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(O_DIRECT)
            .open(path)?;
        let ((filled, full), (empty, emptied)) = (channel(), channel::<Part>());
        for _ in 0..=AHEAD {
            empty.send(Part::new()).map_err(io::Error::other)?;
        }
        thread::spawn(move || {
            for bytes in lengths {
                // The receiver has seen enough and is gone.
                let Ok(mut part) = emptied.recv() else { return };
                part.bytes = bytes;
                let result = file.read_exact(part.content()).map(|()| part);
                if filled.send(result).is_err() {
                    return;
                }
            }
        });
        Ok(Ahead {
            full,
            empty,
            used: None,
        })
    }

    /// The next part.
    fn next(&mut self) -> io::Result<&[u8]> {
        let part = self.full.recv().map_err(io::Error::other)??;
        if let Some(used) = self.used.replace(part) {
            // When all parts are read, the reading thread has ended and takes no buffer back.
            let _ = self.empty.send(used);
        }
        Ok(self.used.as_mut().map_or(&[], |part| part.content()))
    }
}

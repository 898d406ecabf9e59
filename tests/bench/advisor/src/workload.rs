// SPDX-License-Identifier: GPL-3.0-or-later
//! The requests that are played: recordings, and two made up here for a disk that is larger than those of the recordings.

use std::collections::HashSet;
use std::path::Path;

use fastrand::Rng;
use tandem_advisor::Shape;
use tandem_engine_bench::hitrate::{Recording, recording};

/// Sectors of a frame.
pub const FRAME: u64 = 32;
/// Sizes that are compared.
pub const SIZES: u32 = 5;

/// A request.
#[derive(Clone, Copy)]
pub struct Request {
    pub write: bool,
    pub sector: u64,
    pub count: u64,
}

/// Requests to one disk, and the caches that are compared.
pub struct Workload {
    pub name: String,
    pub disk_sectors: u64,
    pub requests: Vec<Request>,
    /// Microseconds of each since the first; nothing or -1 if they are not known.
    pub times: Vec<i64>,
    /// Frames that the requests touch; 0 if it was not counted.
    pub footprint: u64,
    pub shape: Shape,
    /// How many samples are tried.
    pub samples: u64,
}

impl Workload {
    /// A recording. The largest cache has half of what it touches.
    ///
    /// # Errors
    /// The file is no recording.
    pub fn recorded(path: &Path) -> Result<Self, recording::Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(".zst").trim_end_matches(".csv");
        let recording = Recording::open(path, 16 << 10)?;
        // The pages of 4 KiB of arc-oltp are numbered anew, so that neighbours mean nothing: each plays a frame.
        let scale = if name == "arc-oltp" { 4 } else { 1 };
        let requests = recording.requests().iter().map(|request| Request {
            write: request.write,
            sector: request.sector * scale,
            count: request.count * scale,
        });
        let requests: Vec<_> = requests.collect();
        let frames: HashSet<u64> = requests
            .iter()
            .flat_map(|request| {
                request.sector / FRAME..(request.sector + request.count).div_ceil(FRAME)
            })
            .collect();
        Ok(Self {
            name: name.to_owned(),
            disk_sectors: (recording.sectors() * scale).next_multiple_of(2048),
            requests,
            times: recording.times().to_vec(),
            footprint: frames.len() as u64,
            shape: small(frames.len() as u64 >> SIZES),
            samples: 8,
        })
    }

    /// Files of all sizes on a disk of 1 TB, read whole, the favourites again and again, up to four at the same time; and a
    /// database beside them, with single reads and writes.
    pub fn files() -> Self {
        const GIB: u64 = 1 << 21;
        let disk_sectors = 931 * GIB;
        let mut rng = Rng::with_seed(1);
        let mut at = 8 * GIB;
        let mut files = Vec::new();
        while files.len() < 6000 {
            // 32 KiB to 256 MiB, each power of two equally often.
            let size = ((64.0 * 2f64.powf(13.0 * rng.f64())) as u64).next_multiple_of(8);
            files.push((at, size));
            at += size + rng.u64(..size * 4);
        }
        rng.shuffle(&mut files);
        let mut requests = Vec::new();
        let mut open: Vec<(u64, u64, u64, bool)> = Vec::new();
        let mut read = 0;
        while read < 60 * GIB {
            if open.len() < 4 && rng.u8(..8) == 0 {
                let (start, size) = files[skewed(&mut rng, files.len() as u64) as usize];
                let step = 64 << rng.u64(..5);
                open.push((start, start + size, step, rng.u8(..10) == 0));
            }
            if rng.u8(..3) == 0 {
                let page = skewed(&mut rng, GIB / 8 * 2) * 0x9e37_79b1 % (GIB / 8 * 4);
                requests.push(Request {
                    write: rng.u8(..4) == 0,
                    sector: page * 8,
                    count: 8,
                });
            }
            if open.is_empty() {
                continue;
            }
            let at = rng.usize(..open.len());
            let (sector, end, step, write) = open[at];
            let count = step.min(end - sector);
            requests.push(Request {
                write,
                sector,
                count,
            });
            read += if write { 0 } else { count };
            open[at].0 += count;
            if open[at].0 == end {
                open.swap_remove(at);
            }
        }
        Self {
            name: "files (made up)".to_owned(),
            disk_sectors,
            requests,
            times: Vec::new(),
            footprint: 0,
            shape: Shape::REAL,
            samples: 1,
        }
    }

    /// Single reads and writes on 16 GiB of a disk of 4 TB: the more favoured a place, the more often; and a slow scan.
    pub fn places() -> Self {
        let disk_sectors = 4_000_000_000_000 / 512;
        let mut rng = Rng::with_seed(2);
        let mut scan = 0;
        let requests = (0..3_000_000).map(|_| match rng.u8(..16) {
            0 => {
                scan += 256;
                Request {
                    write: false,
                    sector: 1 << 32 | scan,
                    count: 256,
                }
            }
            kind => Request {
                write: kind < 4,
                // Neighbours in rank are no neighbours on the disk.
                sector: skewed(&mut rng, 1 << 20) * 0x9e37_79b1 % (1 << 24) * FRAME,
                count: FRAME,
            },
        });
        Self {
            name: "places (made up)".to_owned(),
            requests: requests.collect(),
            times: Vec::new(),
            footprint: 0,
            disk_sectors,
            shape: Shape::REAL,
            samples: 1,
        }
    }

    /// Slots of a cache.
    pub fn slots(&self, size: u32) -> u64 {
        u64::from(self.shape.groups << size) << (self.shape.run_shift + self.shape.way_shift)
    }
}

/// The smallest cache has about so many slots. Shorter runs and fewer ways as in core's own plan for such a size, and the sample
/// is as large as this cache.
fn small(slots: u64) -> Shape {
    let (mut run_shift, mut way_shift) = (6, 4);
    while slots >> (run_shift + way_shift) < 16 && run_shift + way_shift > 4 {
        if run_shift > 2 {
            run_shift -= 1;
        } else {
            way_shift -= 1;
        }
    }
    let groups = (slots >> (run_shift + way_shift)).max(1) as u32;
    Shape {
        groups,
        run_shift,
        way_shift,
        ..Shape::REAL
    }
}

/// A number below `below`, small ones more often: about one over its rank.
fn skewed(rng: &mut Rng, below: u64) -> u64 {
    ((below as f64).powf(rng.f64()) as u64).min(below - 1)
}

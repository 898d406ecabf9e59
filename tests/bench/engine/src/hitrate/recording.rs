// SPDX-License-Identifier: GPL-3.0-or-later
//! Recorded requests: comma-separated `t_us,op,dev,offset,size` with a header, plain or compressed with zstd. `op` is R, W
//! or U (unknown, taken as a read); `offset` and `size` are bytes on disk `dev`.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Bytes on which every disk of a recording begins, when they are put one behind the other: a run of core's.
const DISK_ALIGNMENT: u64 = 1 << 20;

/// A recording cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A line is not as it should be.
    #[error("line {0} is not t_us,op,dev,offset,size")]
    Line(usize),
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The request is a write.
    pub write: bool,
    /// First block.
    pub first: u64,
    /// Last block.
    pub last: u64,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Sectors.
    pub count: u64,
}

/// All requests, and what blocks they touch.
pub struct Recording {
    requests: Vec<Request>,
    times: Vec<i64>,
    blocks: Vec<u32>,
    footprint: usize,
    sectors: u64,
}

impl Recording {
    /// Reads a file; a block has `block_bytes` bytes.
    ///
    /// # Errors
    /// It is missing or no recording.
    pub fn open(path: &Path, block_bytes: u64) -> Result<Recording, Error> {
        let failed = |source| Error::File {
            path: path.to_owned(),
            source,
        };
        let file = BufReader::new(std::fs::File::open(path).map_err(failed)?);
        let mut text = String::new();
        if path.extension().is_some_and(|extension| extension == "zst") {
            ruzstd::decoding::StreamingDecoder::new(file)
                .map_err(|error| failed(std::io::Error::other(error)))?
                .read_to_string(&mut text)
                .map_err(failed)?;
        } else {
            for line in file.lines() {
                text.push_str(&line.map_err(failed)?);
                text.push('\n');
            }
        }
        Ok(Recording::timed(parse(&text)?, block_bytes))
    }

    /// From requests `(write, offset, size)`, in bytes. One of no bytes is left out.
    pub fn new(
        requests: impl IntoIterator<Item = (bool, u64, u64)>,
        block_bytes: u64,
    ) -> Recording {
        let without = requests.into_iter();
        Recording::timed(
            without.map(|(write, offset, size)| (-1, write, offset, size)),
            block_bytes,
        )
    }

    /// As [`Recording::new`], of requests that begin with their times.
    fn timed(
        requests: impl IntoIterator<Item = (i64, bool, u64, u64)>,
        block_bytes: u64,
    ) -> Recording {
        let mut numbers = HashMap::new();
        let mut all = Recording {
            requests: Vec::new(),
            times: Vec::new(),
            blocks: Vec::new(),
            footprint: 0,
            sectors: 0,
        };
        for (time, write, offset, size) in requests {
            if size == 0 {
                continue;
            }
            let end = (offset + size).div_ceil(512);
            let request = Request {
                write,
                first: offset / block_bytes,
                last: (offset + size - 1) / block_bytes,
                sector: offset / 512,
                count: end - offset / 512,
            };
            for block in request.first..=request.last {
                let next = numbers.len() as u32;
                all.blocks.push(*numbers.entry(block).or_insert(next));
            }
            all.sectors = all.sectors.max(end);
            all.requests.push(request);
            all.times.push(time);
        }
        all.footprint = numbers.len();
        all
    }

    /// The requests, in order.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Microseconds of each request since the first; -1 if they are not known.
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// The block of each access, as numbers below [`Recording::footprint`] in order of first access.
    pub fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    /// How many different blocks there are.
    pub fn footprint(&self) -> usize {
        self.footprint
    }

    /// Sectors of the disk, at least.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The last block.
    pub fn last_block(&self) -> u64 {
        self.requests
            .iter()
            .map(|request| request.last)
            .max()
            .unwrap_or(0)
    }
}

fn parse(text: &str) -> Result<Vec<(i64, bool, u64, u64)>, Error> {
    let mut requests = Vec::new();
    let mut ends = BTreeMap::<u64, u64>::new();
    for (at, line) in text.lines().enumerate().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let number = |field: usize| fields.get(field).and_then(|text| text.parse::<u64>().ok());
        let (Some(disk), Some(offset), Some(size), 5) =
            (number(2), number(3), number(4), fields.len())
        else {
            return Err(Error::Line(at + 1));
        };
        let end = ends.entry(disk).or_default();
        *end = (*end).max(offset + size);
        let time = fields[0].parse().unwrap_or(-1);
        requests.push((time, fields[1] == "W", disk, offset, size));
    }
    let mut start = 0;
    for end in ends.values_mut() {
        let first = start;
        start += end.next_multiple_of(DISK_ALIGNMENT);
        *end = first;
    }
    Ok(requests
        .into_iter()
        .map(|(time, write, disk, offset, size)| (time, write, ends[&disk] + offset, size))
        .collect())
}

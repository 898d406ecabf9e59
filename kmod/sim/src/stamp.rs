// SPDX-License-Identifier: GPL-3.0-or-later
//! What one simulated sector holds instead of 512 bytes.
//!
//! A stamp names the request that wrote it, the sector that it was meant for and which of the values that the application
//! put into its buffer while the request ran. Every write therefore has values of its own, which is what makes the check
//! for linearizability exact, and data that turns up at a wrong place is recognised at sight. Sectors of the SSD's metadata
//! hold real bytes; their stamp is where to find them.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Number of a request; 0 is the content that the disk had before the cache came.
pub type OpId = u32;

/// The content of one sector of 512 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stamp(pub u64);

/// Instead of a sector of the disk: bytes.
const BYTES: u64 = 0xff_fffe;

impl Stamp {
    /// The content of memory that was never written: fresh pages, a new SSD, a buffer before its read.
    pub const JUNK: Stamp = Stamp(u64::MAX);

    /// The `version`-th value that request `op` offered for `sector` (in 512 bytes; at most 24 bits).
    pub fn new(op: OpId, sector: u64, version: u8) -> Stamp {
        Stamp((sector & 0xff_ffff) << 40 | u64::from(op) << 8 | u64::from(version))
    }

    /// The request that wrote this.
    pub fn op(self) -> OpId {
        (self.0 >> 8) as u32
    }

    /// The sector that this was meant for.
    pub fn sector(self) -> u64 {
        self.0 >> 40
    }

    /// Which of the request's values this is.
    pub fn version(self) -> u8 {
        self.0 as u8
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Stamp::JUNK {
            return f.write_str("junk");
        }
        if self.sector() == BYTES {
            return f.write_str("metadata");
        }
        write!(f, "#{}.{}@{}", self.op(), self.version(), self.sector())
    }
}

/// The bytes of all sectors of metadata, also of those in a volatile cache.
#[derive(Default)]
pub struct Bytes {
    blocks: Vec<[u8; 512]>,
    digests: Vec<u64>,
}

impl Bytes {
    /// Keeps the bytes of one sector.
    pub fn keep(&mut self, bytes: &[u8; 512]) -> Stamp {
        let mut hash = DefaultHasher::new();
        bytes.hash(&mut hash);
        self.digests.push(hash.finish());
        self.blocks.push(*bytes);
        Stamp(BYTES << 40 | (self.blocks.len() - 1) as u64)
    }

    /// What a read of the sector returns: junk for what is no metadata.
    pub fn get(&self, stamp: Stamp) -> [u8; 512] {
        if stamp.sector() == BYTES {
            self.blocks[(stamp.0 & 0xff_ffff_ffff) as usize]
        } else {
            let mut bytes = [0xa5; 512];
            bytes[..8].copy_from_slice(&stamp.0.to_le_bytes());
            bytes
        }
    }

    /// A number for what a sector holds.
    pub fn digest(&self, stamp: Stamp) -> u64 {
        if stamp.sector() == BYTES {
            self.digests[(stamp.0 & 0xff_ffff_ffff) as usize]
        } else {
            stamp.0
        }
    }

    /// How many sectors are kept.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Keeps a stamp's bytes in `self`, if it has any in `old`.
    pub fn inherit(&mut self, old: &Bytes, stamp: Stamp) -> Stamp {
        if stamp.sector() == BYTES {
            self.keep(&old.get(stamp))
        } else {
            stamp
        }
    }
}

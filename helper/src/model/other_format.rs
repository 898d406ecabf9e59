// SPDX-License-Identifier: GPL-3.0-or-later
//! Formats of caches of other systems that blkid does not know.

/// A format of a cache on an SSD, by the mark in its superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Format {
    /// The name of the system.
    pub word: &'static str,
    /// Where the mark is, in bytes.
    pub at: u64,
    /// The values of the mark, which has 32 bits with the lowest byte first.
    pub values: &'static [u32],
}

/// All of them.
pub const FORMATS: [Format; 5] = [
    Format {
        word: "dm-writecache",
        at: 0,
        values: &[0x2348_9321],
    },
    // The metadata device. The mark is behind checksum, flags, block number and UUID; its upper half is zero.
    Format {
        word: "dm-cache",
        at: 32,
        values: &[0o6_142_003],
    },
    Format {
        word: "dm-writeboost",
        at: 0,
        values: &[0x5742_7374],
    },
    // State of the set: dirty, clean, clean and quick to load, unstable.
    Format {
        word: "Flashcache",
        at: 16,
        values: &[0xdead_beef, 0xface_cafe, 0xcafe_feed, 0xc824_9756],
    },
    // The superblock begins at 64 KiB.
    Format {
        word: "EnhanceIO",
        at: 65_536 + 440,
        values: &[0xe10c_ac6e],
    },
];

impl Format {
    /// Whether a content has the name of one of these systems.
    pub fn is_named(content: &str) -> bool {
        FORMATS.iter().any(|format| format.word == content)
    }
}

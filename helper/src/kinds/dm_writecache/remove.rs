// SPDX-License-Identifier: GPL-3.0-or-later
//! Removes a cache of dm-writecache that LVM has not made.

use crate::kinds::mapping::Bare;
use tandem_api::SECTOR_BYTES;

/// No line shows whether the target cleans.
pub(in crate::kinds) const BARE: Bare = Bare {
    target: "writecache",
    cleaner: None,
    message: Some("cleaner"),
    superblock,
    mark: (0, 0x2348_9321_u32.to_le_bytes()),
};

/// The SSD begins at a sector of the device.
fn superblock(words: &[&str]) -> Option<(String, u64)> {
    // Memory that keeps its content is written in another way.
    let ["s", _disk, ssd, _block, _count, options @ ..] = words else {
        return None;
    };
    let named = options.iter().position(|word| *word == "start_sector");
    let sector: u64 = match named {
        Some(at) => options.get(at + 1)?.parse().ok()?,
        None => 0,
    };
    Some(((*ssd).to_owned(), sector.checked_mul(SECTOR_BYTES)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superblock_is_where_the_ssd_begins() {
        let of = |line: &str| superblock(&line.split_ascii_whitespace().collect::<Vec<_>>());
        let at = |place| Some(("8:1".to_owned(), place));
        assert_eq!(of("s 8:16 8:1 4096 0"), at(0));
        assert_eq!(
            of("s 8:16 8:1 4096 4 start_sector 2048 high_watermark 50"),
            at(1 << 20)
        );
        for line in [
            "p 8:16 8:1 4096 0",
            "s 8:16 8:1 4096",
            "s 8:16 8:1 4096 2 start_sector",
            "",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! How much an SSD can hold: the arithmetic of kmod/FORMAT.md, to say it before anything is written.

/// Sectors of a frame, the unit of caching.
const FRAME: u64 = 32;
/// Sectors before the first region.
const SUPER: u64 = 2048;
/// Memory for one frame's word in the index.
const WORD_BYTES: u64 = 8;
/// Largest run and number of ways, as powers of two, and the least number of groups wanted.
const RUN_SHIFT: u32 = 6;
const WAY_SHIFT: u32 = 4;
const GROUPS: u64 = 16;

/// Frames that an SSD of this many bytes holds; 0 if it is too small.
fn frames(bytes: u64) -> u64 {
    let sectors = (bytes / 512).min(1 << 36);
    let slots = sectors / FRAME;
    let journal = (sectors / 256).clamp(128, 131_072).next_multiple_of(8);
    let checkpoint = 2 * (slots / 64 + slots / 16_384 + 16).next_multiple_of(8);
    let intent = 256;
    let data = (SUPER + journal + checkpoint + intent).next_multiple_of(SUPER);
    let slots = sectors.saturating_sub(data) / FRAME;
    let (mut run, mut way) = (RUN_SHIFT, WAY_SHIFT);
    while slots >> (run + way) < GROUPS && run + way > 4 {
        if run > 2 {
            run -= 1;
        } else {
            way -= 1;
        }
    }
    slots >> (run + way) << (run + way)
}

/// Bytes of data that a cache on an SSD of this many bytes holds.
pub fn cache_bytes(bytes: u64) -> u64 {
    frames(bytes) * FRAME * 512
}

/// Bytes of kernel memory for the index of such a cache.
pub fn memory_bytes(bytes: u64) -> u64 {
    frames(bytes) * WORD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_module_makes_of_it() {
        // As status lines of the module showed it.
        assert_eq!(frames(512 << 20), 31_744);
        assert_eq!(frames(256 << 20), 15_872);
        assert_eq!(frames(0), 0);
        for gib in [1, 7, 120, 2_000, 30_000] {
            let bytes = gib << 30;
            let held = cache_bytes(bytes);
            assert!(held < bytes && held > bytes / 100 * 92, "{gib}: {held}");
        }
    }
}

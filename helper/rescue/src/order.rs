// SPDX-License-Identifier: GPL-3.0-or-later
//! What is on the SSD, in the order of the disk. The index is in the order of the SSD, and too large to be sorted whole in
//! memory: it is gone through once for each window of the disk.

use tandem_core::{Engine, Word};

/// Sectors of a frame, the piece of the disk that has one slot.
pub const FRAME_SECTORS: u64 = 32;
/// Sectors of a quarter.
pub const QUARTER_SECTORS: u64 = 8;
/// Frames in memory at once: 32 MiB.
const WINDOW: usize = 1 << 21;
/// Parts of the disk that are counted before it is divided into windows.
const PARTS: usize = 1 << 16;

/// Quarters that follow each other on the disk and on the SSD, in one frame. Sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First sector on the disk.
    pub sector: u64,
    /// First sector on the SSD.
    pub ssd_sector: u64,
    /// Length; it ends with the disk.
    pub count: u64,
}

/// Calls `each` with all quarters that `chosen` selects of each slot, in the order of the disk, from the sector `from` on. A
/// result of false ends it.
pub fn in_disk_order(
    engine: &Engine,
    from: u64,
    chosen: impl Fn(&Word) -> u64,
    mut each: impl FnMut(Range) -> bool,
) {
    let layout = engine.layout();
    let frames = layout.origin_sectors.div_ceil(FRAME_SECTORS);
    let part_frames = frames.div_ceil(PARTS as u64).max(1);
    let mut counts = vec![0_usize; PARTS];
    let found = |slot: u32| {
        let word = engine.word(slot);
        let quarters = chosen(&word);
        let wanted = word.tag >= from / FRAME_SECTORS && word.tag < frames;
        (quarters != 0 && wanted).then_some((word.tag, slot, quarters))
    };
    for slot in 0..layout.slots {
        if let Some((frame, ..)) = found(slot) {
            counts[(frame / part_frames) as usize] += 1;
        }
    }
    let mut first = 0;
    while first < PARTS {
        let (mut end, mut total) = (first, 0);
        while end < PARTS && (end == first || total + counts[end] <= WINDOW) {
            total += counts[end];
            end += 1;
        }
        if total > 0 {
            let window = first as u64 * part_frames..end as u64 * part_frames;
            let mut all: Vec<_> = (0..layout.slots)
                .filter_map(found)
                .filter(|(frame, ..)| window.contains(frame))
                .collect();
            all.sort_unstable();
            for (frame, slot, quarters) in all {
                for (first, end) in runs(quarters) {
                    let sector = frame * FRAME_SECTORS + first * QUARTER_SECTORS;
                    let slot = layout.data_start + u64::from(slot) * FRAME_SECTORS;
                    let range = Range {
                        sector,
                        ssd_sector: slot + first * QUARTER_SECTORS,
                        count: ((end - first) * QUARTER_SECTORS)
                            .min(layout.origin_sectors - sector),
                    };
                    if sector >= from && !each(range) {
                        return;
                    }
                }
            }
        }
        first = end;
    }
}

/// The runs of ones among four bits: first, and behind the last.
fn runs(mask: u64) -> impl Iterator<Item = (u64, u64)> {
    let has = move |bit: u64| bit < 4 && mask >> bit & 1 != 0;
    (0..4)
        .filter(move |&bit| has(bit) && (bit == 0 || !has(bit - 1)))
        .map(move |from| (from, (from..=4).find(|&bit| !has(bit)).unwrap_or(4)))
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn neighbours_are_one_run() {
        let of = |mask| runs(mask).collect::<Vec<_>>();
        assert_eq!(of(0b0000), []);
        assert_eq!(of(0b1111), [(0, 4)]);
        assert_eq!(of(0b1011), [(0, 2), (3, 4)]);
        assert_eq!(of(0b0110), [(1, 3)]);
    }
}

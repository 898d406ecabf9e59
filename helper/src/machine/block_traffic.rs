// SPDX-License-Identifier: GPL-3.0-or-later
//! What the kernel counts at a block device.

use crate::machine::sysfs::line;
use crate::model::other_reading::BlockTraffic;
use std::path::Path;
use tandem_api::SECTOR_BYTES;

/// The counters of the device with this kernel name, under this sysfs.
pub fn traffic(sysfs: &Path, name: &str) -> Option<BlockTraffic> {
    let folder = sysfs.join("class/block").join(name);
    let number = line(folder.join("dev"))?;
    // Kernels from 5.15 on number the whole devices; the next device with the same name has another number.
    let sequence = line(folder.join("diskseq")).unwrap_or_default();
    parse(&line(folder.join("stat"))?, format!("{number} {sequence}"))
}

/// The numbers of a line: each time requests, merged requests, sectors and time, of reads and of writes. Newer kernels have
/// more numbers behind them, of which those of discards are no writes.
fn parse(stat: &str, device: String) -> Option<BlockTraffic> {
    let number = |word: &str| word.parse::<u64>().ok();
    let words = stat.split_ascii_whitespace().map(number);
    let numbers: Vec<_> = words.collect::<Option<_>>()?;
    let [reads, _, read, _, writes, _, written, _, ..] = numbers.as_slice() else {
        return None;
    };
    Some(BlockTraffic {
        device,
        requests: reads.saturating_add(*writes),
        read: read.saturating_mul(SECTOR_BYTES),
        written: written.saturating_mul(SECTOR_BYTES),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of `/sys/block/*/stat`, with what they say.
    const LINES: [(&str, [u64; 3]); 3] = [
        // A virtual disk of Linux 6.18.
        (
            " 2343711   115987 129209866  6964849   862056   510602 198747904   977301        0   408692  7997647   299809       70 119380040    47206   179465     8289",
            [2_343_711 + 862_056, 129_209_866, 198_747_904],
        ),
        // The form of kernels before 4.18, which count no discards.
        (
            "     446        0    24336      120       17        0      136        4        0      124      124",
            [446 + 17, 24_336, 136],
        ),
        ("0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0", [0; 3]),
    ];

    #[test]
    fn the_line_of_a_device_is_read() {
        for (line, [requests, read, written]) in LINES {
            let expected = BlockTraffic {
                device: "8:0 9".into(),
                requests,
                read: read * 512,
                written: written * 512,
            };
            assert_eq!(parse(line, "8:0 9".into()), Some(expected), "{line}");
        }
        for strange in ["", "1 2 3", "a b c d e f g h i j k", "1 2 3 4 5 6 -7 8 9"] {
            assert_eq!(parse(strange, String::new()), None, "{strange}");
        }
    }

    #[test]
    fn another_device_with_the_same_name_is_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("class/block/vdb");
        std::fs::create_dir_all(&folder).unwrap();
        let write = |file: &str, text: &str| std::fs::write(folder.join(file), text).unwrap();
        write("stat", LINES[0].0);
        assert_eq!(traffic(root.path(), "vdb"), None);
        write("dev", "254:16\n");
        write("diskseq", "3\n");
        let first = traffic(root.path(), "vdb").unwrap();
        write("diskseq", "4\n");
        let second = traffic(root.path(), "vdb").unwrap();
        assert_ne!(first.device, second.device);
        assert_eq!(first.read, second.read);
    }
}

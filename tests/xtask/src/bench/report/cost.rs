// SPDX-License-Identifier: GPL-3.0-or-later
//! Instructions of single requests.

use anyhow::Result;

use super::ahead::{Column, Reason, less};
use super::{Aim, Figures, compared, find};

/// Instructions above dm-linear.
const READ_AIM: u64 = 200;
const WRITE_AIM: u64 = 220;

const REQUESTS: [Column; 7] = [
    less("read hit p10", "read-4-p10"),
    less("p50", "read-4-p50"),
    less("p90", "read-4-p90"),
    less("read miss", "miss-4"),
    less("written again", "write-4"),
    less("first write", "write-fresh-4"),
    less("to a cached block", "write-clean-4"),
];

const SIZES: [Column; 5] = [
    less("4 KiB", "read-4-p50"),
    less("16 KiB", "read-16"),
    less("64 KiB", "read-64"),
    less("256 KiB", "read-256"),
    less("1 MiB", "read-1024"),
];

const REASONS: [Reason; 5] = [
    Reason {
        figures: "miss",
        device: "",
        why: "they read what was asked for and do not store it, or not at the first read; Tandem reads the frame of 16 KiB around\n  \
             it and writes that to the SSD, so the RAM disks copy eight times as much",
    },
    Reason {
        figures: "write-4",
        device: "dm-cache",
        why: "it sends the program's own memory to both devices; Tandem copies the data once, so that both get the same even if the\n  \
             program changes it meanwhile",
    },
    Reason {
        figures: "write-fresh",
        device: "dm-cache",
        why: "it sends such a write to the disk, and stores nothing",
    },
    Reason {
        figures: "write-clean",
        device: "dm-cache",
        why: "it overwrites a copy without a record that the disk will differ, and takes all its blocks for dirty after a power cut;\n  \
             in write-through it sends the program's own memory to both devices, which Tandem copies once",
    },
    Reason {
        figures: "write",
        device: "dm-writecache",
        why: "a block has a free place in a list there; Tandem looks for one among the 16 of a set, where reads find it\n  \
             without a lock",
    },
];

pub(super) fn write(text: &mut String, all: &[Figures]) -> Result<Vec<Aim>> {
    text.push_str(
        "\n## Cost of a request, in instructions\n\n\
         Disk and SSD are RAM disks of the guest, so that only the software's work is counted, and of large requests\n\
         the copying. One O_DIRECT request at a time, in random order. Of 4 KiB: 2000 requests, with the 10th, 50th and\n\
         90th of a hundred; else the 50th. Written again: blocks that were written just before, in write-back dirty ones.\n\
         First write: to a block that nobody has touched, and to one that is cached since it was read. Empty: that cache\n\
         does not cache what is read, or not within 200 reads. RapidDisk caches in a RAM disk of its own.\n\n",
    );
    compared(text, all, &REQUESTS, &REASONS)?;
    text.push_str("Read hits by size:\n\n");
    compared(text, all, &SIZES, &REASONS)?;
    let linear = find(all, "dm-linear")?;
    let above = |name: &str, figure: &str| -> Result<u64> {
        let cost = find(all, name)?.get(figure)?;
        Ok(cost.saturating_sub(linear.get(figure)?))
    };
    let unit = "instructions above dm-linear";
    Ok(vec![
        Aim::at_most("read hit", READ_AIM, above("tandem", "read-4-p50")?, unit),
        Aim::at_most(
            "read hit in write-back",
            READ_AIM,
            above("tandem-wb", "read-4-p50")?,
            unit,
        ),
        Aim::at_most(
            "write-back hit (written again)",
            WRITE_AIM,
            above("tandem-wb", "write-4")?,
            unit,
        ),
    ])
}

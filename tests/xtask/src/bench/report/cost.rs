// SPDX-License-Identifier: GPL-3.0-or-later
//! Instructions of single requests.

use anyhow::Result;

use super::{Aim, Figures, find, table};

/// Instructions above dm-linear.
const READ_AIM: u64 = 200;
const WRITE_AIM: u64 = 220;

pub(super) fn write(text: &mut String, all: &[Figures]) -> Result<Vec<Aim>> {
    text.push_str(
        "\n## Cost of a request, in instructions\n\n\
         Disk and SSD are RAM disks of the guest, so that only the software's work is counted, and of large requests\n\
         the copying. One O_DIRECT request at a time, in random order. Of 4 KiB: 2000 requests, with the 10th, 50th and\n\
         90th of a hundred; else the 50th. Written again: blocks that were written just before, in write-back dirty ones.\n\
         First write: to a block that nobody has touched, and to one that is cached since it was read. Empty: that cache\n\
         does not cache what is read, or not within 200 reads. RapidDisk caches in a RAM disk of its own.\n\n",
    );
    table(
        text,
        all,
        &[
            ("read hit p10", "read-4-p10"),
            ("p50", "read-4-p50"),
            ("p90", "read-4-p90"),
            ("read miss", "miss-4"),
            ("written again", "write-4"),
            ("first write", "write-fresh-4"),
            ("to a cached block", "write-clean-4"),
        ],
    )?;
    text.push_str("Read hits by size:\n\n");
    table(
        text,
        all,
        &[
            ("4 KiB", "read-4-p50"),
            ("16 KiB", "read-16"),
            ("64 KiB", "read-64"),
            ("256 KiB", "read-256"),
            ("1 MiB", "read-1024"),
        ],
    )?;
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

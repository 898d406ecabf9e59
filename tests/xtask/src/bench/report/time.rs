// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads and writes on models of a disk and an SSD.

use std::fmt::Write;

use anyhow::Result;

use super::ahead::{Column, PROCESSOR, Reason, UNKNOWN, less, more};
use super::{Aim, Figures, compared, find, share};

/// Least speed of warm reads, in tenths of a percent of the bare SSD's.
const WARM_AIM: u64 = 970;
/// Longest time of a synced write in write-through, in tenths of a percent of the plain disk's.
const SYNC_AIM: u64 = 1050;
/// Longest time of discards of what is not cached, in tenths of a percent of the plain disk's.
const DISCARD_AIM: u64 = 1500;
/// Longest time of a synced write in write-back, in microseconds.
const SYNC_BACK_AIM: u64 = 350;

/// Least speed of a long write in order, in tenths of a percent of the plain disk's.
const STREAM_AIM: u64 = 970;

/// Least speed of random writes in write-back, in tenths of a percent of dm-writecache's.
const BURST_AIM: u64 = 1200;

/// Warm reads of this many KiB.
const SIZES: [u64; 5] = [4, 16, 64, 256, 1024];

const FIRST: [Column; 8] = [
    more("warm reads/s", "reads-1"),
    more("at depth 32", "reads-32"),
    more("% hits", "share-32"),
    more("copy MB/s", "copy-first"),
    more("second time", "copy-second"),
    more("in order MB/s", "sequential-reads"),
    more("written in order MB/s", "sequential-writes"),
    more("random writes/s", "writes-32"),
];

/// Large files that are written.
const STREAMS: [Column; 4] = [
    more("4 KiB, 1", "stream-4-1"),
    more("4 KiB, 32", "stream-4-32"),
    more("1 MiB, 1", "stream-1024-1"),
    more("1 MiB, 32", "stream-1024-32"),
];

const DISCARDS: [Column; 2] = [
    less("480 MiB us", "discard-whole"),
    less("120 pieces us", "discard-pieces"),
];

const SYNCED: [Column; 3] = [
    less("first write us", "synced-fresh"),
    less("again", "synced-again"),
    less("to a block that was read", "synced-read"),
];

/// The first that fits is told.
const REASONS: [Reason; 10] = [
    Reason {
        figures: "",
        device: "rapiddisk-ssd",
        why: UNKNOWN,
    },
    Reason {
        figures: "",
        device: "rapiddisk",
        why: "its cache is in memory, or it stores nothing of what is written; nothing of it is there after a start",
    },
    Reason {
        figures: "writes-32",
        device: "dm-writecache",
        why: PROCESSOR,
    },
    Reason {
        figures: "sequential-writes",
        device: "dm-writecache",
        why: PROCESSOR,
    },
    Reason {
        figures: "stream-1024-1",
        device: "",
        why: "in write-through they are ahead of the plain disk, too, and nobody knows why yet; in write-back they take the file on\n  \
             the SSD",
    },
    Reason {
        figures: "stream",
        device: "",
        why: "they take a file of any length on the SSD; Tandem sends what goes on for 32 MiB in order past it, so that a film\n  \
             leaves there what is read often",
    },
    Reason {
        figures: "discard",
        device: "",
        why: "they tell the SSD nothing before the disk discards; Tandem first sets marks on it, one for each region, so that\n  \
             after a power cut no copy of what was discarded is believed",
    },
    Reason {
        figures: "synced",
        device: "dm-cache-wb",
        why: "it overwrites a copy without a record that the disk has older data, and takes all its blocks for dirty after a\n  \
             power cut",
    },
    Reason {
        figures: "synced",
        device: "",
        why: "they write to both devices at once, or to the disk alone; Tandem's mark, that the disk and a copy may differ, is\n  \
             on the SSD before the write begins",
    },
    Reason {
        figures: "large",
        device: "dm-cache",
        why: "it cuts a large request into blocks of 32 KiB, which the model of the SSD reads on eight channels at a time",
    },
];

fn size_figure(kib: u64, depth: u64) -> String {
    if kib == 4 {
        format!("reads-{depth}")
    } else {
        format!("large-{kib}-{depth}")
    }
}

pub(super) fn write(text: &mut String, all: &[Figures]) -> Result<Vec<Aim>> {
    text.push_str(
        "\n## Time on a disk that seeks\n\n\
         Disk and SSD are models over RAM disks (`tests/bench/model`): a disk of 16 GiB and 7200 rpm with 8 ms for a\n\
         random seek, a queue of 32 and a volatile cache of 8 MiB; an SSD of 1 GiB with 0.1 ms for a read, 80000 of them a\n\
         second, 500 MB/s and a volatile cache. Both say so in `queue/write_cache`, and flushes reach them.\n\n\
         Warm reads: 4 KiB each, of 1024 blocks all over the disk, which were written once and read up to 20 times before.\n\
         Copy: a file of 32 MiB that was never read, in requests of 128 KiB, then the same again a minute later. In order:\n\
         the same file in requests of 4 KiB, 32 at a time. Random writes: 8192 of 4 KiB, without a flush, 32 at a time.\n\n\
         RapidDisk caches in memory: a RAM disk of 1 GiB, the content of which is lost at each start of the machine, takes the\n\
         place of the SSD in its first two rows. In the third its cache is on the SSD, under a name that its module takes for\n\
         that of such a RAM disk. Its device says \"write through\" in `queue/write_cache`, and no flush reaches the disk: what\n\
         a program has synced may be in the disk's volatile cache only. So it has no synced writes below.\n\
         Its write-back is dm-writecache, which has a row of its own.\n\n",
    );
    compared(text, all, &FIRST, &REASONS)?;
    text.push_str(
        "Large files: 256 MiB, written where nothing was before, in requests of 4 KiB and of 1 MiB, at depth 1 and 32; MB/s.\n\n",
    );
    compared(text, all, &STREAMS, &REASONS)?;
    text.push_str(
        "Discards of what the SSD does not have, in microseconds: 480 MiB at once, and 120 pieces of 2 MiB, one after\n\
         the other. A device without a figure takes no discards.\n\n",
    );
    compared(text, all, &DISCARDS, &REASONS)?;
    text.push_str(
        "Synced write: 4 KiB somewhere, and a flush, in microseconds. To blocks that nobody has touched, to the same again,\n\
         and to blocks that were read before.\n\n",
    );
    compared(text, all, &SYNCED, &REASONS)?;
    text.push_str(
        "Warm reads by size, at depth 1 and 32: 4 KiB in requests a second, others in kB/s.\n\n",
    );
    let figures: Vec<(String, String)> = SIZES
        .iter()
        .flat_map(|kib| {
            [1, 32].map(|depth| (format!("{kib} KiB, {depth}"), size_figure(*kib, depth)))
        })
        .collect();
    let columns: Vec<Column> = figures
        .iter()
        .map(|(title, figure)| more(title, figure))
        .collect();
    compared(text, all, &columns, &REASONS)?;
    aims(all)
}

fn aims(all: &[Figures]) -> Result<Vec<Aim>> {
    let (disk, ssd) = (find(all, "disk")?, find(all, "ssd")?);
    let (through, back) = (find(all, "tandem")?, find(all, "tandem-wb")?);
    let mut aims = Vec::new();
    for device in [through, back] {
        for depth in [1, 32] {
            let mut worst = (u64::MAX, 0);
            for kib in SIZES {
                let figure = size_figure(kib, depth);
                let of = share(device.get(&figure)?, ssd.get(&figure)?);
                worst = worst.min((of, kib));
            }
            let figure = size_figure(4, depth);
            let mut what = format!(
                "warm reads of the bare SSD's, {}, depth {depth}",
                device.about
            );
            let of = share(device.get(&figure)?, ssd.get(&figure)?);
            aims.push(Aim::share_at_least(&what, WARM_AIM, of));
            write!(what, ", worst size up to 1 MiB ({} KiB)", worst.1)?;
            aims.push(Aim::share_at_least(what, WARM_AIM, worst.0));
        }
    }
    for device in [through, back] {
        for column in STREAMS {
            aims.push(Aim::share_at_least(
                format!(
                    "large file written, of the plain disk's speed, {}, {}",
                    device.about, column.title
                ),
                STREAM_AIM,
                share(device.get(column.figure)?, disk.get(column.figure)?),
            ));
        }
    }
    let writecache = find(all, "dm-writecache")?.get("writes-32")?;
    aims.push(Aim::share_at_least(
        "random writes, writeback, depth 32, of dm-writecache's",
        BURST_AIM,
        share(back.get("writes-32")?, writecache),
    ));
    for (what, figure) in [("first write", "synced-fresh"), ("again", "synced-again")] {
        aims.push(Aim::share_at_most(
            format!("synced write of the plain disk's, writethrough, {what}"),
            SYNC_AIM,
            share(through.get(figure)?, disk.get(figure)?),
        ));
    }
    for (what, figure) in [
        ("first write", "synced-fresh"),
        ("again", "synced-again"),
        ("to a block that was read", "synced-read"),
    ] {
        aims.push(Aim::at_most(
            format!("synced write, writeback, {what}"),
            SYNC_BACK_AIM,
            back.get(figure)?,
            "us",
        ));
    }
    aims.push(Aim::share_at_least(
        "random writes of the plain disk's, writethrough, depth 32",
        STREAM_AIM,
        share(through.get("writes-32")?, disk.get("writes-32")?),
    ));
    for (what, figure) in [
        ("480 MiB at once", "discard-whole"),
        ("120 pieces", "discard-pieces"),
    ] {
        aims.push(Aim::share_at_most(
            format!("discards of the plain disk's, writethrough, {what}"),
            DISCARD_AIM,
            share(through.get(figure)?, disk.get(figure)?),
        ));
    }
    Ok(aims)
}

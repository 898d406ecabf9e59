// SPDX-License-Identifier: GPL-3.0-or-later
//! The five articles: what each measured, and what is measured of it here.

use super::super::Kind;
use crate::bench::report::ahead::{Column, PROCESSOR, Reason, less, more};

/// An article.
pub struct Article {
    pub name: &'static str,
    pub title: &'static str,
    /// What was measured there, in lines of the page.
    pub measured: &'static str,
    /// How it is repeated, in lines of the page.
    pub here: &'static str,
    pub columns: &'static [Column<'static>],
    /// The article's own figures: of what, and one for each column.
    pub figures: &'static [(&'static str, &'static [&'static str])],
    /// Only caches that have something to write back.
    pub write_back: bool,
    pub reasons: &'static [Reason],
}

impl Article {
    /// The devices that are measured, each with its description.
    pub fn devices(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let kind = if self.write_back {
            Kind::Drain
        } else {
            Kind::Time
        };
        let devices = kind.devices().iter().copied();
        // The first is a bound for another page. RapidDisk caches in memory, and the articles are about SSDs.
        devices.filter(|(name, _)| *name != "elevator" && !name.starts_with("rapiddisk"))
    }
}

/// Of writes to blocks whose copies are clean.
const RECORDED: &str = "Tandem overwrites a copy in place, and before that it records on the SSD that the disk will have older data; a\n  \
     few of the writes wait for that record. dm-writecache, bcache and dm-writeboost write to a free place; dm-cache overwrites without a\n  \
     record, and takes all its blocks for dirty after a power cut";
/// Of a file that is written in order.
const PAST: &str = "they take a file of any length on the SSD; Tandem sends what goes on for 32 MiB in order past it, so that a film\n  \
     leaves there what is read often";
/// Of such a file, read afterwards.
const FORGOTTEN: &str = "the file was written in order before, and of what is written past the SSD (8 MiB on in write-through, 32 MiB in\n  \
     write-back) Tandem forgets its copies; the others kept theirs, or what was written";

/// Less is better: seconds, of milliseconds.
const fn seconds(title: &'static str, figure: &'static str) -> Column<'static> {
    less(title, figure).per(1000.0)
}

/// All of them, in the order of the page.
pub const ARTICLES: [Article; 5] = [
    Article {
        name: "files",
        title: "Files copied twice",
        measured: "Flashcache: a file of 24 GB was copied from the disk in 4 min 37 s, and once it was cached in 1 min 10 s; the page\n\
             cache alone gained nothing. 15 GB of many files took 2 min 28 s, then 45 s.",
        here: "Read in requests of 128 KiB, one at a time; 60 s between two copies. The many files have 0.125 to 16 MiB and are read\n\
             in another order than the disk has them. MB/s, first and second time.",
        columns: &[
            more("4 GB", "file-4-first"),
            more("again", "file-4-second"),
            more("24 GB", "file-24-first"),
            more("again", "file-24-second"),
            more("15 GB of many", "many-first"),
            more("again", "many-second"),
        ],
        figures: &[("Flashcache", &["", "", "87", "343", "101", "333"])],
        write_back: false,
        reasons: &[],
    },
    Article {
        name: "random",
        title: "Random blocks, one at a time",
        measured: "4 KiB on a bare disk, on a disk with Flashcache in both modes, and on one with bcache, each beside its bare SSD.",
        here: "4096 blocks all over the disk (1 GB of the article's) are read six times, each time in another order, and then\n\
             written and flushed. Requests a second.",
        columns: &[
            more("first read", "reads-1"),
            more("second", "reads-2"),
            more("sixth", "reads-6"),
            more("written", "writes"),
        ],
        figures: &[
            ("disk", &["", "", "74 to 126", "60 to 154"]),
            ("SSD of Flashcache", &["", "", "3100", "2300"]),
            ("Flashcache, writethrough", &["", "", "4500", "500"]),
            ("Flashcache, writeback", &["", "", "2700", "1800"]),
            ("SSD of bcache", &["", "", "8088", "5170"]),
            ("bcache", &["", "", "1091", "9699"]),
        ],
        write_back: false,
        reasons: &[Reason {
            figures: "writes",
            device: "",
            why: RECORDED,
        }],
    },
    Article {
        name: "depth",
        title: "Depth 32",
        measured: "4 KiB, 32 at a time, in order and at random, on a disk, an SSD, and three caches.",
        here: "A file of 4 GB: read in order twice, written in order, and then read and written in no order. MB/s.",
        columns: &[
            more("first read in order", "ordered-first-kb").per(1000.0),
            more("second", "ordered-second-kb").per(1000.0),
            more("written in order", "ordered-write-kb").per(1000.0),
            more("random read", "mixed-read-kb").per(1000.0),
            more("random write", "mixed-write-kb").per(1000.0),
        ],
        figures: &[
            ("disk", &["", "115", "72", "2", "2"]),
            ("SSD", &["", "231", "74", "230", "72"]),
            ("dm-cache", &["", "105", "50", "67", "51"]),
            ("Flashcache", &["", "284", "72", "284", "71"]),
            ("RapidCache, in memory", &["", "794", "70", "901", "2"]),
        ],
        write_back: false,
        reasons: &[
            Reason {
                figures: "ordered-write",
                device: "",
                why: PAST,
            },
            Reason {
                figures: "mixed-read",
                device: "",
                why: FORGOTTEN,
            },
            Reason {
                figures: "mixed-write",
                device: "",
                why: PROCESSOR,
            },
        ],
    },
    Article {
        name: "desktop",
        title: "Start of a desktop, scan of a home directory",
        measured: "bcache: from the boot loader to X11 90 s, then 9 s; a loaded desktop 120 s, then 15 s; a scan of a home directory 79 s,\n\
             then 4 s. Another author saw no gain of lvmcache (dm-cache) after several starts.",
        here: "Recordings of a virtual machine (`tests/bench/seeds`), in their own size: 3735 requests of a start of Debian 12 until\n\
             its panel stands, two at a time, and 4321 of `find` over 4000 folders with 50000 files, one at a time. They are played as\n\
             fast as the device answers, without the time in which programs compute. Seconds.",
        columns: &[
            seconds("first start", "desktop-1-ms"),
            seconds("second", "desktop-2-ms"),
            seconds("third", "desktop-3-ms"),
            seconds("first scan", "home-1-ms"),
            seconds("second", "home-2-ms"),
            seconds("third", "home-3-ms"),
        ],
        figures: &[("bcache", &["90", "9", "", "79", "4", ""])],
        write_back: false,
        reasons: &[],
    },
    Article {
        name: "drain",
        title: "Writing back",
        measured: "Flashcache: 4 GB of random dirty blocks took over 30 minutes to be written back.",
        here: "As much is written all over the disk, 32 at a time, and written back as fast as the device does it. What counts is the\n\
             sum: a cache that takes little has little to write back. Minutes are 64 times what it took, and so an upper bound:\n\
             as a part of the way, blocks lie closer on the large disk.",
        columns: &[
            seconds("written s", "written-ms"),
            seconds("written back s", "drained-ms"),
            less("both, min of 4 GB", "both-ms").per(60_000.0 / 64.0),
        ],
        figures: &[("Flashcache", &["", "", "over 30"])],
        write_back: true,
        reasons: &[
            Reason {
                figures: "written-ms",
                device: "",
                why: PROCESSOR,
            },
            Reason {
                figures: "drained",
                device: "dm-cache",
                why: "it sent nearly all of it to the disk when it was written",
            },
            Reason {
                figures: "",
                device: "dm-writecache",
                why: "it comes close to the perfect elevator of RESULTS.md; Tandem flushes the disk and records what is clean again\n  \
                     and again in between, and keeps within the 130 % of that elevator that it aims at",
            },
        ],
    },
];

// SPDX-License-Identifier: GPL-3.0-or-later
//! Writing back on models of a disk and an SSD.

use anyhow::Result;

use super::ahead::{Column, PROCESSOR, Reason, less};
use super::{Aim, Figures, compared, find, share, table};

/// Longest time to write all blocks and then write them back, in tenths of a percent of the perfect elevator's time.
const ELEVATOR_AIM: u64 = 1300;
/// Largest error of an estimate, in percent.
const ESTIMATE_AIM: u64 = 25;
/// Longest time from the start of a drain until the module gives an estimate, in milliseconds.
const TOLD_AIM: u64 = 5000;
/// Longest time to write all dirty data back, in milliseconds: the limit of 30 s, plus the largest error of the
/// estimate.
const LIMIT_AIM: u64 = 37_500;

const DRAINS: [Column; 4] = [
    less("sparse: written", "sparse-written-ms"),
    less("sparse: drained", "sparse-drained-ms"),
    less("dense: written", "dense-written-ms"),
    less("dense: drained", "dense-drained-ms"),
];

const REASONS: [Reason; 3] = [
    Reason {
        figures: "drained",
        device: "dm-cache",
        why: "it sent nearly all of it to the disk when it was written",
    },
    Reason {
        figures: "written",
        device: "dm-writecache",
        why: PROCESSOR,
    },
    Reason {
        figures: "",
        device: "dm-writecache",
        why: "it flushes the disk when all is written; Tandem does so for each 255 pieces, so that a stop, or a program's flush,\n  \
             waits for no more than these, and before each flush the disk has less and less to choose from",
    },
];

/// Estimates, and reads beside dirty data: of Tandem alone.
const ESTIMATES: [Column; 9] = [
    less("idle: ms", "idle-drained-ms"),
    less("told", "idle-told-ms"),
    less("off", "idle-off"),
    less("mixed: ms", "mixed-drained-ms"),
    less("told", "mixed-told-ms"),
    less("off", "mixed-off"),
    less("busy: ms", "busy-drained-ms"),
    less("told", "busy-told-ms"),
    less("off", "busy-off"),
];

const READS: [Column; 7] = [
    less("alone", "reads-alone-us"),
    less("p95", "reads-alone-p95-us"),
    less("dirty", "reads-dirty-us"),
    less("p95", "reads-dirty-p95-us"),
    less("left", "dirty-left-percent"),
    less("draining", "reads-draining-us"),
    less("p95", "reads-draining-p95-us"),
];

const FLOOD: [Column; 3] = [
    less("written in ms", "flood-written-ms"),
    less("dirty KiB", "flood-dirty-kib"),
    less("drained in ms", "flood-drained-ms"),
];

pub(super) fn write(text: &mut String, all: &[Figures]) -> Result<Vec<Aim>> {
    text.push_str(
        "\n## Writing back\n\n\
         The same models. 6144 random blocks of 4 KiB are written 32 at a time, all over the disk (sparse) and in 512 MiB of\n\
         it (dense, the mean of five times), and then written back as fast as the device does it. Milliseconds. What counts\n\
         is the sum: a cache that takes little has little to write back. The perfect elevator is the disk itself that gets\n\
         all blocks in their order, 32 at a time, and a flush.\n\n",
    );
    compared(text, all, &DRAINS, &REASONS)?;
    let tandem = find(all, "tandem-wb")?;
    let one = std::slice::from_ref(tandem);
    text.push_str(
        "After a flush, the estimate of the time that draining will take: after how many milliseconds it is first told, and\n\
         how far it is off at most from then on, in percent, until 5 s are left. Idle: sparse blocks, nobody else is there.\n\
         Mixed: as many in half of the disk, and a file of 256 MiB. Busy: the user reads from the disk, with pauses of 20 ms.\n\n",
    );
    table(text, one, &ESTIMATES)?;
    text.push_str(
        "Those reads: the mean and the 95th of a hundred, in microseconds, with nothing dirty, with dirty data that nobody\n\
         asked to write back, and during a drain. Left: of that dirty data after the reads, in percent.\n\n",
    );
    table(text, one, &READS)?;
    text.push_str(
        "The limit of dirty data: 49152 random blocks are written at once, and what is dirty then is written back.\n\n",
    );
    table(text, one, &FLOOD)?;
    let elevator = find(all, "elevator")?;
    let sum = |of: &Figures, kind: &str| -> Result<u64> {
        Ok(of.get(&format!("{kind}-written-ms"))? + of.get(&format!("{kind}-drained-ms"))?)
    };
    let mut aims = Vec::new();
    for kind in ["sparse", "dense"] {
        aims.push(Aim::share_at_most(
            format!("drain of random dirty blocks, {kind}, of a perfect elevator's time"),
            ELEVATOR_AIM,
            share(sum(tandem, kind)?, sum(elevator, kind)?),
        ));
    }
    for kind in ["idle", "mixed", "busy"] {
        aims.push(Aim::at_most(
            format!("estimate of the drain, {kind}, from when it is told"),
            ESTIMATE_AIM,
            tandem.get(&format!("{kind}-off"))?,
            "% off",
        ));
        aims.push(Aim::at_most(
            format!("an estimate is told, {kind}"),
            TOLD_AIM,
            tandem.get(&format!("{kind}-told-ms"))?,
            "ms",
        ));
    }
    aims.push(Aim::at_most(
        "limit of dirty data: 30 s to drain, and 25 % for the estimate",
        LIMIT_AIM,
        tandem.get("flood-drained-ms")?,
        "ms",
    ));
    Ok(aims)
}

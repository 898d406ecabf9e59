// SPDX-License-Identifier: GPL-3.0-or-later
//! The advice of an advisor, as the bus has it.

use tandem_advisor::{Advice, Advisor, Estimate, Point, Reason};
use tandem_api::{AdvicePoint, DeviceText, DiskWatch, SECTOR_BYTES, Verdict, WatchState};

use crate::model::record::WatchRecord;

const MICROSECONDS: u64 = 1_000_000;

fn permille(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * 1000.0).round() as u32
}

fn point(point: &Point) -> AdvicePoint {
    let of = |Estimate { share, error }| (permille(share), permille(error));
    let (reads_permille, reads_error) = of(point.reads_served);
    let (bytes_permille, bytes_error) = of(point.bytes_served);
    AdvicePoint {
        bytes: point.bytes,
        reads_permille,
        reads_error,
        bytes_permille,
        bytes_error,
    }
}

fn verdict(advice: &Advice) -> Verdict {
    match advice {
        Advice::Wait { .. } => Verdict::TooEarly,
        Advice::Cache(_) => Verdict::Helps,
        Advice::Incomplete => Verdict::Incomplete,
        Advice::NoHelp(reason) => match reason {
            Reason::FewReads => Verdict::FewReads,
            Reason::MostlyWrites => Verdict::MostlyWrites,
            Reason::MostlySequential => Verdict::MostlySequential,
            Reason::NothingReadAgain => Verdict::NothingReadAgain,
        },
    }
}

/// A watch as clients see it. `disk`: the disk as it is now.
pub fn of(
    record: &WatchRecord,
    disk: &DeviceText,
    state: WatchState,
    advisor: &Advisor,
) -> DiskWatch {
    let (seen, advice) = (advisor.seen(), advisor.advice());
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
    DiskWatch {
        id: record.id.clone(),
        disk: disk.clone(),
        state,
        since: record.since,
        watched_seconds: seen.watched_us / MICROSECONDS,
        reads: seen.reads,
        read_bytes: bytes(seen.read_sectors),
        sequential_bytes: bytes(seen.sequential_sectors),
        writes: seen.writes,
        written_bytes: bytes(seen.written_sectors),
        lost: seen.lost,
        verdict: verdict(&advice),
        wait_seconds: match advice {
            Advice::Wait { left_us } => left_us.div_ceil(MICROSECONDS),
            _ => 0,
        },
        enough_bytes: match advice {
            Advice::Cache(point) => point.bytes,
            _ => 0,
        },
        points: advisor.curve().points.iter().map(point).collect(),
    }
}

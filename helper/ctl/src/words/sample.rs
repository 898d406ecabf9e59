// SPDX-License-Identifier: GPL-3.0-or-later
//! Counters and times.

use super::bytes;
use tandem_api::{SECTOR_BYTES, Sample};

/// The size of the dirty data, and the time that a drain takes if the service knows that time.
pub fn dirty(sample: &Sample) -> String {
    let size = bytes(sample.dirty_sectors.saturating_mul(SECTOR_BYTES));
    match (sample.dirty_sectors, sample.drain_seconds) {
        (0, _) => "nothing".to_owned(),
        (_, 0) => size,
        (_, seconds) => format!("{size}, about {} to write", duration(seconds)),
    }
}

/// What the cache has done since its assembly, one line for each counter. The lines `Stored` and `Flushed` are always
/// there. Any other line is left out while its counter is 0.
pub fn counters(sample: &Sample) -> Vec<String> {
    let size = |sectors: u64| bytes(sectors.saturating_mul(SECTOR_BYTES));
    let frames = |event| size(sample.event(event).saturating_mul(sample.frame_sectors));
    let mut lines = Vec::from_iter(cold_start(sample.event("cold_start")));
    for (what, direction) in [("Read", &sample.read), ("Written", &sample.write)] {
        let bypassed: Vec<String> = direction
            .bypassed
            .iter()
            .filter(|reason| reason.value > 0)
            .map(|reason| format!("{} {}", size(reason.value), reason.name))
            .collect();
        if !bypassed.is_empty() {
            lines.push(format!(
                "{what}, skipping the cache: {}",
                bypassed.join(", ")
            ));
        }
    }
    if sample.write_back_sectors > 0 {
        lines.push(format!(
            "Written to the SSD first: {}, {} of it on the disk since",
            size(sample.write_back_sectors),
            size(sample.drained_sectors)
        ));
    }
    lines.push(format!(
        "Stored: {} added, {} replaced",
        frames("fills"),
        frames("evictions")
    ));
    lines.push(format!(
        "Flushed: the disk {} times, the SSD {} times",
        sample.event("flushes_disk"),
        sample.event("flushes_ssd")
    ));
    if sample.journal_total > 0 {
        lines.push(format!(
            "Journal: {} of {} blocks",
            sample.journal_used, sample.journal_total
        ));
    }
    for (what, latency) in [
        ("the SSD", &sample.ssd_latency),
        ("the disk", &sample.disk_latency),
    ] {
        if let (Some(p50), Some(p99)) = (latency.below_us(0.5), latency.below_us(0.99)) {
            lines.push(format!(
                "Answered by {what}: half {}, 99 of 100 {} ({} measured)",
                within(p50),
                within(p99),
                latency.requests()
            ));
        }
    }
    let errors = [sample.event("disk_errors"), sample.event("ssd_errors")];
    if errors != [0, 0] {
        lines.push(format!(
            "Errors: the disk {}, the SSD {}",
            errors[0], errors[1]
        ));
    }
    if sample.event("retired") > 0 {
        lines.push(format!(
            "Unreadable: {} blocks of 16 KiB of the SSD, no longer used",
            sample.event("retired")
        ));
    }
    lines
}

/// Why the last start dropped the copies on the SSD, by the module's number for it; `None`: it did not.
fn cold_start(reason: u64) -> Option<String> {
    let why = match reason {
        0 => return None,
        1 => "the disk was changed without the cache",
        3 => "the disk was unplugged while the cache was in use",
        4 => "with exFAT, FAT and NTFS, changes made elsewhere cannot be noticed",
        _ => "nothing shows that the disk is unchanged since the cache was last used",
    };
    Some(format!("Started empty: {why}"))
}

/// The upper bound of a latency, as text. `u64::MAX`: no bound is known, because the request took a second or more.
fn within(below_us: u64) -> String {
    match below_us {
        u64::MAX => "in a second or more".to_owned(),
        us @ ..1_000 => format!("within {us} us"),
        us => format!("within {:.1} ms", us as f64 / 1_000.0),
    }
}

/// Seconds as people say them.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_drain_is_shown_if_known() {
        let mut sample = Sample::default();
        assert_eq!(dirty(&sample), "nothing");
        sample.dirty_sectors = 4_000;
        assert_eq!(dirty(&sample), "2.0 MB");
        sample.drain_seconds = 9;
        assert_eq!(dirty(&sample), "2.0 MB, about 9 s to write");
    }

    #[test]
    fn a_counter_has_a_unit_and_most_lines_need_a_count() {
        let event = |name: &str, value| tandem_api::Counter {
            name: name.into(),
            value,
        };
        let mut sample = Sample {
            frame_sectors: 32,
            journal_used: 3,
            journal_total: 64,
            events: vec![event("fills", 1_000), event("flushes_disk", 7)],
            ..Sample::default()
        };
        let quiet = counters(&sample);
        assert_eq!(
            quiet,
            [
                "Stored: 16.4 MB added, 0 B replaced",
                "Flushed: the disk 7 times, the SSD 0 times",
                "Journal: 3 of 64 blocks"
            ]
        );
        sample.read.bypassed = vec![event("busy", 0), event("sequential", 20_000)];
        (sample.write_back_sectors, sample.drained_sectors) = (4_000, 2_000);
        sample.events.push(event("ssd_errors", 1));
        sample.events.push(event("retired", 2));
        let bucket = |below_us, requests| tandem_api::Bucket { below_us, requests };
        sample.ssd_latency.buckets = vec![bucket(64, 9), bucket(128, 1), bucket(2048, 0)];
        sample.disk_latency.buckets = vec![bucket(16_384, 3), bucket(u64::MAX, 1)];
        let busy = counters(&sample);
        assert_eq!(busy[0], "Read, skipping the cache: 10.2 MB sequential");
        assert_eq!(
            busy[1],
            "Written to the SSD first: 2.0 MB, 1.0 MB of it on the disk since"
        );
        assert_eq!(
            busy[5],
            "Answered by the SSD: half within 64 us, 99 of 100 within 128 us (10 measured)"
        );
        assert_eq!(
            busy[6],
            "Answered by the disk: half within 16.4 ms, 99 of 100 in a second or more (4 measured)"
        );
        assert_eq!(busy[7], "Errors: the disk 0, the SSD 1");
        assert_eq!(
            busy[8],
            "Unreadable: 2 blocks of 16 KiB of the SSD, no longer used"
        );
        sample.events.push(event("cold_start", 2));
        assert_eq!(
            counters(&sample)[0],
            "Started empty: nothing shows that the disk is unchanged since the cache was last used"
        );
    }
}

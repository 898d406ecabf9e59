// SPDX-License-Identifier: GPL-3.0-or-later
//! The counters of simulated caches of other systems. Programs read through them in waves, nine tenths from the SSD.

use std::time::Duration;
use tandem_api::{OtherCache, OtherKind, OtherState};
use tandem_helper::machine::clock::boottime_us;
use tandem_helper::model::other_reading::{BlockTraffic, Counting, Counts, OtherReading};

/// Bytes that programs read in a second, in the middle.
const READ: f64 = 48e6;
/// Bytes that they write in a second.
const WRITTEN: f64 = 6e6;
/// Seconds in which the reads swell by one radian.
const SWELL: f64 = 170.0;
/// Bytes of a request.
const REQUEST: u64 = 128 << 10;

/// The counters of a cache when so much time was let pass at once. The hits and misses are those that the cache tells.
pub fn reading(cache: &OtherCache, passed: Duration) -> OtherReading {
    let passed_us = u64::try_from(passed.as_micros()).unwrap_or(0);
    let time_us = boottime_us().saturating_add(passed_us);
    let seconds = time_us as f64 / 1e6;
    // The sum over the waves. It only grows.
    let waves = seconds + 0.6 * SWELL * (1.0 - (seconds / SWELL).cos());
    let (read, written) = ((READ * waves) as u64, (WRITTEN * seconds) as u64);
    let block = |device: String, read: u64, written: u64| BlockTraffic {
        device,
        requests: (read + written) / REQUEST,
        read,
        written,
    };
    let lone = cache.state == OtherState::WithoutSsd;
    let from_disk = if lone { read } else { read / 10 };
    let disks: Vec<_> = cache.disks.iter().map(|disk| disk.serial.clone()).collect();
    let ssds = cache.ssds.iter().map(|ssd| ssd.serial.clone());
    let ssd = |serial| block(serial, read - from_disk, written);
    OtherReading {
        time_us,
        device: block(cache.id.clone(), read, written),
        disks: vec![block(disks.join(" "), from_disk, written)],
        // Of memory nothing is counted.
        ssds: (cache.kind != OtherKind::RapidDisk).then(|| ssds.take(1).map(ssd).collect()),
        counts: Counts {
            counting: Counting::of(cache.kind),
            hits: cache.read_hits,
            misses: cache.read_misses,
            beside: Vec::new(),
        },
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The counters of a simulated cache. They show an invented working day: a desktop that reads much the same data again
//! and again, writes a little, and sometimes copies a large file. The cache warms up over some minutes.

use super::dirt::{Dirt, JOURNAL_BLOCKS};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tandem_api::{Bucket, CacheState, Counter, Direction, Latency, SECTOR_BYTES, Sample};

const FRAME_SECTORS: u64 = 32;
/// The counters change once in each tick. Ticks are short, so that the samples of one second each look alike.
const TICK: Duration = Duration::from_millis(100);
const TICKS_PER_SECOND: u64 = 10;
/// Time constant of the warm-up, in ticks.
const WARM_TICKS: f64 = 900.0;
/// Ticks from the beginning of one large copy to the next, and ticks that a copy lasts.
const COPY_EVERY: u64 = 700;
const COPY_TICKS: u64 = 90;

/// Sectors of a request: 16 KiB.
const REQUEST_SECTORS: u64 = 32;

/// The latencies of requests for so many sectors. One request in `every` is measured. Half of the measured requests
/// take less than 2 to the power of `middle` microseconds, three eighths take up to twice as long, and one eighth up to
/// eight times as long.
fn latency(sectors: u64, every: u64, middle: u32) -> Latency {
    let requests = sectors / REQUEST_SECTORS / every;
    let (slower, slowest) = (requests * 3 / 8, requests / 8);
    let of = |power: u32| match power {
        _ if power == middle => requests - slower - slowest,
        _ if power == middle + 1 => slower,
        _ if power == middle + 3 => slowest,
        _ => 0,
    };
    let mut buckets: Vec<Bucket> = (4..=20)
        .map(|power| Bucket {
            below_us: 1 << power,
            requests: of(power),
        })
        .collect();
    buckets.push(Bucket {
        below_us: u64::MAX,
        requests: 0,
    });
    Latency { buckets }
}

/// How the cache serves the requests of the working day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The SSD serves hits and stores what is read.
    Cached,
    /// The SSD is lost: the disk serves all requests.
    Bypassed,
    /// The SSD is lost with the only copy of some data: reads go to the disk, and every write fails.
    ReadOnly,
    /// No request is served: the mapping is suspended, or its disk is gone.
    Halted,
}

impl Flow {
    /// How a cache in this state serves requests.
    pub fn of(state: CacheState, reason: &str) -> Self {
        match (state, reason) {
            (_, "disk-missing") => Self::Halted,
            (CacheState::Active, _) => Self::Cached,
            (CacheState::Bypass, "ssd-gone-dirty") => Self::ReadOnly,
            (CacheState::Bypass, _) => Self::Bypassed,
            (
                CacheState::Pending
                | CacheState::Suspended
                | CacheState::Stopped
                | CacheState::Detached,
                _,
            ) => Self::Halted,
        }
    }
}

/// Counters of one cache. They grow with the clock.
#[derive(Debug)]
pub struct Load {
    since: Instant,
    ticks: u64,
    noise: u64,
    total: u64,
    ssd_sectors: u64,
    used: u64,
    hit: u64,
    missed: u64,
    sequential: u64,
    busy: u64,
    /// Sectors that were read from the disk, and not stored, while the cache was paused.
    unstored: u64,
    /// Sectors that were read and written while the SSD was lost.
    failed: [u64; 2],
    write_hit: u64,
    write_missed: u64,
    discard: u64,
    fills: u64,
    evictions: u64,
    streams: u64,
    flushes: u64,
    /// The dirty data.
    pub dirt: Dirt,
    flow: Flow,
    ahead: Duration,
    /// The counters stand still until then.
    rests_until: Option<Instant>,
    /// First bytes of the reads of speed tests that are on the SSD.
    pub stored: BTreeSet<u64>,
}

impl Load {
    /// A cold cache on an SSD of so many bytes, with this dirty data.
    pub fn new(bytes: u64, dirt: Dirt) -> Self {
        Self {
            since: Instant::now(),
            ticks: 0,
            noise: 0x2545_f491_4f6c_dd1d ^ bytes,
            total: bytes / (FRAME_SECTORS * SECTOR_BYTES),
            ssd_sectors: bytes / SECTOR_BYTES,
            used: 0,
            hit: 0,
            missed: 0,
            sequential: 0,
            busy: 0,
            unstored: 0,
            failed: [0; 2],
            write_hit: 0,
            write_missed: 0,
            discard: 0,
            fills: 0,
            evictions: 0,
            streams: 0,
            flushes: 0,
            dirt,
            flow: Flow::Cached,
            ahead: Duration::ZERO,
            rests_until: None,
            stored: BTreeSet::new(),
        }
    }

    /// The cache has another size from now on; the copies that belong elsewhere now are gone.
    pub fn resize(&mut self, bytes: u64) {
        let before = self.total.max(1);
        self.total = bytes / (FRAME_SECTORS * SECTOR_BYTES);
        self.ssd_sectors = bytes / SECTOR_BYTES;
        self.used = self.used * before.min(self.total) / before.max(self.total);
    }

    /// The same cache with so many frames on the SSD.
    pub fn warm(mut self, frames: u64) -> Self {
        self.used = frames;
        self
    }

    /// Frames on the SSD.
    pub fn frames(&self) -> u64 {
        self.used
    }

    /// From now on requests are served in this way.
    pub fn set_flow(&mut self, flow: Flow) {
        self.catch_up();
        self.flow = flow;
    }

    /// No simulated program uses the cache until then.
    pub fn rest_until(&mut self, until: Instant) {
        self.catch_up();
        self.rests_until = Some(until);
    }

    /// A program has read so many sectors, from the SSD and from the disk.
    pub fn read(&mut self, hit: u64, missed: u64) {
        self.hit += hit;
        self.missed += missed;
    }

    /// Moves the counters on by so much time at once.
    pub fn advance(&mut self, time: Duration) {
        self.ahead += time;
        self.catch_up();
    }

    fn random(&mut self, below: u64) -> u64 {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        self.noise % below.max(1)
    }

    /// Moves the counters on to the present time.
    pub fn catch_up(&mut self) {
        let passed = self.since.elapsed() + self.ahead;
        let due = u64::try_from(passed.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX);
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            // The time of the rest does not count.
            let due = u32::try_from(due.saturating_sub(self.ticks)).unwrap_or(0);
            self.since += TICK * due;
            return;
        }
        while self.ticks < due {
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        match self.flow {
            Flow::Cached => self.tick_cached(),
            Flow::Bypassed => {
                self.failed[0] += 3_000 + self.random(1_200);
                self.failed[1] += 300 + self.random(900);
            }
            Flow::ReadOnly => self.failed[0] += 3_000 + self.random(1_200),
            Flow::Halted => {}
        }
    }

    fn tick_cached(&mut self) {
        let warmth = 0.94 * (1.0 - (-(self.ticks as f64) / WARM_TICKS).exp());
        let swell = 1.0 + 0.5 * (self.ticks as f64 / 170.0).sin();
        let wanted = (3_000.0 * swell) as u64 + self.random(1_200);
        let hit = ((wanted as f64) * warmth) as u64;
        let hit = (hit * (950 + self.random(100)) / 1_000).min(wanted);
        self.hit += hit;
        let missed = match self.dirt.paused {
            true => &mut self.unstored,
            false => &mut self.missed,
        };
        *missed += wanted - hit;
        let stored = if self.dirt.paused { 0 } else { wanted - hit };
        let frames = stored / FRAME_SECTORS;
        self.fills += frames;
        let room = self.total - self.used;
        self.used += frames.min(room);
        self.evictions += frames.saturating_sub(room);
        if self.ticks % COPY_EVERY > COPY_EVERY - COPY_TICKS {
            self.sequential += 11_000 + self.random(4_000);
        }
        if self.ticks.is_multiple_of(COPY_EVERY) {
            self.streams += 1;
        }
        let write = 300 + self.random(900);
        // In a pause only what has a place on the SSD is written there.
        let share = if self.dirt.paused { 2 } else { 7 };
        self.write_hit += write * share / 10;
        self.dirt.tick(write * share / 10, TICKS_PER_SECOND);
        self.write_missed += write - write * share / 10;
        if self.random(100) == 0 {
            self.busy += 64;
            self.discard += 2_048;
        }
        if self.ticks.is_multiple_of(TICKS_PER_SECOND * 5) {
            self.flushes += 1;
        }
    }

    /// The present counters.
    pub fn sample(&mut self) -> Sample {
        self.catch_up();
        let counter = |name: &str, value| Counter {
            name: name.to_owned(),
            value,
        };
        let read_bypassed = vec![
            counter("busy", self.busy),
            counter("failed", self.failed[0]),
            counter("promotion", self.unstored),
            counter("sequential", self.sequential),
        ];
        let write_bypassed = vec![
            counter("discard", self.discard),
            counter("failed", self.failed[1]),
        ];
        Sample {
            time_us: tandem_helper::machine::clock::boottime_us()
                .saturating_add(u64::try_from(self.ahead.as_micros()).unwrap_or(0)),
            frames_used: self.used,
            frames_total: self.total,
            frame_sectors: FRAME_SECTORS,
            dirty_sectors: self.dirt.dirty,
            drain_seconds: self.dirt.seconds(),
            drained_sectors: self.dirt.drained,
            write_back_sectors: self.dirt.accepted,
            journal_used: self.dirt.commits % (JOURNAL_BLOCKS / 2),
            journal_total: JOURNAL_BLOCKS,
            read: Direction {
                requested: self.hit
                    + self.missed
                    + self.sequential
                    + self.busy
                    + self.unstored
                    + self.failed[0],
                hit: self.hit,
                missed: self.missed,
                bypassed: read_bypassed,
            },
            write: Direction {
                requested: self.write_hit + self.write_missed + self.discard + self.failed[1],
                hit: self.write_hit,
                missed: self.write_missed,
                bypassed: write_bypassed,
            },
            events: vec![
                counter("commits", self.dirt.commits),
                counter("disk_errors", self.dirt.disk_errors),
                counter("evictions", self.evictions),
                counter("fills", self.fills),
                counter("flushes_disk", self.flushes),
                counter("promotion", u64::from(!self.dirt.paused)),
                counter("ssd_sectors", self.ssd_sectors),
                counter("streams", self.streams),
            ],
            ssd_latency: latency(self.hit + self.dirt.accepted, 64, 7),
            disk_latency: latency(
                self.missed
                    + self.sequential
                    + self.busy
                    + self.unstored
                    + self.write_missed
                    + self.failed.iter().sum::<u64>(),
                8,
                13,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_warms_up_and_adds_up() {
        let mut load = Load::new(
            250_000_000_000,
            Dirt::new(tandem_api::Mode::Writethrough, 0, super::super::dirt::RATE),
        );
        load.advance(Duration::from_secs(10));
        let cold = load.sample();
        load.advance(Duration::from_secs(600));
        let warm = load.sample();
        load.advance(Duration::from_secs(10));
        let later = load.sample();
        let early = cold.read_hit_rate_since(&Sample::default()).unwrap();
        let late = later.read_hit_rate_since(&warm).unwrap();
        assert!(early < 0.2 && late > 0.5, "{early} {late}");
        for d in [&later.read, &later.write] {
            assert_eq!(d.requested, d.hit + d.missed + d.bypassed_sectors());
        }
        assert!(later.frames_used <= later.frames_total && later.frames_used > cold.frames_used);
    }

    #[test]
    fn nothing_moves_without_a_disk_and_nothing_is_hit_without_an_ssd() {
        let dirt = Dirt::new(
            tandem_api::Mode::Writeback,
            10_000,
            super::super::dirt::RATE,
        );
        let mut load = Load::new(250_000_000_000, dirt);
        let pass = |load: &mut Load| {
            let before = load.sample();
            load.advance(Duration::from_secs(10));
            (before, load.sample())
        };
        let (_, warm) = pass(&mut load);
        assert!(warm.read.hit > 0 && warm.write_back_sectors > 0);
        for (state, reason) in [
            (CacheState::Suspended, ""),
            (CacheState::Stopped, "ssd-missing"),
            (CacheState::Bypass, "disk-missing"),
            (CacheState::Detached, ""),
        ] {
            load.set_flow(Flow::of(state, reason));
            let (before, now) = pass(&mut load);
            let still = Sample {
                time_us: now.time_us,
                ..before
            };
            assert_eq!(now, still, "{state} {reason}");
        }
        load.set_flow(Flow::of(CacheState::Bypass, "ssd-error"));
        let (before, now) = pass(&mut load);
        assert_eq!(
            (now.read.hit, now.write.hit),
            (before.read.hit, before.write.hit)
        );
        assert_eq!(now.frames_used, before.frames_used);
        assert!(now.read.requested > before.read.requested);
        load.set_flow(Flow::of(CacheState::Bypass, "ssd-gone-dirty"));
        let (before, now) = pass(&mut load);
        assert_eq!(
            (&now.write, now.dirty_sectors),
            (&before.write, before.dirty_sectors)
        );
        assert!(now.read.requested > before.read.requested && now.read.hit == before.read.hit);
        load.set_flow(Flow::of(CacheState::Active, ""));
        let (before, now) = pass(&mut load);
        assert!(now.read.hit > before.read.hit);
        for d in [&now.read, &now.write] {
            assert_eq!(d.requested, d.hit + d.missed + d.bypassed_sectors());
        }
    }
}

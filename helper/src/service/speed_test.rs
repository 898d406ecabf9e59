// SPDX-License-Identifier: GPL-3.0-or-later
//! A speed test: the same places are read from a disk and through its cache. Nothing is written.
//!
//! The last pass through the cache counts. Passes are repeated until the SSD serves what they read, because the first
//! pass may only store it there; the result says how much the SSD has served. The number of reads follows from the time,
//! which is limited.

use crate::host::Host;
use crate::host::reads::{Pass, Places, Slot, Work};
use crate::model::facts::Device;
use crate::model::live::Status;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tandem_api::{CacheState, Failure, Kind, Mode, SpeedTest, TimedReads, Trust};
use tandem_api::{DeviceText, SECTOR_BYTES, Sample};
use tokio::time::{Instant, MissedTickBehavior, timeout};

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(30);
/// Longest time of the first read. A disk that sleeps takes 10 s to spin up.
const WAKE_LIMIT: Duration = Duration::from_secs(15);
/// Time that is left at the end for the reads that are then in progress.
const SPARE: Duration = Duration::from_secs(2);
/// Time between two looks at the cache, and between two reports of the progress.
const LOOK: Duration = Duration::from_millis(250);

/// Most passes through the cache with the same places.
const PASSES: u32 = 4;
/// The share of the SSD, in thousandths, that needs no further pass.
const ENOUGH_PERMILLE: u32 = 990;
/// The share of other programs, in thousandths, that makes a result unreliable.
const OTHERS_PERMILLE: u32 = 50;
/// Most reads of a pass. A disk that makes more small reads in the time of a pass has told enough.
const MAX_READS: u64 = 65_536;
/// The large reads fill at most this part of the cache, so that they do not displace what they have just stored there.
const PART_OF_CACHE: u64 = 16;

/// What a test reads.
#[derive(Debug, Clone)]
pub struct Target {
    /// The disk.
    pub disk: Device,
    /// The cache under test.
    pub cache: Option<CacheTarget>,
}

/// The cache of a disk that is tested.
#[derive(Debug, Clone)]
pub struct CacheTarget {
    /// 32 hex digits.
    pub uuid: String,
    /// The mapped device.
    pub mapping: Device,
    /// The SSD.
    pub ssd: Device,
    /// Bytes of data that the cache can hold.
    pub bytes: u64,
    /// The mode. A change of it ends the test.
    pub mode: Mode,
}

/// The progress of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// 0 to 1.
    pub done: f64,
    /// The test reads through the cache now.
    pub through_cache: bool,
}

/// How many seconds a part of a test takes at most, if the disk does not have to wake up.
struct Seconds {
    random: u32,
    sequential: u32,
    random_cached: u32,
    sequential_cached: u32,
}

const SECONDS: Seconds = Seconds {
    random: 6,
    sequential: 5,
    random_cached: 9,
    sequential_cached: 8,
};

/// The first pass through the cache may take this part of the seconds, and the further passes the rest.
const FIRST_PASS: f64 = 0.75;

/// Tests the speed. `tell` gets the progress. The result has no time yet.
///
/// # Errors
/// `SpeedTestFailed`, or `DeviceGone`. A test that is dropped ends after the read in progress.
pub async fn run(
    host: &dyn Host,
    target: &Target,
    seed: u64,
    slot: Arc<Slot>,
    tell: impl Fn(Progress) + Send + Sync,
) -> Result<SpeedTest, Failure> {
    let test = Test {
        host,
        target,
        slot,
        tell: &tell,
        share: Mutex::new(Share::default()),
    };
    let result = timeout(LIMIT, test.run(seed))
        .await
        .unwrap_or_else(|_| Err(failed(&target.disk, "slow")));
    let Err(failure) = result else { return result };
    // The reason of an error in reading may be that the device is gone.
    let facts = host.facts().await;
    let gone = facts.is_ok_and(|facts| {
        let boot = host.boot_id();
        facts.locate(&target.disk.ident, &boot).is_none()
    });
    if gone {
        return Err(Failure::new(Kind::DeviceGone).device(&target.disk.ident.text));
    }
    Err(failure)
}

fn failed(device: &Device, name: &str) -> Failure {
    Failure::new(Kind::SpeedTestFailed)
        .device(&device.ident.text)
        .name(name)
}

/// The share of other programs.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    /// The highest share so far, in thousandths.
    permille: u32,
    /// The share of a part of the test is not known.
    unknown: bool,
}

impl Share {
    /// Adds a part of the test in which the test did `own` of `all`.
    fn add(&mut self, all: u64, own: u64) {
        let others = u128::from(all.saturating_sub(own)) * 1000;
        let permille = others.checked_div(u128::from(all)).unwrap_or(0);
        self.permille = self.permille.max(u32::try_from(permille).unwrap_or(1000));
    }

    fn trust(self) -> Trust {
        match self {
            Self { permille, .. } if permille > OTHERS_PERMILLE => Trust::Disturbed,
            Self { unknown: true, .. } => Trust::Unknown,
            _ => Trust::Reliable,
        }
    }
}

/// The times of a pass, one of each read.
type Times = Vec<Duration>;

fn microseconds(times: &[Duration]) -> u64 {
    let sum: Duration = times.iter().sum();
    u64::try_from(sum.as_micros()).unwrap_or(u64::MAX).max(1)
}

/// What the counters of a cache say of a pass of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counted {
    /// Sectors that all programs have read and written through the cache.
    all: u64,
    /// Thousandths of the sectors of the test that the SSD has served, at least.
    ssd_permille: u32,
}

impl Counted {
    /// From the counters before and after a pass that has read `own` sectors. `None` if the counters began anew.
    fn between(before: &Sample, after: &Sample, own: u64) -> Option<Self> {
        let read = after.read.requested.checked_sub(before.read.requested)?;
        let hit = after.read.hit.checked_sub(before.read.hit)?;
        let written = after.write.requested.checked_sub(before.write.requested)?;
        let others = read.checked_sub(own)?;
        // Any of the hits may be of the other programs.
        let hit = u128::from(hit.saturating_sub(others).min(own)) * 1000;
        let permille = hit.checked_div(u128::from(own)).unwrap_or(0);
        Some(Self {
            all: read.saturating_add(written),
            ssd_permille: u32::try_from(permille).unwrap_or(0),
        })
    }
}

struct Test<'a> {
    host: &'a dyn Host,
    target: &'a Target,
    slot: Arc<Slot>,
    tell: &'a (dyn Fn(Progress) + Send + Sync),
    share: Mutex<Share>,
}

/// A part of the test: its share of the progress, and how the progress goes on while it runs.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Progress before the part.
    from: f64,
    /// Progress after the part.
    to: f64,
    began: Instant,
    time: Duration,
    through_cache: bool,
}

impl Part {
    fn progress(&self) -> Progress {
        let whole = self.time.as_secs_f64();
        let within = match self.left().as_secs_f64() {
            left if left > 0.0 => 1.0 - left / whole,
            _ => 1.0,
        };
        Progress {
            done: self.from + (self.to - self.from) * within,
            through_cache: self.through_cache,
        }
    }

    fn left(&self) -> Duration {
        self.time.saturating_sub(self.began.elapsed())
    }
}

impl Test<'_> {
    async fn run(&self, seed: u64) -> Result<SpeedTest, Failure> {
        let (disk, began) = (&self.target.disk, Instant::now());
        let random = Places::random(seed, disk.ident.text.size);
        let sequential = Places::runs(seed, disk.ident.text.size);
        if sequential.count() == 0 {
            let size = disk.ident.text.size;
            let small = Failure::new(Kind::OriginTooSmall).device(&disk.ident.text);
            return Err(small.sizes(sequential.bytes(), size));
        }
        // The seed of the test gives these places in no other pass.
        let wake = self.pass(Places::random(!seed, disk.ident.text.size), 1, WAKE_LIMIT);
        let woken = timeout(WAKE_LIMIT, self.watched(wake, None)).await;
        woken.map_err(|_| failed(disk, "slow"))??;

        let Seconds {
            random: a,
            sequential: b,
            random_cached: c,
            sequential_cached: d,
        } = SECONDS;
        let all = f64::from(a + b + self.target.cache.as_ref().map_or(0, |_| c + d));
        let left = (LIMIT - SPARE)
            .saturating_sub(began.elapsed())
            .as_secs_f64();
        let pace = (left / all).min(1.0);
        let part = |before: u32, seconds: u32| Part {
            from: f64::from(before) / all,
            to: f64::from(before + seconds) / all,
            began: Instant::now(),
            time: Duration::from_secs_f64(f64::from(seconds) * pace),
            through_cache: before >= a + b,
        };

        let most = self.most_large_reads();
        let small = self.read_disk(random, MAX_READS, part(0, a)).await?;
        let large = self.read_disk(sequential, most, part(a, b)).await?;
        let (random, sequential) = match &self.target.cache {
            None => (plain(random, &small), plain(sequential, &large)),
            Some(cache) => (
                self.read_through(cache, random, &small, part(a + b, c))
                    .await?,
                self.read_through(cache, sequential, &large, part(a + b + c, d))
                    .await?,
            ),
        };
        let share = *self.share();
        let ssd = self.target.cache.as_ref().map(|cache| &cache.ssd);
        Ok(SpeedTest {
            disk: disk.ident.text.clone(),
            ssd: ssd.map_or_else(DeviceText::none, |ssd| ssd.ident.text.clone()),
            random,
            sequential,
            trust: share.trust(),
            others_permille: share.permille,
            ..SpeedTest::none()
        })
    }

    fn share(&self) -> std::sync::MutexGuard<'_, Share> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn most_large_reads(&self) -> u64 {
        let cache = self.target.cache.as_ref();
        let large = Places::runs(0, self.target.disk.ident.text.size).bytes();
        cache
            .map_or(MAX_READS, |cache| cache.bytes / PART_OF_CACHE / large)
            .max(1)
    }

    fn pass(&self, places: Places, count: u64, time: Duration) -> Pass {
        Pass {
            places,
            count: count.min(places.count()),
            time,
            slot: self.slot.clone(),
        }
    }

    /// Reads from the disk, and notes what other programs did on the disk meanwhile.
    async fn read_disk(&self, places: Places, most: u64, part: Part) -> Result<Times, Failure> {
        let disk = &self.target.disk;
        let before = self.host.disk_work(disk).await;
        let pass = self.pass(places, most, part.time);
        let times = self.watched(pass, Some(part)).await?;
        let after = self.host.disk_work(disk).await;
        let own = own_work(places, &times);
        match before.zip(after).and_then(|(b, a)| since(&a, &b)) {
            Some(all) if all.sectors >= own.sectors => self.note(places, all, own),
            _ => self.share().unknown = true,
        }
        Ok(times)
    }

    /// Reads the same places through the cache until the SSD serves them, and compares the last pass with the disk.
    async fn read_through(
        &self,
        cache: &CacheTarget,
        places: Places,
        disk: &[Duration],
        part: Part,
    ) -> Result<TimedReads, Failure> {
        let mut count = u64::try_from(disk.len()).unwrap_or(u64::MAX);
        for number in 1.. {
            let time = match number {
                1 => part.time.mul_f64(FIRST_PASS),
                _ => part.left(),
            };
            let before = self.counters(cache).await?;
            let on_ssd = self.host.disk_work(&cache.ssd).await;
            let pass = self.pass(places, count, time);
            let times = self.watched(pass, Some(part)).await?;
            let after = self.counters(cache).await?;
            let own = own_work(places, &times);
            let counted = Counted::between(&before, &after, own.sectors);
            let counted = counted.ok_or_else(|| failed(&self.target.disk, "changed"))?;
            count = u64::try_from(times.len()).unwrap_or(u64::MAX);
            let enough = counted.ssd_permille >= ENOUGH_PERMILLE;
            if !enough && number < PASSES && !part.left().is_zero() {
                continue;
            }
            self.share().add(counted.all, own.sectors);
            let ssd_after = self.host.disk_work(&cache.ssd).await;
            if let Some(all) = on_ssd.zip(ssd_after).and_then(|(b, a)| since(&a, &b)) {
                self.note(places, all, own);
            }
            let same = &disk[..times.len().min(disk.len())];
            return Ok(TimedReads {
                bytes: places.bytes(),
                count,
                disk_us: microseconds(same),
                cache_us: microseconds(&times),
                ssd_permille: counted.ssd_permille,
            });
        }
        Err(failed(&self.target.disk, "slow"))
    }

    /// Notes that a device did `all`, of which the test did `own`. For a small read the way to its place counts, for a
    /// large one the bytes: the kernel may make several requests of it.
    fn note(&self, places: Places, all: Work, own: Work) {
        match places.is_random() {
            true => self.share().add(all.requests, own.requests),
            false => self.share().add(all.sectors, own.sectors),
        }
    }

    /// Makes a pass, and watches the cache meanwhile. `part` is `None` while the disk wakes up.
    async fn watched(&self, pass: Pass, part: Option<Part>) -> Result<Times, Failure> {
        let device = match (&self.target.cache, part) {
            (Some(cache), Some(part)) if part.through_cache => &cache.mapping,
            _ => &self.target.disk,
        };
        let mut reads = self.host.timed_reads(device, &pass);
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                times = &mut reads => {
                    let times = times?;
                    return match times.is_empty() {
                        true => Err(failed(device, "slow")),
                        false => Ok(times),
                    };
                }
                _ = look.tick() => {
                    let none = Progress { done: 0.0, through_cache: false };
                    (self.tell)(part.map_or(none, |part| part.progress()));
                    if let Some(cache) = &self.target.cache {
                        self.counters(cache).await?;
                    }
                }
            }
        }
    }

    /// The counters of the cache, if it still works as at the beginning of the test.
    async fn counters(&self, cache: &CacheTarget) -> Result<Sample, Failure> {
        let unchanged = |status: &Status| {
            status.state == CacheState::Active.as_str() && status.mode == cache.mode
        };
        match self.host.status(&cache.uuid).await {
            Ok(status) if unchanged(&status) => Ok(status.sample),
            Ok(status) => Err(failed(&self.target.disk, "changed").detail(status.state)),
            Err(e) => Err(failed(&self.target.disk, "changed").detail(e)),
        }
    }
}

fn plain(places: Places, times: &[Duration]) -> TimedReads {
    TimedReads {
        bytes: places.bytes(),
        count: u64::try_from(times.len()).unwrap_or(u64::MAX),
        disk_us: microseconds(times),
        ..TimedReads::default()
    }
}

fn own_work(places: Places, times: &[Duration]) -> Work {
    let requests = u64::try_from(times.len()).unwrap_or(u64::MAX);
    Work {
        requests,
        sectors: requests.saturating_mul(places.bytes() / SECTOR_BYTES),
    }
}

fn since(now: &Work, before: &Work) -> Option<Work> {
    Some(Work {
        requests: now.requests.checked_sub(before.requests)?,
        sectors: now.sectors.checked_sub(before.sectors)?,
    })
}

#[cfg(test)]
mod tests;

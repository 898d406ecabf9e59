// SPDX-License-Identifier: GPL-3.0-or-later
//! How fast the simulated devices answer the reads of a speed test. A pass takes one step time, whatever the model says
//! of its reads.

use super::Simulated;
use super::world::{Block, Scene, World};
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tandem_api::{CacheState, Failure, Kind, SECTOR_BYTES};
use tandem_helper::host::reads::{Pass, Work};
use tandem_helper::host::traits::Observing;
use tandem_helper::host::watch::Requests;
use tandem_helper::model::facts::Device;

/// Time between two looks whether the device is still there.
const LOOK: Duration = Duration::from_millis(50);
/// The simulated people rest so long after a pass, so that the next pass of the same test is not disturbed.
const REST: Duration = Duration::from_secs(1);

/// A drive's time of a read, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Model {
    /// To get to a place, and a part of a turn of the disk by chance.
    seek: u64,
    turn: u64,
    /// For each MiB.
    transfer: u64,
}

/// A disk with 7200 turns a minute.
const DISK: Model = Model {
    seek: 8_400,
    turn: 8_300,
    transfer: 6_200,
};
/// An SSD at a SATA port.
const SSD: Model = Model {
    seek: 75,
    turn: 30,
    transfer: 1_950,
};

impl Model {
    /// `follows`: the read begins where the read before ended.
    fn time(self, bytes: u64, follows: bool, chance: u64) -> Duration {
        let place = if follows {
            0
        } else {
            self.seek + chance % self.turn
        };
        Duration::from_micros(place + self.transfer * bytes / (1 << 20))
    }
}

/// Makes the simulated people rest while a pass runs, and for a moment after it.
struct Rest<'a>(&'a World);

impl<'a> Rest<'a> {
    fn begin(world: &'a World) -> Self {
        world.rest_for(Duration::from_secs(3600));
        Self(world)
    }
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.rest_for(REST);
    }
}

#[async_trait]
impl Observing for Simulated {
    async fn timed_reads(&self, device: &Device, pass: &Pass) -> Result<Vec<Duration>, Failure> {
        let _question = self.world.questions.ask().await;
        self.world.timed_reads(device, pass).await
    }

    async fn disk_work(&self, device: &Device) -> Option<Work> {
        let _question = self.world.questions.ask().await;
        self.world.read(|scene| scene.disk_work(device))
    }

    async fn requests(&self, device: &Device) -> Result<Box<dyn Requests>, Failure> {
        let _question = self.world.questions.ask().await;
        Ok(self.world.requests(device))
    }

    fn sample_period(&self) -> Duration {
        self.world.read(|scene| scene.sample_period)
    }
}

impl World {
    fn rest_for(&self, time: Duration) {
        let until = Instant::now() + time;
        self.read_mut(|scene| {
            for map in scene.maps.values_mut() {
                map.load.rest_until(until);
            }
        });
    }

    /// See [`tandem_helper::host::traits::Observing::timed_reads`].
    pub(super) async fn timed_reads(
        &self,
        device: &Device,
        pass: &Pass,
    ) -> Result<Vec<Duration>, Failure> {
        let _rest = Rest::begin(self);
        let gone = || {
            Failure::new(Kind::SpeedTestFailed)
                .device(&device.ident.text)
                .name("read")
        };
        tokio::select! {
            () = self.pass_step_time() => {}
            () = self.until_gone(device) => return Err(gone()),
        }
        self.read_mut(|scene| scene.timed_reads(device, pass).ok_or_else(gone))
    }

    async fn until_gone(&self, device: &Device) {
        while self.read(|scene| scene.drive_of(device).is_some()) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The share of other programs in what the disks do from now on, in percent.
    pub fn set_other_load(&self, percent: u32) {
        self.read_mut(|scene| scene.other_load = percent.min(99).into());
    }
}

impl Scene {
    /// The lowest device below a device, and its drive. `None` if one of them is gone, or if a mapping above it leads
    /// to a device that is gone.
    fn drive_of(&self, device: &Device) -> Option<(&Block, String)> {
        let mut name = device.ident.text.name.clone();
        let mut block = self
            .blocks
            .get(&name)
            .filter(|b| b.diskseq == device.ident.diskseq)?;
        while let Some((below, _)) = &block.backing {
            name.clone_from(below);
            block = self.blocks.get(&name)?;
        }
        Some((block, block.drive.clone()))
    }

    /// See [`tandem_helper::host::traits::Observing::disk_work`].
    pub(super) fn disk_work(&self, device: &Device) -> Option<Work> {
        let (_, drive) = self.drive_of(device)?;
        Some(self.work.get(&drive).copied().unwrap_or_default())
    }

    fn timed_reads(&mut self, device: &Device, pass: &Pass) -> Option<Vec<Duration>> {
        let (_, drive) = self.drive_of(device)?;
        let spins = self.drives.get(&drive)?.rotation != 0;
        let below = if spins { DISK } else { SSD };
        let name = &device.ident.text.name;
        let cache = self.maps.values_mut().find(|map| map.dm == *name);
        let mut cache = cache.filter(|map| map.state == CacheState::Active);
        let bytes = pass.places.bytes();
        let (mut times, mut sum, mut from_ssd) = (Vec::new(), Duration::ZERO, 0);
        let (mut chance, mut end) = (0x2545_f491_4f6c_dd1d_u64, None);
        let mut stored = BTreeSet::new();
        for number in 0..pass.count {
            if sum >= pass.time {
                break;
            }
            let at = pass.places.at(number);
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let hit = cache.as_deref_mut().is_some_and(|map| {
                stored.insert(at);
                map.load.stored.contains(&at)
            });
            from_ssd += u64::from(hit);
            let model = if hit { SSD } else { below };
            let time = model.time(bytes, end == Some(at), chance >> 33);
            end = Some(at + bytes);
            sum += time;
            times.push(time);
        }
        let reads = u64::try_from(times.len()).unwrap_or(u64::MAX);
        let sectors = |reads: u64| reads * bytes / SECTOR_BYTES;
        let others = |own: u64| own * self.other_load / (100 - self.other_load);
        if let Some(map) = cache {
            let missed = reads - from_ssd;
            map.load.read(sectors(from_ssd), sectors(missed));
            map.load.read(0, others(sectors(reads)));
            map.load.stored.append(&mut stored);
            let ssd = map.pair.ssd.hardware.replace('/', "");
            let work = self.work.entry(ssd).or_default();
            work.requests += from_ssd;
            work.sectors += sectors(from_ssd);
        }
        let own = reads - from_ssd;
        let work = self.work.entry(drive).or_default();
        work.requests += own + others(own);
        work.sectors += sectors(own) + others(sectors(own));
        Some(times)
    }
}

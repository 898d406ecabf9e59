// SPDX-License-Identifier: GPL-3.0-or-later
//! The requests of simulated people to a disk that is watched. On most disks they read the same files again and again, some
//! of the files more often than others; from a Windows disk they only copy large files, each once.

use super::world::{Scene, World};
use async_trait::async_trait;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_api::SECTOR_BYTES;
use tandem_helper::host::watch::{Kind, Request, Requests};
use tandem_helper::model::facts::{Device, Ident};
use tokio::sync::watch;

/// Time from one request to the next: 48000 in a day.
const GAP_US: u64 = 1_800_000;
/// Requests that one read gives at most.
const AT_ONCE: usize = 20_000;
/// Sectors of a request: 1 MiB, which is a whole file.
const LENGTH: u64 = 2048;
/// The files that are read again: 64 GiB.
const FILES: u64 = 1 << 16;

/// The requests to one disk.
struct People {
    world: Arc<World>,
    disk: Ident,
    passed: watch::Receiver<Duration>,
    /// Time that had passed at the begin.
    before: Duration,
    begin: Instant,
    /// Time of the next request, in microseconds of this clock.
    next_us: u64,
    /// Number of the next request.
    number: u64,
    copies: bool,
}

impl World {
    /// See [`tandem_helper::host::traits::Observing::requests`].
    pub(super) fn requests(self: &Arc<Self>, device: &Device) -> Box<dyn Requests> {
        let passed = self.passed.subscribe();
        let before = *passed.borrow();
        Box::new(People {
            world: self.clone(),
            disk: device.ident.clone(),
            passed,
            before,
            begin: Instant::now(),
            next_us: GAP_US,
            number: 0,
            copies: device.ident.text.content == "ntfs",
        })
    }

    /// Lets time pass for the disks that are watched.
    pub(super) fn pass(&self, time: Duration) {
        self.passed.send_modify(|passed| *passed += time);
    }
}

impl People {
    /// The next request. Chance is a hash of its number, so that each run of the simulation is the same.
    fn request(&self) -> Request {
        let chance = self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let chance = (chance ^ chance >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11;
        let places = (self.disk.text.size / SECTOR_BYTES / LENGTH).max(1);
        let (kind, place) = if self.copies {
            (Kind::Read, self.number)
        } else {
            // The square of a share prefers the first files.
            let share = (chance % 65_536) as f64 / 65_536.0;
            let file = (share * share * FILES as f64) as u64;
            let kind = if self.number.is_multiple_of(5) {
                Kind::Write
            } else {
                Kind::Read
            };
            (kind, file.wrapping_mul(40_503))
        };
        Request {
            time_us: self.next_us,
            kind,
            sector: place % places * LENGTH,
            sectors: LENGTH.min(self.disk.text.size / SECTOR_BYTES),
        }
    }
}

#[async_trait]
impl Requests for People {
    async fn wait(&mut self) {
        if self.passed.changed().await.is_err() {
            std::future::pending().await
        }
    }

    fn read(&mut self, requests: &mut Vec<Request>) -> io::Result<bool> {
        let now_us = self.now_us();
        let there = |scene: &Scene| scene.locate(&self.disk).is_ok();
        if !self.world.read(there) {
            self.next_us = self.next_us.max(now_us);
            return Ok(false);
        }
        for _ in 0..AT_ONCE {
            if self.next_us > now_us {
                return Ok(false);
            }
            requests.push(self.request());
            self.next_us += GAP_US;
            self.number += 1;
        }
        Ok(true)
    }

    fn now_us(&self) -> u64 {
        let passed = self.passed.borrow().saturating_sub(self.before);
        u64::try_from((self.begin.elapsed() + passed).as_micros()).unwrap_or(u64::MAX)
    }

    fn lost(&self) -> u64 {
        0
    }
}

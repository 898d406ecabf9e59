// SPDX-License-Identifier: GPL-3.0-or-later
//! What programs ask of a disk, and how fast it answers.

use crate::host::reads::{Pass, Work};
use crate::host::watch::Requests;
use crate::model::facts::Device;
use async_trait::async_trait;
use std::time::Duration;
use tandem_api::{Failure, Kind};

/// For speed tests, the statistics of a cache and the watch of a disk without a cache.
#[async_trait]
pub trait Observing: Send + Sync + 'static {
    /// Makes the reads of a pass of a speed test, and returns how long each took. If the future is dropped, the reads end
    /// after the one in progress.
    async fn timed_reads(&self, _device: &Device, _pass: &Pass) -> Result<Vec<Duration>, Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// What the drives below a device have done so far, for all programs; `None` if the kernel does not tell.
    async fn disk_work(&self, _device: &Device) -> Option<Work> {
        None
    }

    /// Begins to get the requests of all programs to a device. They end when the result is dropped.
    async fn requests(&self, _device: &Device) -> Result<Box<dyn Requests>, Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// Time from one sample to the next of a cache that is watched.
    fn sample_period(&self) -> Duration {
        Duration::from_secs(1)
    }
}

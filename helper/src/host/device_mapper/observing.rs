// SPDX-License-Identifier: GPL-3.0-or-later
//! What programs ask of a disk, and how fast it answers. The reads of a speed test have a thread of their own.

use super::{DeviceMapper, blocking, step};
use crate::host::reads::{self, Pass, Work};
use crate::host::traits::Observing;
use crate::host::watch::{Requests, TRACEFS, Watch, Watched};
use crate::model::facts::Device;
use async_trait::async_trait;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tandem_api::{Failure, Kind};

/// Ends the reads when it is dropped. The thread of a read cannot be ended otherwise.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl Observing for DeviceMapper {
    async fn timed_reads(&self, device: &Device, pass: &Pass) -> Result<Vec<Duration>, Failure> {
        let stop = Stop(Arc::default());
        let (stopped, pass) = (stop.0.clone(), pass.clone());
        let (node, sequence) = (device.ident.node(), device.ident.diskseq);
        // The thread keeps the slot of the pass until it ends.
        let read = move || reads::timed_reads(&node, sequence, &pass, &stopped);
        blocking(read).await?.map_err(|e| {
            Failure::new(Kind::SpeedTestFailed)
                .device(&device.ident.text)
                .name("read")
                .detail(e)
        })
    }

    async fn disk_work(&self, device: &Device) -> Option<Work> {
        let name = device.ident.text.name.clone();
        blocking(move || reads::disk_work(&name)).await.ok()?
    }

    async fn requests(&self, device: &Device) -> Result<Box<dyn Requests>, Failure> {
        let (text, device) = (device.ident.text.clone(), device.clone());
        let start = move || {
            let watched = Watched::of(&device).ok_or(std::io::ErrorKind::NotFound)?;
            Watch::start(Path::new(TRACEFS), watched)
        };
        match blocking(start).await? {
            Ok(watch) => Ok(Box::new(watch)),
            Err(e) => Err(step(&format!("tracefs: {e}")).device(&text)),
        }
    }
}

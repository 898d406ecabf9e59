// SPDX-License-Identifier: GPL-3.0-or-later
//! The reads of a speed test, in a thread of their own.

use super::blocking;
use crate::facts::Device;
use crate::speed::{self, Pass};
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

/// See [`crate::engine::Engine::timed_reads`].
pub(super) async fn timed_reads(device: &Device, pass: &Pass) -> Result<Vec<Duration>, Failure> {
    let stop = Stop(Arc::default());
    let (stopped, pass) = (stop.0.clone(), pass.clone());
    let (node, sequence) = (device.ident.node(), device.ident.diskseq);
    // The thread keeps the slot of the pass until it ends.
    let read = move || speed::timed_reads(&node, sequence, &pass, &stopped);
    blocking(read).await?.map_err(|e| {
        Failure::new(Kind::SpeedTestFailed)
            .device(&device.ident.text)
            .name("read")
            .detail(e)
    })
}

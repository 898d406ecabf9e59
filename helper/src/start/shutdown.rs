// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes all dirty data to the disks before the machine is switched off, for the caches for which the user wants that.
//!
//! Run by `tandem-drain.service` when a shutdown begins. The service has ended by then, so no other process changes the
//! records. Nothing here prevents the shutdown: data that is not written back in time stays on the SSD, and the record
//! says so.

use crate::machine::dm::control::Control;
use crate::machine::dm::message::{Flush, Message};
use crate::machine::store::Store;
use crate::model::live::Status;
use crate::model::record::CacheRecord;
use std::time::Duration;
use tandem_api::{Mode, SECTOR_BYTES, SizeText};

/// Time from one look at the caches to the next.
const PAUSE: Duration = Duration::from_secs(1);
/// Looks in a minute.
const PER_MINUTE: u32 = 60;
/// Looks from one line about the progress to the next.
const PER_LINE: u32 = 10;

/// The kernel's side of the caches.
trait Kernel {
    /// Status of a cache; none if there is no such mapping, or if its counters are not valid.
    fn status(&self, uuid: &str) -> Option<Status>;
    fn send_message(&self, uuid: &str, message: Message) -> Result<(), String>;
    /// Waits for [`PAUSE`].
    fn pause(&self);
}

impl Kernel for Control {
    fn status(&self, uuid: &str) -> Option<Status> {
        let line = Self::status(self, uuid).ok()?;
        line.counters_valid().then(|| line.status(0))
    }

    fn send_message(&self, uuid: &str, message: Message) -> Result<(), String> {
        Self::send_message(self, uuid, message).map_err(|e| e.to_string())
    }

    fn pause(&self) {
        std::thread::sleep(PAUSE);
    }
}

/// Writes back what the records ask for.
pub fn run(store: &Store) {
    match Control::open() {
        Ok(control) => write_back(store, &control),
        Err(e) => tracing::error!("nothing is written back: {e}"),
    }
}

fn write_back(store: &Store, kernel: &impl Kernel) {
    let mut left = store.caches();
    left.retain(|record| record.shutdown_minutes > 0 && begin(store, kernel, record));
    let mut looks = 0;
    loop {
        left.retain(|record| {
            let goes_on = goes_on(store, kernel, record, looks);
            if !goes_on {
                end(kernel, record);
            }
            goes_on
        });
        if left.is_empty() {
            return;
        }
        kernel.pause();
        looks += 1;
    }
}

/// Takes a cache out of write-back and begins to write its dirty data to the disk. The record says that write-back goes
/// on at the next start.
fn begin(store: &Store, kernel: &impl Kernel, record: &CacheRecord) -> bool {
    let uuid = record.pair.uuid.as_str();
    let Some(status) = kernel.status(uuid) else {
        return false;
    };
    if status.mode == Mode::Writeback {
        let through = Message::Mode(Mode::Writethrough);
        if let Err(e) = kernel.send_message(uuid, through) {
            tracing::error!("{} stays in write-back: {e}", record.pair.name());
            return false;
        }
        let paused = |mut now: CacheRecord| {
            now.pair.mode = Mode::Writethrough;
            now.waits_for_kernel = true;
            now
        };
        if let Err(e) = store.change_cache(uuid, paused) {
            tracing::error!("the record of {} is as before: {e}", record.pair.name());
        }
    }
    if let Err(e) = kernel.send_message(uuid, Message::Flush(Flush::Start)) {
        // The module writes back in write-through without this message, too.
        tracing::warn!("{} is written back slowly: {e}", record.pair.name());
    }
    true
}

/// Looks at a cache for the time number `looks`. True: there is dirty data, and time.
fn goes_on(store: &Store, kernel: &impl Kernel, record: &CacheRecord, looks: u32) -> bool {
    let (uuid, disk) = (record.pair.uuid.as_str(), &record.pair.origin.text);
    let Some(status) = kernel.status(uuid) else {
        tracing::error!("the cache of {} does not answer", disk.name);
        return false;
    };
    let dirty = SizeText::new(status.sample.dirty_sectors.saturating_mul(SECTOR_BYTES));
    if status.sample.dirty_sectors == 0 {
        let recorded = store.change_cache(uuid, |now| now.after(&status));
        match recorded {
            Ok(_) => tracing::info!("all data of {} {} is on the disk", disk.model, disk.name),
            Err(e) => tracing::error!("the record of {} is as before: {e}", disk.name),
        }
        return false;
    }
    if looks >= record.shutdown_minutes.saturating_mul(PER_MINUTE) {
        let (model, name) = (&disk.model, &disk.name);
        tracing::warn!("the time is over: {dirty} of {model} {name} stay on the SSD only");
        return false;
    }
    if looks.is_multiple_of(PER_LINE) {
        tracing::info!(
            "{dirty} are written to {} {}; switching off waits for {} minutes at most",
            disk.model,
            disk.name,
            record.shutdown_minutes
        );
    }
    true
}

/// Ends the flush. The kernel may live on, in a soft reboot, and then the service sets write-back again.
fn end(kernel: &impl Kernel, record: &CacheRecord) {
    let stop = Message::Flush(Flush::Stop);
    if let Err(e) = kernel.send_message(&record.pair.uuid, stop) {
        tracing::warn!("the flush of {} does not end: {e}", record.pair.name());
    }
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: GPL-3.0-or-later
//! The watches in memory.

use crate::host::watch::session::{End, lock};
use crate::host::watch::view;
use crate::machine::clock::unix_seconds;
use crate::machine::store::Store;
use crate::model::facts::{Device, Ident};
use crate::model::record::WatchRecord;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tandem_advisor::{Advisor, Impossible};
use tandem_api::{DeviceText, DiskWatch, SECTOR_BYTES, WatchState};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// A prediction is calculated at most so often, however often clients ask.
const SHOW_PERIOD: Duration = Duration::from_secs(1);

/// How long the last reads of a session may take.
const LAST_READS: Duration = Duration::from_secs(2);

/// The requests of a device are fed to an advisor.
pub(in crate::service) struct Session {
    pub device: Ident,
    pub end: oneshot::Sender<End>,
    pub task: JoinHandle<()>,
}

impl Session {
    /// Whether the session goes on and is about this very device, with this size.
    pub fn is_of(&self, device: &Device) -> bool {
        !self.task.is_finished() && self.is_about(device)
    }

    pub fn is_about(&self, device: &Device) -> bool {
        device.ident.same_device(&self.device) && device.ident.text.size == self.device.text.size
    }

    pub async fn end(self, how: End) {
        let _ = self.end.send(how);
        if tokio::time::timeout(LAST_READS, self.task).await.is_err() {
            tracing::warn!("the last requests of {} are lost", self.device.text.name);
        }
    }
}

/// A watch.
pub(in crate::service) struct Kept {
    pub record: WatchRecord,
    /// The disk as it is now, or as it was.
    pub disk: DeviceText,
    pub advisor: Arc<Mutex<Advisor>>,
    pub session: Option<Session>,
    pub state: WatchState,
}

/// All watches, as clients have seen them last.
#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    views: Vec<DiskWatch>,
}

/// The watches. `seen` is taken before `kept`, and `kept` before the advisors.
#[derive(Default)]
pub(in crate::service) struct Watches {
    kept: Mutex<BTreeMap<String, Kept>>,
    seen: Mutex<Seen>,
    /// A new disk is watched.
    pub begun: Notify,
}

impl Watches {
    pub fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        lock(&self.kept)
    }

    /// What the clients see.
    pub fn views(&self) -> Vec<DiskWatch> {
        let mut seen = lock(&self.seen);
        if seen.at.is_none_or(|at| at.elapsed() >= SHOW_PERIOD) {
            let view =
                |kept: &Kept| view::of(&kept.record, &kept.disk, kept.state, &lock(&kept.advisor));
            seen.views = self.kept().values().map(view).collect();
            seen.at = Some(Instant::now());
        }
        seen.views.clone()
    }

    /// The next client gets what is true then.
    pub fn forget_views(&self) {
        lock(&self.seen).at = None;
    }

    pub fn advisor(&self, id: &str) -> Option<Arc<Mutex<Advisor>>> {
        self.kept().get(id).map(|kept| kept.advisor.clone())
    }

    pub fn records(&self) -> Vec<WatchRecord> {
        self.kept()
            .values()
            .map(|kept| kept.record.clone())
            .collect()
    }

    /// Number of requests of all disks so far.
    pub fn requests(&self) -> u64 {
        let requests = |kept: &Kept| {
            let seen = *lock(&kept.advisor).seen();
            seen.reads + seen.writes + seen.lost
        };
        self.kept().values().map(requests).sum()
    }
}

pub(super) fn new_advisor(disk: &Ident) -> Result<Advisor, Impossible> {
    Advisor::new(sectors(disk))
}

fn sectors(disk: &Ident) -> u64 {
    disk.text.size / SECTOR_BYTES
}

/// The advisor of a watch, with its saved state if there is one. A record of a watch that begins anew is changed.
pub(super) fn load(store: &Store, record: &mut WatchRecord) -> Result<Advisor, Impossible> {
    let saved = store.load_watch_state(&record.id).unwrap_or_else(|e| {
        tracing::warn!("{}: {e}", record.id);
        None
    });
    match saved.map(|state| Advisor::load(&state, sectors(&record.disk))) {
        Some(Ok(advisor)) => Ok(advisor),
        None => new_advisor(&record.disk),
        Some(Err(e)) => {
            tracing::warn!("the watch of {} begins anew: {e}", record.disk.text.name);
            record.since = unix_seconds();
            new_advisor(&record.disk)
        }
    }
}

pub(super) fn save(store: &Store, id: &str, state: &[u8]) {
    if let Err(e) = store.save_watch_state(id, state) {
        tracing::warn!("what was seen of a disk is not saved: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_advisor::{Kind, Request};

    #[test]
    fn clients_that_ask_all_the_time_have_nothing_calculated_anew() {
        let mut disk = Ident::default();
        disk.text.size = 1 << 40;
        let advisor = Arc::new(Mutex::new(new_advisor(&disk).unwrap()));
        let kept = Kept {
            disk: disk.text.clone(),
            record: WatchRecord {
                id: "00".to_owned(),
                disk,
                since: 1,
            },
            advisor: advisor.clone(),
            session: None,
            state: WatchState::Watching,
        };
        let watches = Watches::default();
        watches.kept().insert("00".to_owned(), kept);
        let begun = Instant::now();
        let reads = || watches.views()[0].reads;
        assert_eq!(reads(), 0);
        lock(&advisor).feed(&Request {
            time_us: 1,
            kind: Kind::Read,
            sector: 0,
            sectors: 8,
        });
        let still = reads();
        assert!(still == 0 || begun.elapsed() >= SHOW_PERIOD);
        watches.forget_views();
        assert_eq!(reads(), 1);
    }
}

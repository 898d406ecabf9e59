// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks that can be unplugged, and disks on the network: when nobody uses such a disk any more, its cache is stopped in
//! order, and starts again when the disk is back. Another computer may use the disk meanwhile.

use super::Service;
use super::plans::{leads_to, mapped};
use super::steps::Seen;
use crate::decide::lifecycle;
use crate::model::action::{Action, Pair};
use crate::model::facts::Device;
use crate::service::auth::Permission;
use std::sync::Arc;
use std::time::Duration;
use tandem_api::{Failure, Kind};
use tokio::time::Instant;
use zbus::message::Header;

/// Time from the end of the last use until the stop: a check of the file system, or the next mount, may follow at once.
const SETTLES: Duration = Duration::from_secs(2);
/// Longest time between two attempts to stop a cache while a program has the mapping open.
const LONGEST: Duration = Duration::from_secs(60);

/// The file systems that show each use elsewhere, but for the exceptions that kmod/FORMAT.md names.
const TRACED: [&str; 6] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"];

/// How a mapping over a disk that can be unplugged is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// A file system is mounted, or a volume is above the mapping.
    Used,
    /// The last use ended. The cache is stopped when this time comes.
    Left {
        /// When.
        at: Instant,
        /// How long before it the time was set.
        wait: Duration,
    },
}

impl Use {
    fn left(wait: Duration) -> Self {
        Self::Left {
            at: Instant::now() + wait,
            wait,
        }
    }
}

impl Service {
    /// Follows the use of the mapping of a cache.
    pub(super) fn follow_use(self: &Arc<Self>, pair: &Pair, seen: &Seen<'_>) {
        let uuid = &pair.uuid;
        let disk = seen.facts.same_hardware(&pair.origin);
        let is_put_away = {
            let mut inner = self.inner();
            let put_away = inner.put_away.get(uuid);
            let ends = put_away.is_some_and(|put| {
                disk.is_none_or(|disk| !disk.ident.same_device(put) || disk.used_by_others())
            });
            if ends {
                inner.put_away.remove(uuid);
            }
            inner.put_away.contains_key(uuid)
        };
        let device = mapped(seen.facts, pair).filter(|device| {
            let leads = |live| leads_to(live, pair, seen.facts);
            // A disk that fstab names may be used again at any moment, by an automount for example. One on the network may
            // also be used elsewhere at any moment; it is moved to its cache when it is mounted again.
            let stays = |device: &Device| device.used_at_start();
            let goes = |disk: &Device| {
                disk.ident.network || (disk.portable && !stays(disk) && !stays(device))
            };
            !is_put_away && disk.is_some_and(goes) && seen.live.is_some_and(leads)
        });
        let Some(device) = device else {
            self.inner().uses.remove(uuid);
            return;
        };
        let mut inner = self.inner();
        match (inner.uses.get(uuid), device.unused()) {
            (_, false) => {
                inner.uses.insert(uuid.clone(), Use::Used);
            }
            // A mapping that nobody has used yet waits for its first use, but not on the network: udev has read its
            // superblock, which another computer may change now.
            (None, true) if !disk.is_some_and(|disk| disk.ident.network) => {}
            (None | Some(Use::Used), true) => {
                inner.uses.insert(uuid.clone(), Use::left(SETTLES));
                drop(inner);
                self.look_after(SETTLES);
            }
            (Some(Use::Left { .. }), true) => {}
        }
    }

    /// Whether the last use of a disk that can be unplugged ended a while ago.
    pub(super) fn is_left(&self, uuid: &str) -> bool {
        let at = self.inner().uses.get(uuid).copied();
        matches!(at, Some(Use::Left { at, .. }) if at <= Instant::now())
    }

    fn look_after(self: &Arc<Self>, wait: Duration) {
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            this.look_again();
        });
    }

    /// Stops a cache in order, and leaves the plain disk. A program that has the mapping open, such as a check of the file
    /// system, is waited for.
    pub(super) async fn put_away(self: &Arc<Self>, pair: &Pair) -> Result<(), Failure> {
        // A use of other content elsewhere may leave no trace.
        let facts = self.host.facts().await?;
        let content = mapped(&facts, pair).map(|device| device.ident.text.content.as_str());
        if !content.is_some_and(|content| TRACED.contains(&content)) {
            let cold = self.store.change_cache(&pair.uuid, lifecycle::made_cold);
            cold.map_err(|e| Failure::new(Kind::Internal).detail(e))?;
        }
        let stopped = self.host.apply(&Action::Disassemble(pair.clone())).await;
        let mut inner = self.inner();
        if stopped.is_ok() {
            inner.uses.remove(&pair.uuid);
            inner
                .put_away
                .insert(pair.uuid.clone(), pair.origin.clone());
            return Ok(());
        }
        let wait = match inner.uses.get(&pair.uuid) {
            Some(Use::Left { wait, .. }) => (*wait * 2).min(LONGEST),
            _ => LONGEST,
        };
        inner.uses.insert(pair.uuid.clone(), Use::left(wait));
        drop(inner);
        self.look_after(wait);
        stopped
    }

    /// `Cache.Start`.
    pub(crate) async fn start_cache(
        self: &Arc<Self>,
        header: &Header<'_>,
        uuid: &str,
    ) -> Result<(), Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        self.permitted(header, uuid, Permission::Tune).await?;
        let waits = {
            let mut inner = self.inner();
            let was_put_away = inner.put_away.remove(uuid).is_some();
            inner.attempts.forget_failed(uuid, None) || was_put_away
        };
        if !waits {
            return Err(Failure::new(Kind::WrongState));
        }
        self.refresh().await;
        Ok(())
    }
}

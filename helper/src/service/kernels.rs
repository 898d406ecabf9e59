// SPDX-License-Identifier: GPL-3.0-or-later
//! While a kernel that may start next lacks the module, no new data stays on an SSD only: that kernel could not read
//! the data. The record says that write-back is wanted, and write-back goes on when every such kernel has the module.

use super::Service;
use crate::machine::dm::message::{Flush, Message};
use crate::machine::initramfs::is_needed;
use crate::model::record::CacheRecord;
use std::sync::Arc;
use tandem_api::{Failure, Kind, Mode, Target};
use zbus::message::Header;

impl Service {
    /// `Manager.CheckKernels`: the scripts of kernel packages and of DKMS call this.
    pub(crate) async fn check_kernels(
        self: &Arc<Self>,
        header: &Header<'_>,
    ) -> Result<(), Failure> {
        if self.uid(header).await? != 0 {
            return Err(Failure::new(Kind::NotAuthorized).detail("root only"));
        }
        self.look_at_kernels().await;
        // The packages may have changed the reason why the running kernel has no module, or made the key.
        self.look_at_module(true).await?;
        Ok(())
    }

    /// Releases of the kernels that may start next and lack the module.
    pub(crate) fn kernels_without_module(&self) -> Vec<String> {
        self.inner().kernels.clone()
    }

    /// Whether each refresh has to check the kernels: the module may be built meanwhile.
    pub(super) fn waits_for_kernels(&self) -> bool {
        let waits = |record: &CacheRecord| record.waits_for_kernel;
        !self.inner().kernels.is_empty() || self.store.caches().iter().any(waits)
    }

    /// Finds the kernels without the module, signals a change, and sets the modes of the caches accordingly.
    pub(super) async fn look_at_kernels(self: &Arc<Self>) {
        // dm-cache comes with each kernel.
        let caches = self.store.caches();
        let of_kernel = |record: &CacheRecord| record.pair.target == Target::DmCache;
        let now = match !caches.is_empty() && caches.iter().all(of_kernel) {
            true => Vec::new(),
            false => self.host.kernels_without_module().await,
        };
        let before = std::mem::replace(&mut self.inner().kernels, now.clone());
        if let Some(record) = to_be_copied(&before, &now, &caches) {
            self.copy_record(record);
        }
        if before != now {
            tracing::info!("kernels without the module: {now:?}");
            self.tell("the kernels", async |manager, emitter| {
                manager.kernels_without_module_changed(emitter).await
            })
            .await;
        }
        for record in self.store.caches() {
            let Some(mode) = mode_for_kernels(&record, now.is_empty()) else {
                continue;
            };
            if let Err(e) = self.replace_mode(&record, mode).await {
                // The cache is not assembled, or a job works on the cache. The next check tries again.
                tracing::info!(uuid = record.pair.uuid, "cannot set {mode}: {e}");
            }
        }
    }

    async fn replace_mode(
        self: &Arc<Self>,
        record: &CacheRecord,
        mode: Mode,
    ) -> Result<(), Failure> {
        let uuid = record.pair.uuid.as_str();
        let devices = [record.pair.origin.clone(), record.pair.ssd.clone()];
        let reserved = self.reserve(uuid, &devices, true)?;
        let (now, _) = self.working(uuid).await?;
        // The user may have set another mode since the record was read.
        if mode_for_kernels(&now, mode == Mode::Writeback) != Some(mode) {
            return Ok(());
        }
        if mode == Mode::Writeback {
            // A shutdown that did not switch the machine off may have left its flush, and no job works on the cache.
            let stop = Message::Flush(Flush::Stop);
            self.host.send_message(uuid, stop).await?;
        }
        let result = {
            let _alone = self.refreshing.lock().await;
            let waits = mode == Mode::Writethrough;
            self.change_mode(uuid, mode, waits).await
        };
        drop(reserved);
        self.look_again();
        result
    }
}

/// The record that the initial file systems have to get once more. A kernel has got the module since `before`, perhaps
/// after its initial file system was made, which does not put the cache over its disk then.
fn to_be_copied<'a>(
    before: &[String],
    now: &[String],
    records: &'a [CacheRecord],
) -> Option<&'a CacheRecord> {
    let got_it = before.iter().any(|release| !now.contains(release));
    let waits = |record: &&CacheRecord| record.pair.target == Target::Tandem && is_needed(record);
    records.iter().find(waits).filter(|_| got_it)
}

/// The mode that a cache has to get, if that is another than its present mode.
fn mode_for_kernels(record: &CacheRecord, each_has_the_module: bool) -> Option<Mode> {
    match each_has_the_module {
        false => (record.pair.mode == Mode::Writeback).then_some(Mode::Writethrough),
        true => record.waits_for_kernel.then_some(Mode::Writeback),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::action::Pair;

    #[test]
    fn a_module_that_comes_later_gets_into_the_initial_file_system() {
        let of = |target, before: &[&str], now: &[&str], in_initramfs| {
            let all = |list: &[&str]| list.iter().map(|&r| r.to_owned()).collect::<Vec<_>>();
            let pair = Pair {
                target,
                ..Pair::nowhere(Mode::Writethrough)
            };
            let record = CacheRecord::prepared(pair, "boot".into(), in_initramfs);
            to_be_copied(&all(before), &all(now), &[record]).is_some()
        };
        let copied = |before: &[&str], now: &[&str], in_initramfs| {
            of(Target::Tandem, before, now, in_initramfs)
        };
        assert!(copied(&["6.2"], &[], true));
        assert!(copied(&["6.1", "6.2"], &["6.2", "6.3"], true));
        assert!(!copied(&["6.2"], &[], false));
        assert!(!copied(&["6.2"], &["6.2", "6.3"], true));
        assert!(!copied(&[], &["6.2"], true));
        // dm-cache comes with the kernel.
        assert!(!of(Target::DmCache, &["6.2"], &[], true));
    }

    #[test]
    fn write_back_ends_while_a_kernel_lacks_the_module_and_goes_on_afterwards() {
        let of = |mode, waits_for_kernel, each_has_the_module| {
            let record = CacheRecord {
                waits_for_kernel,
                ..CacheRecord::new(Pair::nowhere(mode))
            };
            mode_for_kernels(&record, each_has_the_module)
        };
        for waits in [false, true] {
            assert_eq!(of(Mode::Writeback, waits, false), Some(Mode::Writethrough));
            assert_eq!(of(Mode::Writethrough, waits, false), None);
        }
        assert_eq!(of(Mode::Writethrough, true, true), Some(Mode::Writeback));
        assert_eq!(of(Mode::Writethrough, false, true), None);
        assert_eq!(of(Mode::Writeback, false, true), None);
    }
}

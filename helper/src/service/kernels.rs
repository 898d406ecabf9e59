// SPDX-License-Identifier: GPL-3.0-or-later
//! While a kernel that may start next lacks the module, no new data stays on an SSD only: that kernel could not read
//! the data. The record says that write-back is wanted, and write-back goes on when every such kernel has the module.
//!
//! This file also shows the module of the running kernel, and enrolls the key that signs the module.

use super::Service;
use crate::auth::{self, Permission};
use crate::dm::message::{Flush, Message};
use crate::iface::bounded::Bounded;
use crate::iface::manager::ManagerObject;
use crate::initramfs::is_needed;
use crate::state::CacheRecord;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_api::{
    DeviceText, Failure, Kind, Mode, ModuleProblem, ModuleState, ROOT_PATH, SigningKey,
};
use zbus::message::Header;
use zbus::object_server::InterfaceRef;

/// The kernel module and its key, as the properties of the manager show them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleView {
    pub(crate) state: ModuleState,
    pub(crate) problem: (ModuleProblem, String),
    pub(crate) key: SigningKey,
}

impl Default for ModuleView {
    /// Before the first look. No client sees this view: the service looks at the module before it takes its bus name.
    fn default() -> Self {
        Self {
            state: ModuleState::NotBuilt,
            problem: (ModuleProblem::None, String::new()),
            key: SigningKey::Unknown,
        }
    }
}

/// The problem of a module that is not loaded and its key are read at most so often, if their state stays the same: a
/// user may build the module, or ask for the key, without this service.
const WHOLE_LOOK: Duration = Duration::from_secs(60);

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
        let now = self.engine.kernels_without_module().await;
        let before = std::mem::replace(&mut self.inner().kernels, now.clone());
        if let Some(record) = to_be_copied(&before, &now, &self.store.caches()) {
            self.copy_record(record);
        }
        if before != now {
            tracing::info!("kernels without the module: {now:?}");
            if let Err(e) = self.signal_kernels().await {
                tracing::warn!("cannot signal the kernels: {e}");
            }
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
        let reserved = self.reserve(uuid, devices, true)?;
        let (now, _) = self.working(uuid).await?;
        // The user may have set another mode since the record was read.
        if mode_for_kernels(&now, mode == Mode::Writeback) != Some(mode) {
            return Ok(());
        }
        if mode == Mode::Writeback {
            // A shutdown that did not switch the machine off may have left its flush, and no job works on the cache.
            let stop = Message::Flush(Flush::Stop);
            self.engine.send_message(uuid, stop).await?;
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

    /// `Manager.EnrollKey`.
    pub(crate) async fn enroll_key(
        &self,
        header: &Header<'_>,
        password: &str,
    ) -> Result<(), Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        let typable = password.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
        if !typable || !(8..=256).contains(&password.len()) {
            return Err(Failure::new(Kind::InvalidArgument).name("password"));
        }
        let nothing = DeviceText::none();
        let enroll = Permission::EnrollKey;
        auth::check(&self.connection, header, enroll, &nothing, &nothing).await?;
        let key = self.engine.signing_key().await;
        if key != SigningKey::NotEnrolled {
            self.look_at_module(true).await?;
            return Err(Failure::new(Kind::WrongState).name(key.as_str()));
        }
        self.engine.enroll_key(password).await?;
        self.look_at_module(true).await?;
        Ok(())
    }

    /// The module as the last look has found it.
    pub(crate) fn shown_module(&self) -> ModuleView {
        self.inner().module.clone()
    }

    /// Reads the state of the module, and signals each property that has changed. The problem and the key are read only
    /// if the state is another one, if the last time is long ago, or if `whole` asks for them: to read them takes a run
    /// of mokutil and the logs of DKMS, and a refresh comes up to five times a second.
    pub(super) async fn look_at_module(&self, whole: bool) -> zbus::Result<()> {
        let mut looked = self.module.lock().await;
        let state = self.engine.module_state().await;
        let is_old = |at: Instant| state != ModuleState::Loaded && at.elapsed() >= WHOLE_LOOK;
        let before = self.shown_module();
        if !whole && before.state == state && looked.is_some_and(|at| !is_old(at)) {
            return Ok(());
        }
        let now = ModuleView {
            state,
            problem: self.engine.module_problem().await,
            key: self.engine.signing_key().await,
        };
        let first = looked.replace(Instant::now()).is_none();
        self.inner().module = now.clone();
        let manager = self.manager().await?;
        let (object, emitter) = (manager.get().await, manager.signal_emitter());
        if first || before.problem != now.problem {
            object.module_problem_changed(emitter).await?;
        }
        if first || before.key != now.key {
            object.signing_key_changed(emitter).await?;
        }
        if first || before.state != now.state {
            object.module_state_changed(emitter).await?;
        }
        Ok(())
    }

    async fn signal_kernels(&self) -> zbus::Result<()> {
        let manager = self.manager().await?;
        manager
            .get()
            .await
            .kernels_without_module_changed(manager.signal_emitter())
            .await
    }

    pub(super) async fn manager(&self) -> zbus::Result<InterfaceRef<Bounded<ManagerObject>>> {
        self.connection.object_server().interface(ROOT_PATH).await
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
    records.iter().find(|record| got_it && is_needed(record))
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
    use crate::action::Pair;

    #[test]
    fn a_module_that_comes_later_gets_into_the_initial_file_system() {
        let prepared = |in_initramfs| {
            let pair = Pair::nowhere(Mode::Writethrough);
            CacheRecord::prepared(pair, "boot".into(), in_initramfs)
        };
        let copied = |before: &[&str], now: &[&str], in_initramfs| {
            let all = |list: &[&str]| list.iter().map(|&r| r.to_owned()).collect::<Vec<_>>();
            to_be_copied(&all(before), &all(now), &[prepared(in_initramfs)]).is_some()
        };
        assert!(copied(&["6.2"], &[], true));
        assert!(copied(&["6.1", "6.2"], &["6.2", "6.3"], true));
        assert!(!copied(&["6.2"], &[], false));
        assert!(!copied(&["6.2"], &["6.2", "6.3"], true));
        assert!(!copied(&[], &["6.2"], true));
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

// SPDX-License-Identifier: GPL-3.0-or-later
//! The module of the running kernel, and the key that signs the module.

use super::Service;
use crate::service::auth::{self, Permission};
use std::time::{Duration, Instant};
use tandem_api::{DeviceText, Failure, Kind, ModuleProblem, ModuleState, SigningKey};
use zbus::message::Header;

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
        let key = self.host.signing_key().await;
        if key != SigningKey::NotEnrolled {
            self.look_at_module(true).await?;
            return Err(Failure::new(Kind::WrongState).name(key.as_str()));
        }
        self.host.enroll_key(password).await?;
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
        let state = self.host.module_state().await;
        let is_old = |at: Instant| state != ModuleState::Loaded && at.elapsed() >= WHOLE_LOOK;
        let before = self.shown_module();
        if !whole && before.state == state && looked.is_some_and(|at| !is_old(at)) {
            return Ok(());
        }
        let now = ModuleView {
            state,
            problem: self.host.module_problem().await,
            key: self.host.signing_key().await,
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
}

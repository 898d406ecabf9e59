// SPDX-License-Identifier: GPL-3.0-or-later
//! A host that dies in one of its calls, or that fails in another way.

use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tandem_api::*;
use tandem_helper::host::traits::{Computer, Disks, Mappings, Memory, Module, Observing, Others};
use tandem_helper::machine::dm::message::Message;
use tandem_helper::model::action::Action;
use tandem_helper::model::facts::{Device, Facts};
use tandem_helper::model::live::{LiveMapping, Status};
use tandem_simulated::{Simulated, World};

/// A host that dies before or after one call of [`Mappings::apply`].
pub struct Mortal {
    inner: Simulated,
    calls: AtomicUsize,
    dies_at: usize,
    after: bool,
    died: tokio::sync::Notify,
    /// The state of a mapping that is in force and does not run. Such a mapping reports no dirty data.
    silent: Option<CacheState>,
    /// A step that takes effect and then reports a failure.
    half: Option<StepKind>,
    /// Runs at the call instead of the death.
    then: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Mortal {
    /// A host that runs `then` after the call with the number `call`, and does not die.
    pub fn immortal(
        world: &Arc<World>,
        call: usize,
        then: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            then: Some(Box::new(then)),
            ..Self::new(world, call, true)
        }
    }

    /// A host that does not die, and whose mapping is in force and has not started.
    pub fn not_started(world: &Arc<World>) -> Self {
        Self {
            silent: Some(CacheState::Suspended),
            ..Self::new(world, usize::MAX, true)
        }
    }

    /// A host that does not die, and on which a step takes effect and then reports a failure.
    pub fn failing_late(world: &Arc<World>, half: StepKind) -> Self {
        Self {
            half: Some(half),
            ..Self::new(world, usize::MAX, true)
        }
    }

    /// Runs a job until its end or until the host dies. Returns whether the host died.
    pub async fn until_death<T>(&self, job: impl Future<Output = T>) -> bool {
        tokio::select! {
            _ = job => false,
            () = self.died.notified() => true,
        }
    }

    async fn die(&self) {
        if let Some(then) = &self.then {
            return then();
        }
        self.died.notify_one();
        std::future::pending::<()>().await;
    }

    /// A host that dies at the call with the number `dies_at`: before the call takes effect, or `after` it.
    pub fn new(world: &Arc<World>, dies_at: usize, after: bool) -> Self {
        Self {
            inner: Simulated::new(world.clone()),
            calls: AtomicUsize::new(0),
            dies_at,
            after,
            died: tokio::sync::Notify::new(),
            silent: None,
            half: None,
            then: None,
        }
    }
}

#[async_trait]
impl Computer for Mortal {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn boot_id(&self) -> String {
        self.inner.boot_id()
    }
    async fn changed(&self) {
        self.inner.changed().await;
    }
}

#[async_trait]
impl Module for Mortal {
    fn kernel(&self) -> String {
        self.inner.kernel()
    }
    async fn module_state(&self) -> ModuleState {
        self.inner.module_state().await
    }
}

#[async_trait]
impl Disks for Mortal {
    async fn facts(&self) -> Result<Facts, Failure> {
        self.inner.facts().await
    }
    async fn blank(&self, device: &Device) -> Result<bool, Failure> {
        self.inner.blank(device).await
    }
    async fn claimed(&self, device: &Device) -> Result<bool, Failure> {
        self.inner.claimed(device).await
    }
    async fn users(&self, device: &Device) -> Vec<FileUser> {
        self.inner.users(device).await
    }
}

#[async_trait]
impl Mappings for Mortal {
    async fn apply(&self, action: &Action) -> Result<(), Failure> {
        let dies = self.calls.fetch_add(1, Ordering::SeqCst) == self.dies_at;
        if dies && !self.after {
            self.die().await;
        }
        let result = self.inner.apply(action).await;
        if dies {
            self.die().await;
        }
        if self.half == Some(action.kind()) {
            return Err(Failure::new(Kind::StepFailed));
        }
        result
    }
    async fn send_message(&self, uuid: &str, message: Message) -> Result<(), Failure> {
        self.inner.send_message(uuid, message).await
    }
    async fn live_mappings(&self) -> Result<Vec<LiveMapping>, Failure> {
        self.inner.live_mappings().await
    }
    async fn status(&self, uuid: &str) -> Result<Status, Failure> {
        let mut status = self.inner.status(uuid).await?;
        if let Some(state) = self.silent {
            status.state = state.as_str().to_owned();
            status.sample.dirty_sectors = 0;
        }
        Ok(status)
    }
}

#[async_trait]
impl Observing for Mortal {}

#[async_trait]
impl Others for Mortal {}

impl Memory for Mortal {}

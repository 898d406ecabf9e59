// SPDX-License-Identifier: GPL-3.0-or-later
//! A host for tests of the parts of the service that need no machine.

use crate::host::traits::{Computer, Disks, Mappings, Memory, Module, Observing, Others};
use crate::machine::dm::message::Message;
use crate::model::action::Action;
use crate::model::facts::{Device, Facts};
use crate::model::live::{LiveMapping, Status};
use tandem_api::{Failure, FileUser, Kind, ModuleState};

/// What the module answers to a message.
type Answer = dyn Fn(Message) -> Result<(), Failure> + Send + Sync;

/// A host without devices. The module answers messages, and nothing else is done.
pub(crate) struct NoEngine(Box<Answer>);

impl NoEngine {
    /// The module answers this.
    pub(crate) fn answers(
        answer: impl Fn(Message) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(answer))
    }

    /// There is no module either.
    pub(crate) fn mute() -> Self {
        Self::answers(|_| Err(Failure::new(Kind::Internal)))
    }
}

#[async_trait::async_trait]
impl Computer for NoEngine {
    fn name(&self) -> &'static str {
        "none"
    }

    fn boot_id(&self) -> String {
        String::new()
    }

    async fn changed(&self) {}
}

#[async_trait::async_trait]
impl Module for NoEngine {
    fn kernel(&self) -> String {
        String::new()
    }

    async fn module_state(&self) -> ModuleState {
        ModuleState::NotBuilt
    }
}

#[async_trait::async_trait]
impl Disks for NoEngine {
    async fn facts(&self) -> Result<Facts, Failure> {
        Err(Failure::new(Kind::Internal))
    }

    async fn blank(&self, _: &Device) -> Result<bool, Failure> {
        Err(Failure::new(Kind::Internal))
    }

    async fn claimed(&self, _: &Device) -> Result<bool, Failure> {
        Err(Failure::new(Kind::Internal))
    }

    async fn users(&self, _: &Device) -> Vec<FileUser> {
        Vec::new()
    }
}

#[async_trait::async_trait]
impl Mappings for NoEngine {
    async fn apply(&self, _: &Action) -> Result<(), Failure> {
        Err(Failure::new(Kind::Internal))
    }

    async fn send_message(&self, _: &str, message: Message) -> Result<(), Failure> {
        (self.0)(message)
    }

    async fn live_mappings(&self) -> Result<Vec<LiveMapping>, Failure> {
        Ok(Vec::new())
    }

    async fn status(&self, _: &str) -> Result<Status, Failure> {
        Err(Failure::new(Kind::Internal))
    }
}

#[async_trait::async_trait]
impl Observing for NoEngine {}

#[async_trait::async_trait]
impl Others for NoEngine {}

impl Memory for NoEngine {}

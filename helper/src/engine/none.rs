// SPDX-License-Identifier: GPL-3.0-or-later
//! An engine for tests of the parts of the service that need no machine.

use super::{Engine, LiveMapping, Status};
use crate::action::Action;
use crate::dm::message::Message;
use crate::facts::{Device, Facts};
use tandem_api::{Failure, FileUser, Kind, ModuleState};

/// What the module answers to a message.
type Answer = dyn Fn(Message) -> Result<(), Failure> + Send + Sync;

/// An engine without devices. The module answers messages, and nothing else is done.
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
impl Engine for NoEngine {
    fn name(&self) -> &'static str {
        "none"
    }

    fn kernel(&self) -> String {
        String::new()
    }

    fn boot_id(&self) -> String {
        String::new()
    }

    async fn module_state(&self) -> ModuleState {
        ModuleState::NotBuilt
    }

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

    async fn changed(&self) {}
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The mappings over disks: the steps of a plan, and what the module says of a cache.

use crate::machine::dm::message::Message;
use crate::model::action::{Action, Pair};
use crate::model::live::{LiveMapping, Status};
use async_trait::async_trait;
use std::time::Duration;
use tandem_api::{Failure, Kind};

/// All changes of a cache go through this trait.
#[async_trait]
pub trait Mappings: Send + Sync + 'static {
    /// Makes one change. Idempotent. On an error the change was not made, or the undo of the action undoes it.
    async fn apply(&self, action: &Action) -> Result<(), Failure>;

    /// Mounts what the start of the machine left out because this cache was not there. This may take as long as a
    /// check of a file system, and nothing depends on it.
    async fn mount_left_out(&self, _pair: &Pair) {}

    /// Whether the disk of a cache (by UUID) is to be held by udev's program should the disk come back as another device.
    fn hold_at_return(&self, _uuid: &str, _hold: bool) {}

    /// Sends a message to an attached mapping. Idempotent.
    async fn send_message(&self, uuid: &str, message: Message) -> Result<(), Failure>;

    /// Makes an attached mapping longer, after its disk has grown. The file system above goes on.
    async fn grow(&self, _uuid: &str, _sectors: u64) -> Result<(), Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// Our mappings.
    async fn live_mappings(&self) -> Result<Vec<LiveMapping>, Failure>;

    /// State and counters of an attached mapping.
    async fn status(&self, uuid: &str) -> Result<Status, Failure>;

    /// How long a drain may make no progress. The module repeats a refused write for ever; if the dirty data does not
    /// become less in this time, the disk is at fault. Some disks take half a minute for each answer.
    fn stall_limit(&self) -> Duration {
        Duration::from_secs(120)
    }
}

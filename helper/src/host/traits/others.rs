// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches that other systems have made.

use crate::model::facts::Facts;
use crate::model::other_reading::OtherSeen;
use crate::model::removal::{OtherProgress, OtherRemoval};
use async_trait::async_trait;
use std::sync::Arc;
use tandem_api::{Failure, Kind};

/// The caches that the machine has of other systems, and their removals. A removal goes on, or stays as it is, when the service ends.
#[async_trait]
pub trait Others: Send + Sync + 'static {
    /// The caches that other systems have made, with their counters.
    async fn other_caches(&self, _facts: Arc<Facts>) -> Vec<OtherSeen> {
        Vec::new()
    }

    /// Begins a removal, if it has not begun already.
    async fn begin_removal(&self, _removal: &OtherRemoval) -> Result<(), Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// How far a removal is that has begun. The removal goes on only while this is asked from time to time.
    async fn removal_progress(&self, _removal: &OtherRemoval) -> Result<OtherProgress, Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// Asks to cancel a removal. That may take half a minute, or the removal ends all the same.
    async fn stop_removal(&self, _removal: &OtherRemoval) -> Result<(), Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// Forgets a removal that has ended.
    async fn forget_removal(&self, _removal: &OtherRemoval) {}

    /// The removals that an earlier process of the service has begun and not forgotten.
    async fn begun_removals(&self) -> Vec<OtherRemoval> {
        Vec::new()
    }

    /// Forgets what was to be put back at caches that are removed by now: of those caches that outlive a start and whose ids are
    /// not among these. Returns whether something is still to be put back.
    async fn forget_modes_of_none(&self, _there: &[String]) -> bool {
        false
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! LVM, which removes the caches that it has made.

use crate::model::lvm::{LvmProgress, LvmRemoval};
use async_trait::async_trait;
use tandem_api::{Failure, Kind};

/// Removals that LVM makes. LVM goes on with a removal when the service ends.
#[async_trait]
pub trait Lvm: Send + Sync + 'static {
    /// Has LVM begin a removal, if it is not at it already.
    async fn begin_removal(&self, _removal: &LvmRemoval) -> Result<(), Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// How far LVM is with a removal that has begun.
    async fn removal_progress(&self, _removal: &LvmRemoval) -> Result<LvmProgress, Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// Asks LVM to stop. LVM may take half a minute for it, or end the removal all the same.
    async fn stop_removal(&self, _removal: &LvmRemoval) -> Result<(), Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// Forgets a removal that has ended.
    async fn forget_removal(&self, _removal: &LvmRemoval) {}

    /// The removals that an earlier process of the service has begun and not forgotten.
    async fn begun_removals(&self) -> Vec<LvmRemoval> {
        Vec::new()
    }
}

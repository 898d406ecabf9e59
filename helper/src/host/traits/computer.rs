// SPDX-License-Identifier: GPL-3.0-or-later
//! The computer as a whole: one boot of it, what it starts and stops, and when to look again.

use async_trait::async_trait;
use tandem_api::{Failure, Kind, NameChange};

/// What concerns no single disk or cache.
#[async_trait]
pub trait Computer: Send + Sync + 'static {
    /// Name for `Manager.Engine`.
    fn name(&self) -> &'static str;

    /// The id of this boot; each start of the machine has another one.
    fn boot_id(&self) -> String;

    /// Returns when devices, mounts or mappings may have changed since the last return.
    async fn changed(&self);

    /// Makes changes in a file by which the start finds a disk, all of them or none. Returns the path of the file of
    /// before.
    async fn change_names(&self, _changes: &[NameChange]) -> Result<String, Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// Has the next shutdown write back what the records ask for, and note the disks that dm-cache serves: see [`crate::start::shutdown`]
    /// and [`crate::start::kernel_caches`].
    async fn drain_at_shutdown(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Tells the machine whether it may hibernate now.
    async fn tell_sleep(&self) {}
}

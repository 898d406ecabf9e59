// SPDX-License-Identifier: GPL-3.0-or-later
//! The interface through which the service uses a machine. Tests run the service on a simulated machine
//! (`helper/sim`).

pub mod device_mapper;
#[cfg(test)]
pub(crate) mod none;

use crate::action::{Action, Pair};
use crate::dm::message::Message;
use crate::facts::{Device, Facts};
use crate::speed::{Pass, Work};
use crate::watch::Requests;
use async_trait::async_trait;
use std::time::Duration;
use tandem_api::{
    CacheState, Failure, FileUser, Kind, Mode, ModuleProblem, ModuleState, NameChange, Sample,
    SigningKey,
};

/// One of our mappings as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveMapping {
    /// 32 hex digits.
    pub uuid: String,
    /// The mapping uses its SSD; otherwise it only passes through.
    pub attached: bool,
    /// Number (`major:minor`) of the disk that it leads to.
    pub origin: String,
    /// Number of its SSD; empty if it only passes through.
    pub ssd: String,
    /// Its length.
    pub sectors: u64,
}

/// What the kernel says of an attached mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// `active`, `bypass`, `suspended`.
    pub state: String,
    /// A word, or empty.
    pub reason: String,
    /// How writes are treated.
    pub mode: Mode,
    /// The counters.
    pub sample: Sample,
}

impl Status {
    /// The state. A state that only a newer module knows counts as a bypass.
    pub fn known_state(&self) -> CacheState {
        self.state.parse().unwrap_or_else(|e| {
            tracing::warn!("state of the module: {e}");
            CacheState::Bypass
        })
    }

    /// Whether the counters are valid. If a table came into force and did not start, the module has not read from the
    /// SSD which data is there only.
    pub fn counters_valid(&self) -> bool {
        let valid = [CacheState::Active, CacheState::Bypass];
        valid.iter().any(|state| self.state == state.as_str())
    }
}

/// A machine with disks and a kernel.
///
/// A caller may hold no lock that another of its calls needs while it calls a method: the methods wait for hardware
/// and for other services.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Name for `Manager.Engine`.
    fn name(&self) -> &'static str;

    /// Release of the running kernel.
    fn kernel(&self) -> String;

    /// The id of this boot; each start of the machine has another one.
    fn boot_id(&self) -> String;

    /// Whether the kernel can run a cache.
    async fn module_state(&self) -> ModuleState;

    /// Why the kernel cannot run a cache.
    async fn module_problem(&self) -> (ModuleProblem, String) {
        (ModuleProblem::None, String::new())
    }

    /// State of the key that DKMS signs modules with.
    async fn signing_key(&self) -> SigningKey {
        SigningKey::NotNeeded
    }

    /// Has the firmware ask whether to trust that key.
    async fn enroll_key(&self, _password: &str) -> Result<(), Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// Makes changes in a file by which the start finds a disk, all of them or none. Returns the path of the file of
    /// before.
    async fn change_names(&self, _changes: &[NameChange]) -> Result<String, Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// Releases of the kernels that may start next and have no module.
    async fn kernels_without_module(&self) -> Vec<String> {
        Vec::new()
    }

    /// All block devices as they are now.
    async fn facts(&self) -> Result<Facts, Failure>;

    /// Whether only zeroes are found on a device. For a device without a known signature.
    async fn blank(&self, device: &Device) -> Result<bool, Failure>;

    /// Whether a program has a device open exclusively that is neither mounted nor held by a volume.
    async fn claimed(&self, device: &Device) -> Result<bool, Failure>;

    /// The share of its life that the drive of a device has used, in percent; `None` if the drive does not tell. For a
    /// device with a known [`Device::health`]. An error: the drive cannot be asked now.
    async fn used_percent(&self, _device: &Device) -> Result<Option<i32>, Failure> {
        Ok(None)
    }

    /// The programs that keep the file system of this device busy.
    async fn users(&self, device: &Device) -> Vec<FileUser>;

    /// Makes one change. Idempotent. On an error the change was not made, or the undo of the action undoes it.
    async fn apply(&self, action: &Action) -> Result<(), Failure>;

    /// Mounts what the start of the machine left out because this cache was not there. This may take as long as a
    /// check of a file system, and nothing depends on it.
    async fn mount_left_out(&self, _pair: &Pair) {}

    /// Whether the disk of a cache (by UUID) is to be held by udev's program should the disk come back as another device.
    fn hold_at_return(&self, _uuid: &str, _hold: bool) {}

    /// Sends a message to an attached mapping. Idempotent.
    async fn send_message(&self, uuid: &str, message: Message) -> Result<(), Failure>;

    /// Has the next shutdown write back what the records ask for: see [`crate::shutdown`].
    async fn drain_at_shutdown(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Makes an attached mapping longer, after its disk has grown. The file system above goes on.
    async fn grow(&self, _uuid: &str, _sectors: u64) -> Result<(), Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// Our mappings.
    async fn live_mappings(&self) -> Result<Vec<LiveMapping>, Failure>;

    /// State and counters of an attached mapping.
    async fn status(&self, uuid: &str) -> Result<Status, Failure>;

    /// Makes the reads of a pass of a speed test, and returns how long each took. If the future is dropped, the reads end
    /// after the one in progress.
    async fn timed_reads(&self, _device: &Device, _pass: &Pass) -> Result<Vec<Duration>, Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// What the drives below a device have done so far, for all programs; `None` if the kernel does not tell.
    async fn disk_work(&self, _device: &Device) -> Option<Work> {
        None
    }

    /// Begins to get the requests of all programs to a device. They end when the result is dropped.
    async fn requests(&self, _device: &Device) -> Result<Box<dyn Requests>, Failure> {
        Err(Failure::new(Kind::WrongState))
    }

    /// Tells the machine whether it may hibernate now.
    async fn tell_sleep(&self) {}

    /// Returns when devices, mounts or mappings may have changed since the last return.
    async fn changed(&self);

    /// Time from one sample to the next of a cache that is watched.
    fn sample_period(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// How long a drain may make no progress. The module repeats a refused write for ever; if the dirty data does not
    /// become less in this time, the disk is at fault. Some disks take half a minute for each answer.
    fn stall_limit(&self) -> Duration {
        Duration::from_secs(120)
    }
}

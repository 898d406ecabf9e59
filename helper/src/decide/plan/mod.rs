// SPDX-License-Identifier: GPL-3.0-or-later
//! Makes a plan from a request and the facts: exact steps, or the reason of a refusal. Pure functions.

mod checks;
mod create;
mod judge;
mod memory;
mod modes;
mod other;
mod partition;
mod plain;
mod remove;
mod resize;
mod size;
#[cfg(test)]
pub(crate) mod tests;

use crate::model::action::{MountDevice, Pair};
use crate::model::facts::{Device, Facts, Ident, Mount};
pub use checks::misses_cache;
pub use create::{create, find, needs_ssd_content};
pub use judge::judge;
pub use modes::{offered, refused_modes};
pub use other::end_other;
pub use partition::layout;
pub use remove::{RemoveInput, Unwritten, remove};
pub use resize::{ResizeInput, resize};

use crate::model::action::Action;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tandem_api::{DeviceText, JobKind, PlanReply, Warning};

/// Least size of an SSD, in bytes. On a smaller SSD the fixed part of the format takes a noticeable share.
pub const MINIMUM_SSD_BYTES: u64 = 64 << 20;
/// Least size of a disk, in bytes. The kernel soon keeps the whole content of a smaller disk in memory.
pub const MINIMUM_ORIGIN_BYTES: u64 = 16 << 20;
/// Seconds in which a plan can be executed.
pub const VALID_SECONDS: u32 = 600;

/// A plan as the service keeps it: the reply to the client, and the actions.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The kind of the job.
    pub kind: JobKind,
    /// UUID of the cache.
    pub uuid: String,
    /// The actions, one for each step of the reply.
    pub actions: Vec<Action>,
    /// The plan discards dirty data.
    pub discards: bool,
    /// The content of the devices of a new cache. If the content is another one at the execution, the devices were
    /// formatted or partitioned since. Empty for other plans.
    pub contents: Vec<Content>,
    /// The reply to the client. `plan_id` is empty until the service keeps the plan.
    pub reply: PlanReply,
}

/// The content of one device or partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    ident: Ident,
    partitioned: bool,
    usage: String,
    uuid: String,
}

impl Content {
    fn of(device: &Device) -> Self {
        Self {
            ident: device.ident.clone(),
            partitioned: device.partitioned,
            usage: device.usage.clone(),
            uuid: device.content_uuid.clone(),
        }
    }
}

impl Plan {
    fn new(
        kind: JobKind,
        uuid: &str,
        actions: Vec<Action>,
        warnings: Vec<Warning>,
        of: Subject<'_>,
    ) -> Self {
        let room = size::CacheSpace::new(of.ssd.size, of.origin.size);
        let mut reply = PlanReply {
            plan_id: String::new(),
            digest: String::new(),
            steps: Action::steps(&actions, room.cache_bytes(), of.dirty_bytes),
            warnings,
            origin: of.origin.clone(),
            ssd: of.ssd.clone(),
            mode: of.mode,
            refused_modes: of.refused_modes,
            at_next_start: actions.iter().any(|a| matches!(a, Action::Prepare(_))),
            mount_points: of.mount_points,
            cache_bytes: room.cache_bytes(),
            memory_bytes: room.memory_bytes(),
            valid_seconds: VALID_SECONDS,
        };
        reply.digest = digest(&reply, &actions);
        Self {
            kind,
            uuid: uuid.to_owned(),
            actions,
            discards: false,
            contents: Vec::new(),
            reply,
        }
    }

    /// Whether this plan has the same actions as `other`. Users of the file system and other warnings may differ.
    pub fn does_the_same(&self, other: &Self) -> bool {
        self.actions == other.actions
            && self.discards == other.discards
            && self.contents == other.contents
    }

    /// Whether the plan erases old content.
    pub fn erases(&self) -> bool {
        self.actions.iter().any(|a| matches!(a, Action::Erase(_)))
    }
}

/// The plan that assembles a recorded cache over a disk that is mounted meanwhile at these places. The service does
/// this by itself after a start of the machine, if no program uses the disk.
pub fn assemble(pair: &Pair, mounts: &[Mount]) -> Plan {
    let plain = MountDevice::Origin(Box::new(pair.origin.clone()));
    let mapped = MountDevice::Mapping(Box::new(pair.clone()));
    let mut actions = pair.module_loaded();
    actions.extend(
        mounts
            .iter()
            .rev()
            .map(|m| Action::Unmount(plain.clone(), m.clone())),
    );
    actions.push(Action::Assemble(pair.clone()));
    actions.extend(
        mounts
            .iter()
            .map(|m| Action::Mount(mapped.clone(), m.clone())),
    );
    let subject = Subject {
        origin: &pair.origin.text,
        ssd: &pair.ssd.text,
        mode: pair.mode,
        refused_modes: Vec::new(),
        dirty_bytes: 0,
        mount_points: mounts.iter().map(|m| m.point.clone()).collect(),
    };
    Plan::new(JobKind::Create, &pair.uuid, actions, Vec::new(), subject)
}

/// The plan that writes the dirty data of a cache to the disk.
pub fn flush(pair: &Pair, dirty_bytes: u64, mount_points: Vec<String>) -> Plan {
    let subject = Subject {
        origin: &pair.origin.text,
        ssd: &pair.ssd.text,
        mode: pair.mode,
        refused_modes: Vec::new(),
        dirty_bytes,
        mount_points,
    };
    let actions = vec![Action::Drain(pair.clone())];
    Plan::new(JobKind::Flush, &pair.uuid, actions, Vec::new(), subject)
}

/// Checks that the mounts of a disk can be made again at the same mount points.
///
/// # Errors
/// The first mount that cannot be made again.
pub fn mounts_come_back(device: &Device) -> Result<(), tandem_api::Failure> {
    checks::mounts(device)
}

/// Checks that reads of a device say what a disk alone does.
///
/// # Errors
/// The reason why not.
pub fn readable_alone(device: &Device) -> Result<(), tandem_api::Failure> {
    checks::reads(device)
}

/// Checks that a disk can be watched, to predict what a cache would do.
///
/// # Errors
/// The reason why not.
pub fn watchable(
    device: &Device,
    facts: &Facts,
    caches: &[Pair],
) -> Result<(), tandem_api::Failure> {
    checks::watched(device, facts, caches)
}

/// The disk, the SSD and the sizes of a plan.
struct Subject<'a> {
    origin: &'a DeviceText,
    ssd: &'a DeviceText,
    mode: tandem_api::Mode,
    refused_modes: Vec<tandem_api::RefusedMode>,
    dirty_bytes: u64,
    mount_points: Vec<String>,
}

/// SHA-256 over the reply and the actions.
fn digest(reply: &PlanReply, actions: &[Action]) -> String {
    #[derive(Serialize)]
    struct All<'a>(&'a PlanReply, &'a [Action]);
    // Serialising plain values to memory cannot fail; an empty text would only make plans with
    // different content share a digest, and execution compares the actions anyway.
    let text = serde_json::to_vec(&All(reply, actions)).unwrap_or_default();
    crate::hex(&Sha256::digest(&text))
}

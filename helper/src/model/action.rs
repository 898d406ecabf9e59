// SPDX-License-Identifier: GPL-3.0-or-later
//! The smallest changes that a host makes. Each describes itself so completely that another process can repeat or
//! undo it after a crash.

use crate::model::facts::{Ident, Mount};
use serde::{Deserialize, Serialize};
use tandem_api::{DeviceText, DirtyLimit, Mode, Step, StepKind, Target};

/// A cache: which devices, and how they are joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// 32 hex digits.
    pub uuid: String,
    /// The disk.
    pub origin: Ident,
    /// The SSD.
    pub ssd: Ident,
    /// Identity of the disk for the module, hex.
    pub origin_id: String,
    /// How writes are treated.
    pub mode: Mode,
    /// The disk was written without the cache since then: the clean copies on the SSD are worthless.
    #[serde(default, rename = "cold")]
    pub copies_stale: bool,
    /// Generation of the cache when it lost its SSD and went on without it. Then nothing on the SSD counts any more,
    /// not even data that the SSD calls dirty. The module ignores this value if the cache has another generation. 0:
    /// no loss.
    #[serde(default, rename = "lost")]
    pub lost_generation: u64,
    /// How much data may be on the SSD only. Records of earlier versions leave out what was a new cache's limit then.
    #[serde(default = "limit_of_before")]
    pub dirty_limit: DirtyLimit,
    /// The service made the SSD's partition for this cache, and deletes it with the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<Box<Partition>>,
    /// The target that serves the cache. Records of earlier versions know dm-tandem only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub target: Target,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_default(target: &Target) -> bool {
    *target == Target::default()
}

/// The limit of a new cache before it became ten minutes: nobody has more at risk by an upgrade alone.
fn limit_of_before() -> DirtyLimit {
    DirtyLimit {
        seconds: 30,
        ..DirtyLimit::default()
    }
}

/// A partition that the service makes for a cache in the free space of an SSD. It is recognized by the name and the
/// type that the service gives it: its UUID is known only after it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// The whole SSD.
    pub disk: Ident,
    /// First byte, a multiple of 1 MiB.
    pub start: u64,
    /// Size in bytes, a multiple of 1 MiB.
    pub size: u64,
    /// The SSD has no partition table: the table is made with the partition, and removed with it if no other partition
    /// is left.
    pub new_table: bool,
}

/// The type of the partitions that the service makes, in lower case. No other system knows the type, so none offers to
/// mount or format such a partition.
pub const PARTITION_TYPE: &str = "a1f0c3d7-5b1e-4c7a-9d64-74616e64656d";

impl Pair {
    /// Devices that do not exist.
    #[cfg(test)]
    pub fn nowhere(mode: Mode) -> Self {
        let ident = Ident::default();
        Self {
            uuid: "ab".repeat(16),
            origin: ident.clone(),
            ssd: ident,
            origin_id: String::new(),
            mode,
            copies_stale: false,
            lost_generation: 0,
            dirty_limit: DirtyLimit::default(),
            partition: None,
            target: Target::Tandem,
        }
    }

    /// Whether the cache forgets its clean copies when it is put over this disk. A disk on the network may have been
    /// written by another computer at any moment before that, and not every such write leaves a trace.
    pub fn starts_cold(&self, disk: &Ident) -> bool {
        self.copies_stale || disk.network
    }

    /// What has the target of the cache in the kernel. The kernel loads dm-cache by itself when a table names the target.
    pub fn module_loaded(&self) -> Vec<Action> {
        match self.target {
            Target::Tandem => vec![Action::LoadModule],
            Target::DmCache => Vec::new(),
        }
    }

    /// Name of the partition that the service makes for this cache. GPT allows 36 characters.
    pub fn partition_name(&self) -> String {
        format!("Tandem cache {}", self.uuid.get(..16).unwrap_or(&self.uuid))
    }

    /// The same cache with so many bytes of its SSD, in its place.
    pub fn resized(&self, bytes: u64) -> Self {
        let mut pair = self.clone();
        pair.ssd.text.size = bytes;
        if let Some(made) = &mut pair.partition {
            made.size = bytes;
        }
        pair
    }

    /// Name below `/dev/mapper`.
    pub fn name(&self) -> String {
        mapping_name(&self.uuid)
    }

    /// UUID of the mapping in device-mapper.
    pub fn dm_uuid(&self) -> String {
        format!("{DM_UUID_PREFIX}{}", self.uuid)
    }
}

/// What the UUIDs of our mappings begin with.
pub const DM_UUID_PREFIX: &str = "TANDEM-";

/// Name below `/dev/mapper` of the cache with this uuid.
pub fn mapping_name(uuid: &str) -> String {
    format!("tandem-{}", uuid.get(..8).unwrap_or(uuid))
}

/// The block device that a mount uses: the disk itself or its mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountDevice {
    /// The disk itself.
    #[serde(rename = "Plain")]
    Origin(Box<Ident>),
    /// The disk through its mapping.
    #[serde(rename = "Mapped")]
    Mapping(Box<Pair>),
}

/// A change. Every change is idempotent: a job that was killed in the middle of a change can do or undo it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Have the kernel module loaded.
    LoadModule,
    /// Have `mount` not mounted.
    Unmount(MountDevice, Mount),
    /// Have `mount` mounted.
    Mount(MountDevice, Mount),
    /// Wipe what is on the SSD.
    Erase(Ident),
    /// Have the empty partition of the pair on its SSD. Until then the pair's `ssd` is not the identity of a device.
    CreatePartition(Pair),
    /// Have the cache mapped, with a new format on the SSD.
    Map(Pair),
    /// Have the format of the cache on the SSD, without its disk, which is in use: the next start of the machine maps
    /// the cache.
    Prepare(Pair),
    /// Have the initial file systems made anew, with the records of the caches that the root file system needs.
    UpdateInitramfs(DeviceText),
    /// Have the cache mapped, with the format that is on the SSD. No step of a plan: it is what the
    /// service does by itself after a start of the machine.
    Assemble(Pair),
    /// Let writes wait on the SSD (write-back). It has no undo of its own: the undo of the mapping covers it, while
    /// no data is on the SSD only.
    EnableWriteback(Pair),
    /// Write back all data that is on the SSD only. The host begins it; it is complete when the status says so.
    Drain(Pair),
    /// Have the mapping pass everything to the disk, and the SSD closed.
    Detach(Pair),
    /// Remove the format of this cache from its SSD.
    FreeSsd(Pair),
    /// Have no partition that was made for this cache. A partition with other content stays.
    DeletePartition(Pair),
    /// Have the partition of the pair end where the pair says. It begins where it did.
    ResizePartition(Pair),
    /// Have the cache, which is in use, use as much of its SSD as the pair says. Nothing may be dirty.
    ResizeCache(Pair),
    /// Keep the disk from every program until the cache is mapped. No step of a plan.
    Hold(Pair),
    /// Have no mapping.
    Unmap(Pair),
    /// Remove the mapping. If data is on the SSD only, hold the disk afterwards. No step of a plan.
    #[serde(rename = "GiveBack")]
    Disassemble(Pair),
}

/// The pair of an action, borrowed as the action is.
macro_rules! pair_of {
    ($action:expr) => {
        match $action {
            Self::Map(pair)
            | Self::Prepare(pair)
            | Self::Assemble(pair)
            | Self::EnableWriteback(pair)
            | Self::Drain(pair)
            | Self::Detach(pair)
            | Self::FreeSsd(pair)
            | Self::CreatePartition(pair)
            | Self::DeletePartition(pair)
            | Self::ResizePartition(pair)
            | Self::ResizeCache(pair)
            | Self::Hold(pair)
            | Self::Unmap(pair)
            | Self::Disassemble(pair) => Some(pair),
            Self::Unmount(MountDevice::Mapping(pair), _)
            | Self::Mount(MountDevice::Mapping(pair), _) => Some(pair),
            Self::LoadModule
            | Self::Unmount(..)
            | Self::Mount(..)
            | Self::Erase(_)
            | Self::UpdateInitramfs(_) => None,
        }
    };
}

impl Action {
    /// The changes that undo this one, in order; empty if nothing has to be or can be undone.
    pub fn undo(&self) -> Vec<Self> {
        match self {
            Self::Unmount(device, mount) => vec![Self::Mount(device.clone(), mount.clone())],
            Self::Mount(device, mount) => vec![Self::Unmount(device.clone(), mount.clone())],
            Self::Map(pair) => vec![Self::Unmap(pair.clone()), Self::FreeSsd(pair.clone())],
            Self::Assemble(pair) => vec![Self::Disassemble(pair.clone())],
            Self::Prepare(pair) => vec![Self::FreeSsd(pair.clone())],
            Self::UpdateInitramfs(disk) => vec![Self::UpdateInitramfs(disk.clone())],
            Self::CreatePartition(pair) => vec![Self::DeletePartition(pair.clone())],
            Self::LoadModule
            | Self::Erase(_)
            | Self::EnableWriteback(_)
            | Self::Drain(_)
            | Self::Detach(_)
            | Self::FreeSsd(_)
            | Self::DeletePartition(_)
            | Self::ResizePartition(_)
            | Self::ResizeCache(_)
            | Self::Hold(_)
            | Self::Unmap(_)
            | Self::Disassemble(_) => Vec::new(),
        }
    }

    /// Which step of the contract it is.
    pub fn kind(&self) -> StepKind {
        match self {
            Self::LoadModule => StepKind::LoadModule,
            Self::Unmount(..) => StepKind::Unmount,
            Self::Mount(..) => StepKind::Mount,
            Self::Erase(_) => StepKind::EraseSsd,
            Self::Map(_) | Self::Assemble(_) | Self::Hold(_) => StepKind::Map,
            Self::Prepare(_) => StepKind::Prepare,
            Self::UpdateInitramfs(_) => StepKind::UpdateInitramfs,
            Self::EnableWriteback(_) => StepKind::EnableWriteback,
            Self::Drain(_) => StepKind::Drain,
            Self::Detach(_) => StepKind::Detach,
            Self::FreeSsd(_) => StepKind::FreeSsd,
            Self::CreatePartition(_) => StepKind::CreatePartition,
            Self::DeletePartition(_) => StepKind::DeletePartition,
            Self::ResizePartition(_) => StepKind::ResizePartition,
            Self::ResizeCache(_) => StepKind::ResizeCache,
            Self::Unmap(_) | Self::Disassemble(_) => StepKind::Unmap,
        }
    }

    /// The device to show to the user for this change.
    pub fn device(&self) -> DeviceText {
        match self {
            Self::LoadModule => DeviceText::none(),
            Self::Unmount(MountDevice::Origin(ident), _)
            | Self::Mount(MountDevice::Origin(ident), _) => ident.text.clone(),
            Self::Erase(ident) => ident.text.clone(),
            Self::UpdateInitramfs(disk) => disk.clone(),
            Self::Unmount(MountDevice::Mapping(pair), _)
            | Self::Mount(MountDevice::Mapping(pair), _) => pair.origin.text.clone(),
            // The words of the step name what is not used any more.
            Self::Detach(pair) if pair.ssd.is_memory() => pair.ssd.text.clone(),
            Self::Map(pair)
            | Self::Prepare(pair)
            | Self::Assemble(pair)
            | Self::EnableWriteback(pair)
            | Self::Drain(pair)
            | Self::Detach(pair)
            | Self::ResizeCache(pair)
            | Self::Hold(pair)
            | Self::Unmap(pair)
            | Self::Disassemble(pair) => pair.origin.text.clone(),
            Self::CreatePartition(pair) => match &pair.partition {
                Some(partition) => partition.disk.text.clone(),
                None => pair.ssd.text.clone(),
            },
            Self::FreeSsd(pair) | Self::DeletePartition(pair) | Self::ResizePartition(pair) => {
                pair.ssd.text.clone()
            }
        }
    }

    /// The cache that the change names.
    pub fn pair(&self) -> Option<&Pair> {
        pair_of!(self)
    }

    /// As [`Self::pair`].
    pub fn pair_mut(&mut self) -> Option<&mut Pair> {
        pair_of!(self)
    }

    /// The steps as the contract shows them. `dirty_bytes`: how much is on the SSD only before the first step. The
    /// first step that can write back or lose these bytes shows them.
    pub fn steps(actions: &[Self], cache_bytes: u64, mut dirty_bytes: u64) -> Vec<Step> {
        let step = |action: &Self| {
            let step = action.step(cache_bytes, dirty_bytes);
            if action.ends_dirt() {
                dirty_bytes = 0;
            }
            step
        };
        actions.iter().map(step).collect()
    }

    /// After this change no data is on the SSD only any more.
    fn ends_dirt(&self) -> bool {
        matches!(
            self,
            Self::Drain(_) | Self::Detach(_) | Self::Unmap(_) | Self::FreeSsd(_)
        )
    }

    fn step(&self, cache_bytes: u64, dirty_bytes: u64) -> Step {
        let target = match self {
            Self::Unmount(_, mount) | Self::Mount(_, mount) => mount.point.clone(),
            _ => String::new(),
        };
        let bytes = match self {
            Self::Map(_) | Self::Prepare(_) | Self::ResizeCache(_) => cache_bytes,
            Self::CreatePartition(pair)
            | Self::DeletePartition(pair)
            | Self::ResizePartition(pair) => pair.partition.as_ref().map_or(0, |made| made.size),
            _ if self.ends_dirt() => dirty_bytes,
            _ => 0,
        };
        Step {
            kind: self.kind(),
            device: self.device(),
            target,
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_before_keeps_its_limit() {
        let new = Pair::nowhere(Mode::Writeback);
        let mut record = serde_json::to_value(&new).unwrap();
        let read: Pair = serde_json::from_value(record.clone()).unwrap();
        assert_eq!(read.dirty_limit, DirtyLimit::default());
        record.as_object_mut().unwrap().remove("dirty_limit");
        let read: Pair = serde_json::from_value(record).unwrap();
        assert_eq!((read.dirty_limit.seconds, read.dirty_limit.bytes), (30, 0));
        assert!(!read.dirty_limit.is_default());
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The removal of a cache that another system has made.

use crate::model::facts::Ident;
use crate::model::shift::Shift;
use serde::{Deserialize, Serialize};
use tandem_api::{DataState, Failure, Kind, OtherKind, Step, StepKind};

/// How the UUIDs of LVM's mappings begin. The UUIDs of the group and of the volume follow.
const UUID_PREFIX: &str = "LVM-";
/// Characters of a UUID of LVM.
const UUID_CHARS: usize = 32;

/// The notes of removals that are under way and end with the machine. A mapping may wait for the end of one.
pub const UNDER_WAY: &str = "/run/tandem/others";

/// What is done with a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OtherTask {
    /// The disk gets everything, and the cache is removed.
    Remove,
    /// The disk gets everything, and the cache goes on as before.
    WriteBack,
    /// The cache is gone, and the partition that is left becomes a plain one.
    MakePlain,
}

/// The removal of a cache that another system has made, or a part of it. All of it comes from the facts of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherRemoval {
    /// Names the cache: the UUID of its mapping, or its name ([`tandem_api::OtherCache::id`]).
    pub id: String,
    /// The name by which the tools of the system know the cache; for LVM `group/volume`.
    pub name: String,
    /// The kind of cache.
    pub kind: OtherKind,
    /// What is done with it.
    pub task: OtherTask,
    /// Disk and SSD; for [`OtherTask::MakePlain`] the partition and its disk.
    pub devices: [Ident; 2],
    /// The steps, as the plan shows them.
    pub steps: Vec<Step>,
    /// Bytes that were on the SSD only when the removal began.
    pub unwritten_bytes: u64,
    /// Whether data may have been on the SSD only then.
    pub may_be_unwritten: bool,
    /// User that has asked for it.
    pub owner: u32,
    /// How the partition moves, for [`OtherTask::MakePlain`].
    #[serde(default)]
    pub shift: Option<Shift>,
}

impl OtherRemoval {
    /// Whether the system keeps what is to be put back over a start of the machine. The cache may appear later than the
    /// service then.
    pub fn outlives_a_start(&self) -> bool {
        (self.task, self.kind) == (OtherTask::WriteBack, OtherKind::LvmCache)
    }

    /// UUID of a volume of LVM, 32 letters and digits.
    pub fn volume_uuid(&self) -> &str {
        self.id
            .get(self.id.len().saturating_sub(UUID_CHARS)..)
            .unwrap_or_default()
    }
}

/// Whether this is the UUID of the mapping of a whole volume. A hidden part of a volume has a longer one.
pub fn is_volume_id(id: &str) -> bool {
    id.strip_prefix(UUID_PREFIX).is_some_and(|uuids| {
        uuids.len() == 2 * UUID_CHARS && uuids.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

/// Whether this is `group/volume`, in characters that LVM allows. None of the two begins like an option.
pub fn is_volume_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"+_.-".contains(&b);
    let is_name =
        |part: &str| !part.is_empty() && !part.starts_with(['-', '.']) && part.bytes().all(allowed);
    name.split_once('/')
        .is_some_and(|(group, volume)| is_name(group) && is_name(volume))
}

/// How far a removal is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OtherProgress {
    /// The system writes back. So much is left, in a unit of the system; none if the system does not tell.
    Drains(Option<u64>),
    /// The disk has everything, and the cache is being removed; or how the cache was set is being put back. That cannot be
    /// cancelled.
    Removes,
    /// The end.
    Ended(Result<(), Box<Failure>>),
    /// The end for this process. How the cache was set could not be put back: the next process tries again.
    Left(Box<Failure>),
}

impl OtherRemoval {
    /// What became of the data if the cache is still there.
    pub fn data(&self) -> DataState {
        match self.may_be_unwritten {
            true => DataState::Unwritten,
            false => DataState::Unchanged,
        }
    }

    /// The step `drain` has failed, and the cache is still there.
    pub fn not_drained(&self, why: impl std::fmt::Display) -> Failure {
        self.failed(StepKind::Drain, 0, why).data(self.data())
    }

    /// The cache is gone, and its SSD may not be free.
    pub fn not_freed(&self, why: impl std::fmt::Display) -> Failure {
        self.failed(StepKind::FreeSsd, 1, why)
            .data(DataState::OnDisk)
    }

    /// The partition is not moved. `data`: whether everything is as before.
    pub fn not_moved(&self, data: DataState, why: impl std::fmt::Display) -> Failure {
        self.failed(StepKind::MovePartition, 0, why).data(data)
    }

    /// The machine does not have the cache of the plan.
    pub fn changed(&self, why: impl std::fmt::Display) -> Failure {
        let changed = Failure::new(Kind::DeviceChanged).device(&self.devices[0].text);
        changed.detail(format_args!("{}: {why}", self.name))
    }

    /// The user has cancelled, and the cache stays.
    pub fn cancelled(&self) -> Failure {
        let cancelled = Failure::new(Kind::Cancelled).device(&self.devices[0].text);
        cancelled.data(self.data())
    }

    fn failed(&self, step: StepKind, device: usize, why: impl std::fmt::Display) -> Failure {
        Failure::new(Kind::StepFailed)
            .name(step.as_str())
            .device(&self.devices[device].text)
            .detail(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_ids_of_whole_volumes_are_used() {
        let both = "a1".repeat(UUID_CHARS);
        assert!(is_volume_id(&format!("LVM-{both}")));
        for id in [
            both.clone(),
            format!("LVM-{both}-real"),
            format!("LVM-{}", &both[1..]),
            format!("LVM-{}/", &both[1..]),
        ] {
            assert!(!is_volume_id(&id), "{id}");
        }
        assert!(is_volume_name("films/my-movies") && is_volume_name("a+b_c.d/0"));
        for name in [
            "films",
            "films/",
            "/movies",
            "-f/movies",
            "films/--force",
            "a/b/c",
            "a/b c",
            "a/$b",
            "a/b\n",
            "../a",
        ] {
            assert!(!is_volume_name(name), "{name}");
        }
    }
}

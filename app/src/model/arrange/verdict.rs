// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether a block can be cached or become a cache. The service judges that; here its reasons become those of the rows, and
//! a fast disk and a slow SSD, which the service only warns of, are not offered. Pure.

use tandem_api::{JudgedDevice, Kind, Objection};

use crate::model::inventory::{Medium, Obstacle};

/// The part that a block has in a cache that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The disk.
    Disk,
    /// The SSD.
    Ssd,
}

impl Part {
    fn obstacle(self) -> Obstacle {
        match self {
            Self::Disk => Obstacle::Cached,
            Self::Ssd => Obstacle::CacheSsd,
        }
    }
}

/// Whether a block can be cached.
pub fn as_origin(
    part: Option<Part>,
    judged: Option<&JudgedDevice>,
    medium: Medium,
) -> Result<(), Obstacle> {
    let judged = examined(part, judged)?;
    match judged.disk_obstacle() {
        Some(objection) => Err(of(objection)),
        None if medium == Medium::Ssd => Err(Obstacle::AlreadyFast),
        None => Ok(()),
    }
}

/// Whether a block can be cached from the next start of the machine on, and not now.
pub fn is_only_later(judged: &JudgedDevice) -> bool {
    let firm = |against: &[Objection]| against.iter().any(|o| !o.is_a_name());
    firm(&judged.against_disk) && !firm(&judged.against_disk_later)
}

/// Whether a block can become a cache.
pub fn as_ssd(
    part: Option<Part>,
    judged: Option<&JudgedDevice>,
    medium: Medium,
) -> Result<(), Obstacle> {
    if part.is_none() && medium != Medium::Ssd {
        return Err(Obstacle::NotFast);
    }
    let judged = examined(part, judged)?;
    judged.against_ssd.first().map_or(Ok(()), |o| Err(of(o)))
}

fn examined(part: Option<Part>, judged: Option<&JudgedDevice>) -> Result<&JudgedDevice, Obstacle> {
    match part {
        Some(part) => Err(part.obstacle()),
        None => judged.ok_or(Obstacle::NotJudged),
    }
}

/// Mount points of file systems that the running system cannot do without: advice to unmount them would be wrong.
const SYSTEM_MOUNTS: [&str; 8] = [
    "/",
    "/boot",
    "/boot/efi",
    "/efi",
    "/usr",
    "/var",
    "/var/lib",
    "/etc",
];

fn of(objection: &Objection) -> Obstacle {
    let of_system = |point: &String| SYSTEM_MOUNTS.contains(&point.as_str());
    match objection.kind {
        Kind::OriginRoot => Obstacle::System,
        Kind::SsdMounted if objection.mount_points.iter().any(of_system) => Obstacle::System,
        Kind::OriginEfi | Kind::OriginBoot | Kind::OriginGrub => Obstacle::Boot,
        Kind::OriginSwap => Obstacle::Swap,
        Kind::AlreadyCached if objection.name == "other" => Obstacle::Cached,
        Kind::AlreadyCached | Kind::SsdHoldsUnwritten => Obstacle::CacheSsd,
        Kind::OriginPartitioned => Obstacle::Empty,
        Kind::PartOfVolume => Obstacle::Member,
        Kind::OriginInUse | Kind::SsdInUse => match objection.name.as_str() {
            "swap" => Obstacle::Swap,
            "luks" => Obstacle::UnlockedElsewhere,
            "lvm" | "md" | "zfs" | "bcache" | "multipath" => Obstacle::Member,
            _ => Obstacle::InUse,
        },
        Kind::SsdMounted | Kind::FilesystemBusy => Obstacle::InUse,
        Kind::SsdUsedAtStart | Kind::NotFoundAtStart => Obstacle::UsedAtStart,
        Kind::SsdIsVolume | Kind::SsdOnNetwork => Obstacle::NotFast,
        Kind::ReadOnly => Obstacle::ReadOnly,
        Kind::OriginTooSmall | Kind::SsdTooSmall => Obstacle::TooSmall,
        Kind::Indistinguishable => Obstacle::Twin,
        _ => Obstacle::Refused,
    }
}

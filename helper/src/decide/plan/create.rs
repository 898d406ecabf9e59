// SPDX-License-Identifier: GPL-3.0-or-later
//! The plan that creates a cache.

use super::modes::{self, FOREIGN};
use super::{Content, Plan, Subject, checks, memory, partition};
use crate::model::action::{Action, MountDevice, Pair};
use crate::model::facts::{Device, Facts};
use crate::model::other_format::Format;
use tandem_api::{
    DeviceText, DirtyLimit, Failure, FileUser, JobKind, Kind, Mode, PlanSpec, Target, Warning,
    WarningKind,
};

/// The plan that creates the cache `uuid`. `caches`: object paths of all devices that are part of a cache. `users`: the
/// programs that use the file system of the disk.
///
/// # Errors
/// The first reason against the creation: see [`Kind`].
pub fn create(
    spec: &PlanSpec,
    uuid: &str,
    facts: &Facts,
    caches: &[String],
    users: Vec<FileUser>,
) -> Result<Plan, Failure> {
    let origin = find(facts, &spec.origin)?;
    let memory;
    let ssd = match spec.memory_bytes {
        0 => {
            let ssd = find(facts, &spec.ssd)?;
            checks::distinct(origin, ssd)?;
            checks::identity(origin, facts)?;
            checks::identity(ssd, facts)?;
            checks::origin(origin, facts, caches, spec.at_next_start)?;
            check_ssd(spec, ssd, facts, caches, spec.erase_ssd)?;
            ssd
        }
        _ => {
            checks::identity(origin, facts)?;
            checks::origin(origin, facts, caches, spec.at_next_start)?;
            memory = memory::asked(spec, uuid, origin, facts)?;
            &memory
        }
    };
    let (cache_ident, made) = match spec.partition_bytes {
        0 => (ssd.ident.clone(), None),
        _ => {
            let (ident, made) = partition::planned(spec, ssd, facts)?;
            (ident, Some(Box::new(made)))
        }
    };
    let erases = has_content(ssd) && made.as_ref().is_none_or(|made| made.new_table);
    if spec.target == Target::DmCache {
        fits_dm_cache(origin, ssd)?;
    }
    let sharing = facts.sharing(origin, None);
    let mut refused_modes = modes::refused_modes(spec.target, origin, ssd, None, sharing);
    if spec.at_next_start {
        checks::at_next_start(origin, ssd, facts)?;
        if refused_modes.is_empty() {
            refused_modes = vec![modes::at_next_start()];
        }
    }
    modes::offered(spec.mode, &refused_modes, origin)?;

    let pair = Pair {
        uuid: uuid.to_owned(),
        origin: origin.ident.clone(),
        ssd: cache_ident,
        origin_id: origin.ident.origin_id(),
        mode: spec.mode,
        copies_stale: false,
        lost_generation: 0,
        dirty_limit: DirtyLimit::default(),
        partition: made,
        target: spec.target,
    };
    let mut empty = Vec::new();
    if erases {
        empty.push(Action::Erase(ssd.ident.clone()));
    }
    if pair.partition.is_some() {
        empty.push(Action::CreatePartition(pair.clone()));
    }
    let actions = match spec.at_next_start {
        true => at_next_start(&pair, origin, empty),
        false => now(&pair, origin, empty),
    };

    let subject = Subject {
        origin: &origin.ident.text,
        ssd: &pair.ssd.text,
        mode: spec.mode,
        refused_modes,
        dirty_bytes: 0,
        mount_points: origin.mount_points(),
    };
    let mut warnings = warnings(origin, ssd, erases, spec, users);
    if erases {
        let named = |part: &&Device| Format::is_named(&part.ident.text.content);
        let lost = facts.partitions(ssd).filter(named).map(|part| Warning {
            kind: WarningKind::ErasesOtherCache,
            device: part.ident.text.clone(),
            users: Vec::new(),
        });
        warnings.extend(lost);
    }
    let mut contents = vec![Content::of(origin), Content::of(ssd)];
    // Beside a new partition, the other partitions may change: the service does not touch them.
    if pair.partition.is_none() {
        let mut parts: Vec<_> = facts.partitions(ssd).map(Content::of).collect();
        parts.sort_by_key(|part| part.ident.start);
        contents.append(&mut parts);
    }
    Ok(Plan {
        contents,
        ..Plan::new(JobKind::Create, uuid, actions, warnings, subject)
    })
}

/// Checks that dm-cache can serve the cache: the mapping would have the larger blocks, and the file system may not.
fn fits_dm_cache(origin: &Device, ssd: &Device) -> Result<(), Failure> {
    match ssd.block_bytes > origin.block_bytes {
        true => Err(Failure::new(Kind::TargetUnable)
            .device(&ssd.ident.text)
            .name("block-size")),
        false => Ok(()),
    }
}

/// The actions that put the cache over the disk. `empty`: the actions that make an empty place for the cache on the
/// SSD.
fn now(pair: &Pair, origin: &Device, mut empty: Vec<Action>) -> Vec<Action> {
    let mut actions = pair.module_loaded();
    let plain = MountDevice::Origin(Box::new(origin.ident.clone()));
    actions.extend(
        origin
            .mounts
            .iter()
            .rev()
            .map(|m| Action::Unmount(plain.clone(), m.clone())),
    );
    actions.append(&mut empty);
    actions.push(Action::Map(pair.clone()));
    let mapped = MountDevice::Mapping(Box::new(pair.clone()));
    actions.extend(
        origin
            .mounts
            .iter()
            .map(|m| Action::Mount(mapped.clone(), m.clone())),
    );
    // This action is the last: whenever actions have to be undone, no data is on the SSD only.
    if pair.mode == Mode::Writeback {
        actions.push(Action::EnableWriteback(pair.clone()));
    }
    actions
}

/// The actions that prepare everything for the next start of the machine. The disk is not touched.
fn at_next_start(pair: &Pair, origin: &Device, mut empty: Vec<Action>) -> Vec<Action> {
    let mut actions = pair.module_loaded();
    actions.append(&mut empty);
    actions.push(Action::Prepare(pair.clone()));
    if checks::is_root(origin) {
        actions.push(Action::UpdateInitramfs(origin.ident.text.clone()));
    }
    actions
}

/// Whether only the SSD's content can still refuse the plan. Only then does the service read the SSD, because any user
/// can name any device in a plan.
pub fn needs_ssd_content(spec: &PlanSpec, facts: &Facts, caches: &[String]) -> bool {
    if spec.memory_bytes > 0 {
        return false;
    }
    let checked = || -> Result<(), Failure> {
        let (origin, ssd) = (find(facts, &spec.origin)?, find(facts, &spec.ssd)?);
        checks::distinct(origin, ssd)?;
        checks::identity(origin, facts)?;
        checks::identity(ssd, facts)?;
        checks::origin(origin, facts, caches, spec.at_next_start)?;
        check_ssd(spec, ssd, facts, caches, true)
    };
    checked().is_ok()
}

/// Checks that the cache can be on this SSD, or on a new partition of this SSD. `erase`: the content of the SSD may be
/// erased.
fn check_ssd(
    spec: &PlanSpec,
    ssd: &Device,
    facts: &Facts,
    caches: &[String],
    erase: bool,
) -> Result<(), Failure> {
    match spec.partition_bytes {
        0 => checks::ssd(ssd, facts, caches, erase),
        _ => partition::check(spec, ssd, facts, caches, erase),
    }
}

/// The device with this object path.
///
/// # Errors
/// `DeviceGone`.
pub fn find<'a>(
    facts: &'a Facts,
    object: &tandem_api::OwnedObjectPath,
) -> Result<&'a Device, Failure> {
    facts.device(object.as_str()).ok_or_else(|| {
        let gone = DeviceText {
            object: object.clone(),
            ..DeviceText::none()
        };
        Failure::new(Kind::DeviceGone).device(&gone)
    })
}

fn has_content(ssd: &Device) -> bool {
    ssd.partitioned || !ssd.usage.is_empty() || !ssd.ident.text.content.is_empty() || !ssd.blank
}

fn warnings(
    origin: &Device,
    ssd: &Device,
    erases: bool,
    spec: &PlanSpec,
    users: Vec<FileUser>,
) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut warn = |kind, device: &Device, users| {
        all.push(Warning {
            kind,
            device: device.ident.text.clone(),
            users,
        });
    };
    if erases {
        let content = ssd.ident.text.content.as_str();
        let kind = match ssd.partitioned || !content.is_empty() {
            _ if Format::is_named(content) => WarningKind::ErasesOtherCache,
            true => WarningKind::ErasesSsd,
            false => WarningKind::ErasesUnknown,
        };
        warn(kind, ssd, Vec::new());
    }
    if spec.mode == Mode::Writeback {
        warn(WarningKind::WritebackRisk, origin, Vec::new());
        warn(WarningKind::WritebackElsewhere, origin, Vec::new());
    }
    if !users.is_empty() && !spec.at_next_start {
        warn(WarningKind::InUse, origin, users);
    }
    if !origin.mounts.is_empty() && !spec.at_next_start {
        warn(WarningKind::Unavailable, origin, Vec::new());
    }
    if origin.ident.network {
        warn(WarningKind::Network, origin, Vec::new());
    }
    if ssd.ident.is_memory() {
        warn(WarningKind::InMemory, ssd, Vec::new());
    }
    for device in [origin, ssd] {
        if device.removable {
            warn(WarningKind::Removable, device, Vec::new());
        }
    }
    if ssd.rotates == Some(true) {
        warn(WarningKind::SsdRotates, ssd, Vec::new());
    }
    if origin.drive.is_some() && origin.drive == ssd.drive {
        warn(WarningKind::SameDrive, ssd, Vec::new());
    } else if origin.rotates == Some(false) && origin.drive.is_some() {
        warn(WarningKind::OriginIsSsd, origin, Vec::new());
    }
    if origin.ident.text.content.is_empty() {
        warn(WarningKind::OriginUnknown, origin, Vec::new());
    }
    if origin.clear_text {
        warn(WarningKind::ClearText, ssd, Vec::new());
    }
    if checks::is_root(origin) {
        warn(WarningKind::NoHibernation, origin, Vec::new());
    }
    if FOREIGN.contains(&origin.ident.text.content.as_str()) {
        warn(WarningKind::OtherSystems, origin, Vec::new());
    }
    all
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The plan that writes back a cache of another system, or removes it.

use super::plain::movable;
use super::{Plan, VALID_SECONDS, digest};
use crate::model::facts::{Facts, Ident, SYSTEM_POINTS};
use crate::model::removal::{OtherRemoval, OtherTask, is_volume_id, is_volume_name};
use tandem_api::{
    DeviceText, Failure, JobKind, Kind, Mode, OtherCache, OtherKind, OtherMode, OtherState,
    PlanReply, Step, StepKind,
};

/// The plan for this task, and all that the system of the cache needs for it. `owner`: the user that asks. What is left to
/// remove of a bcache device without a cache is bcache itself: its partition becomes a plain one.
///
/// # Errors
/// `OtherNotRemovable`; `DeviceGone`; those of a partition that does not become a plain one.
pub fn end_other(
    cache: &OtherCache,
    facts: &Facts,
    task: OtherTask,
    owner: u32,
) -> Result<(Plan, OtherRemoval), Failure> {
    if task == OtherTask::Remove && cache.is_left_alone() {
        return make_plain(cache, facts, owner);
    }
    let none = DeviceText::none();
    let disk = cache.disks.first().unwrap_or(&none);
    let refused = |name: &str| {
        Err(Failure::new(Kind::OtherNotRemovable)
            .device(disk)
            .name(name))
    };
    let can = match task {
        OtherTask::Remove => cache.kind.can_be_removed(),
        OtherTask::WriteBack => cache.kind.can_write_back(),
        OtherTask::MakePlain => false,
    };
    if !can {
        return refused("system");
    }
    let Some(ssd) = cache.ssds.first() else {
        return refused("ssd-missing");
    };
    match cache.state {
        OtherState::Working | OtherState::Cleaning => {}
        OtherState::WithoutSsd => return refused("ssd-missing"),
        OtherState::Failed | OtherState::Stopping => return refused("failed"),
    }
    if disk.is_none() {
        return refused("failed");
    }
    match cache.kind {
        OtherKind::LvmCache | OtherKind::LvmWritecache
            if !is_volume_id(&cache.id) || !is_volume_name(&cache.name) =>
        {
            return refused("volume");
        }
        OtherKind::Bcache | OtherKind::DmCache | OtherKind::DmWritecache
            if cache.disks.len() > 1 || cache.ssds.len() > 1 =>
        {
            return refused("drives");
        }
        // All requests wait for a moment, also those of the service.
        OtherKind::DmCache | OtherKind::DmWritecache
            if task == OtherTask::Remove && carries_system(cache, facts) =>
        {
            return refused("running-system");
        }
        _ => {}
    }
    let steps = match task {
        OtherTask::WriteBack => vec![drain(cache, disk)],
        OtherTask::Remove | OtherTask::MakePlain => steps(cache, disk, ssd),
    };
    let kind = match task {
        OtherTask::WriteBack => JobKind::Flush,
        OtherTask::Remove | OtherTask::MakePlain => JobKind::Remove,
    };
    let removal = OtherRemoval {
        devices: [ident(facts, disk)?, ident(facts, ssd)?],
        ..removal(cache, task, steps, owner)
    };
    Ok((plan(cache, kind, &removal, (disk, ssd)), removal))
}

/// The plan that stops a bcache device without a cache, and has its partition begin where the file system begins.
fn make_plain(
    cache: &OtherCache,
    facts: &Facts,
    owner: u32,
) -> Result<(Plan, OtherRemoval), Failure> {
    let found = movable(cache, facts)?;
    let partition = &found.partition.ident;
    let steps = vec![
        step(StepKind::StopOther, &partition.text, 0),
        step(
            StepKind::MovePartition,
            &partition.text,
            found.shift.bytes(),
        ),
    ];
    let removal = OtherRemoval {
        devices: [partition.clone(), found.disk.ident.clone()],
        shift: Some(found.shift),
        ..removal(cache, OtherTask::MakePlain, steps, owner)
    };
    let none = DeviceText::none();
    let plan = plan(cache, JobKind::Remove, &removal, (&partition.text, &none));
    Ok((plan, removal))
}

fn removal(cache: &OtherCache, task: OtherTask, steps: Vec<Step>, owner: u32) -> OtherRemoval {
    OtherRemoval {
        id: cache.id.clone(),
        name: cache.name.clone(),
        kind: cache.kind,
        task,
        devices: [Ident::default(), Ident::default()],
        steps,
        unwritten_bytes: cache.unwritten_bytes,
        may_be_unwritten: cache.may_be_unwritten(),
        owner,
        shift: None,
    }
}

fn plan(
    cache: &OtherCache,
    kind: JobKind,
    removal: &OtherRemoval,
    (disk, ssd): (&DeviceText, &DeviceText),
) -> Plan {
    let mut reply = PlanReply {
        plan_id: String::new(),
        digest: String::new(),
        steps: removal.steps.clone(),
        warnings: Vec::new(),
        origin: disk.clone(),
        ssd: ssd.clone(),
        mode: mode(cache.mode),
        refused_modes: Vec::new(),
        at_next_start: false,
        mount_points: cache.mount_points.clone(),
        cache_bytes: cache.cache_bytes,
        memory_bytes: 0,
        valid_seconds: VALID_SECONDS,
    };
    reply.digest = digest(&reply, &[]);
    Plan {
        kind,
        uuid: cache.id.clone(),
        actions: Vec::new(),
        discards: false,
        contents: Vec::new(),
        reply,
    }
}

/// The system does them; LVM does all of them by one command.
fn steps(cache: &OtherCache, disk: &DeviceText, ssd: &DeviceText) -> Vec<Step> {
    let drains = cache.may_be_unwritten().then(|| drain(cache, disk));
    let detach = step(StepKind::Detach, disk, 0);
    let free = step(StepKind::FreeSsd, ssd, 0);
    drains.into_iter().chain([detach, free]).collect()
}

fn drain(cache: &OtherCache, disk: &DeviceText) -> Step {
    step(StepKind::Drain, disk, cache.unwritten_bytes)
}

fn step(kind: StepKind, device: &DeviceText, bytes: u64) -> Step {
    Step {
        kind,
        device: device.clone(),
        target: String::new(),
        bytes,
    }
}

fn mode(mode: OtherMode) -> Mode {
    match mode {
        OtherMode::Writeback => Mode::Writeback,
        OtherMode::Writearound => Mode::Writearound,
        OtherMode::Writethrough | OtherMode::Off | OtherMode::Unknown => Mode::Writethrough,
    }
}

/// Whether the running system may be on the device of a cache. What lies on a volume above the device is not looked for. A
/// device that UDisks2 does not show yet is looked at when the removal begins.
fn carries_system(cache: &OtherCache, facts: &Facts) -> bool {
    let system = |point: &String| SYSTEM_POINTS.contains(&point.as_str());
    let mapped = facts.device(cache.mapped.as_str());
    let in_use = mapped.is_some_and(|device| device.swap || !device.holders.is_empty());
    in_use || cache.mount_points.iter().any(system)
}

fn ident(facts: &Facts, device: &DeviceText) -> Result<Ident, Failure> {
    let found = facts.device(device.object.as_str());
    let found = found.ok_or_else(|| Failure::new(Kind::DeviceGone).device(device))?;
    Ok(found.ident.clone())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The plan that has LVM remove a cache that LVM has made.

use super::{Plan, VALID_SECONDS, digest};
use crate::model::facts::{Facts, Ident};
use crate::model::lvm::{LvmRemoval, is_volume_id, is_volume_name};
use tandem_api::{
    DeviceText, Failure, JobKind, Kind, Mode, OtherCache, OtherMode, OtherState, PlanReply, Step,
    StepKind,
};

/// The plan for such a cache, and all that LVM needs for it. `owner`: the user that asks.
///
/// # Errors
/// `OtherNotRemovable`; `DeviceGone`.
pub fn remove_other(
    cache: &OtherCache,
    facts: &Facts,
    owner: u32,
) -> Result<(Plan, LvmRemoval), Failure> {
    let none = DeviceText::none();
    let disk = cache.disks.first().unwrap_or(&none);
    let refused = |name: &str| {
        Err(Failure::new(Kind::OtherNotRemovable)
            .device(disk)
            .name(name))
    };
    if !cache.can_be_removed() {
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
    if disk.is_none() || !is_volume_id(&cache.id) || !is_volume_name(&cache.name) {
        return refused("volume");
    }
    let steps = steps(cache, disk, ssd);
    let mut reply = PlanReply {
        plan_id: String::new(),
        digest: String::new(),
        steps: steps.clone(),
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
    let plan = Plan {
        kind: JobKind::Remove,
        uuid: cache.id.clone(),
        actions: Vec::new(),
        discards: false,
        contents: Vec::new(),
        reply,
    };
    let removal = LvmRemoval {
        id: cache.id.clone(),
        volume: cache.name.clone(),
        kind: cache.kind,
        devices: [ident(facts, disk)?, ident(facts, ssd)?],
        steps,
        unwritten_bytes: cache.unwritten_bytes,
        may_be_unwritten: cache.may_be_unwritten(),
        owner,
    };
    Ok((plan, removal))
}

/// LVM does all of them by one command.
fn steps(cache: &OtherCache, disk: &DeviceText, ssd: &DeviceText) -> Vec<Step> {
    let step = |kind, device: &DeviceText, bytes| Step {
        kind,
        device: device.clone(),
        target: String::new(),
        bytes,
    };
    let drain = step(StepKind::Drain, disk, cache.unwritten_bytes);
    let free = step(StepKind::FreeSsd, ssd, 0);
    let detach = step(StepKind::Detach, disk, 0);
    let drains = cache.may_be_unwritten().then_some(drain);
    drains.into_iter().chain([detach, free]).collect()
}

fn mode(mode: OtherMode) -> Mode {
    match mode {
        OtherMode::Writeback => Mode::Writeback,
        OtherMode::Writearound => Mode::Writearound,
        OtherMode::Writethrough | OtherMode::Off | OtherMode::Unknown => Mode::Writethrough,
    }
}

fn ident(facts: &Facts, device: &DeviceText) -> Result<Ident, Failure> {
    let found = facts.device(device.object.as_str());
    let found = found.ok_or_else(|| Failure::new(Kind::DeviceGone).device(device))?;
    Ok(found.ident.clone())
}

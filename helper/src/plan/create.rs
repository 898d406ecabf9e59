// SPDX-License-Identifier: GPL-3.0-or-later
//! Putting a cache over a disk.

use super::modes::{self, FOREIGN};
use super::{Content, Plan, Subject, checks};
use crate::action::{Action, Face, Pair};
use crate::facts::{Device, Facts};
use tandem_api::{
    DeviceText, Failure, FileUser, JobKind, Kind, Mode, PlanSpec, Warning, WarningKind,
};

/// What making the cache `uuid` takes. `caches`: object paths of all devices that are part of one;
/// `users`: who uses the disk's file system.
///
/// # Errors
/// The first reason not to make it; see [`Kind`].
pub fn create(
    spec: &PlanSpec,
    uuid: &str,
    facts: &Facts,
    caches: &[String],
    users: Vec<FileUser>,
) -> Result<Plan, Failure> {
    let origin = find(facts, &spec.origin)?;
    let ssd = find(facts, &spec.ssd)?;
    checks::distinct(origin, ssd)?;
    checks::identity(origin, facts)?;
    checks::identity(ssd, facts)?;
    checks::origin(origin, facts, caches, spec.at_next_start)?;
    checks::ssd(ssd, facts, caches, spec.erase_ssd)?;
    let mut refused_modes = modes::refused_modes(origin, ssd, None);
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
        ssd: ssd.ident.clone(),
        origin_id: origin.ident.origin_id(),
        mode: spec.mode,
        cold: false,
        lost: 0,
    };
    let actions = match spec.at_next_start {
        true => at_next_start(&pair, origin, ssd),
        false => now(&pair, origin, ssd),
    };

    let subject = Subject {
        origin: &origin.ident.text,
        ssd: &ssd.ident.text,
        mode: spec.mode,
        refused_modes,
        dirty_bytes: 0,
        mount_points: origin.mount_points(),
    };
    let warnings = warnings(origin, ssd, spec, users);
    let mut parts: Vec<_> = facts.partitions(ssd).map(Content::of).collect();
    parts.sort_by_key(|part| part.ident.start);
    let mut contents = vec![Content::of(origin), Content::of(ssd)];
    contents.append(&mut parts);
    Ok(Plan {
        contents,
        ..Plan::new(JobKind::Create, uuid, actions, warnings, subject)
    })
}

/// The actions that put the cache over the disk.
fn now(pair: &Pair, origin: &Device, ssd: &Device) -> Vec<Action> {
    let mut actions = vec![Action::LoadModule];
    let plain = Face::Plain(Box::new(origin.ident.clone()));
    actions.extend(
        origin
            .mounts
            .iter()
            .rev()
            .map(|m| Action::Unmount(plain.clone(), m.clone())),
    );
    if holds_something(ssd) {
        actions.push(Action::Erase(ssd.ident.clone()));
    }
    actions.push(Action::Map(pair.clone()));
    let mapped = Face::Mapped(Box::new(pair.clone()));
    actions.extend(
        origin
            .mounts
            .iter()
            .map(|m| Action::Mount(mapped.clone(), m.clone())),
    );
    // Last, so that whatever has to be undone, nothing is on the SSD only.
    if pair.mode == Mode::Writeback {
        actions.push(Action::EnableWriteback(pair.clone()));
    }
    actions
}

/// The actions that prepare everything for the next start of the machine. The disk is not touched.
fn at_next_start(pair: &Pair, origin: &Device, ssd: &Device) -> Vec<Action> {
    let mut actions = vec![Action::LoadModule];
    if holds_something(ssd) {
        actions.push(Action::Erase(ssd.ident.clone()));
    }
    actions.push(Action::Prepare(pair.clone()));
    if checks::is_root(origin) {
        actions.push(Action::UpdateInitramfs(origin.ident.text.clone()));
    }
    actions
}

/// Whether nothing but the SSD's content can still speak against a plan. Only then is the SSD read,
/// which costs I/O on a device that anybody may have named.
pub fn worth_reading(spec: &PlanSpec, facts: &Facts, caches: &[String]) -> bool {
    let checked = || -> Result<(), Failure> {
        let (origin, ssd) = (find(facts, &spec.origin)?, find(facts, &spec.ssd)?);
        checks::distinct(origin, ssd)?;
        checks::identity(origin, facts)?;
        checks::identity(ssd, facts)?;
        checks::origin(origin, facts, caches, spec.at_next_start)?;
        checks::ssd(ssd, facts, caches, true)
    };
    checked().is_ok()
}

fn find<'a>(facts: &'a Facts, object: &zbus::OwnedObjectPath) -> Result<&'a Device, Failure> {
    facts.device(object.as_str()).ok_or_else(|| {
        let gone = DeviceText {
            object: object.clone(),
            ..DeviceText::none()
        };
        Failure::new(Kind::DeviceGone).device(&gone)
    })
}

fn holds_something(ssd: &Device) -> bool {
    ssd.partitioned || !ssd.usage.is_empty() || !ssd.ident.text.content.is_empty() || !ssd.blank
}

fn warnings(origin: &Device, ssd: &Device, spec: &PlanSpec, users: Vec<FileUser>) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut warn = |kind, device: &Device, users| {
        all.push(Warning {
            kind,
            device: device.ident.text.clone(),
            users,
        });
    };
    if holds_something(ssd) {
        let known = ssd.partitioned || !ssd.ident.text.content.is_empty();
        let kind = if known {
            WarningKind::ErasesSsd
        } else {
            WarningKind::ErasesUnknown
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
    if FOREIGN.contains(&origin.ident.text.content.as_str()) {
        warn(WarningKind::OtherSystems, origin, Vec::new());
    }
    all
}

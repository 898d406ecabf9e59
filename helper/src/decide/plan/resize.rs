// SPDX-License-Identifier: GPL-3.0-or-later
//! The plan that gives a cache another share of its SSD.

use super::{Plan, Subject, Unwritten, partition};
use crate::model::action::{Action, Pair, Partition};
use crate::model::facts::{Device, Facts};
use tandem_api::{Failure, JobKind, Kind, Mode, Warning, WarningKind};

/// The facts about a cache that is to get another share.
pub struct ResizeInput<'a> {
    /// The cache, which works.
    pub pair: &'a Pair,
    /// Size of the new partition in bytes; it is rounded down to whole MiB.
    pub bytes: u64,
    /// The mount points of the mapping.
    pub mount_points: Vec<String>,
    /// The data that may be on the SSD only.
    pub unwritten: Unwritten,
    /// The running system is on the disk.
    pub in_initramfs: bool,
    /// The module can change the size of a cache that is in use.
    pub keeps: bool,
}

/// The plan that gives a cache a partition of another size. The disk stays in use. If the partition can begin where it
/// does, the copies that stay in their place are kept. Else the cache gets a new partition, which may be anywhere on the
/// SSD: the mapping passes everything to the disk meanwhile, and the copies are lost.
///
/// # Errors
/// `NotResizable` if the service did not make the partition, or for the disk of the running system: the initial file
/// systems have a copy of the record, which could start the old cache with old copies, and perhaps an older module. `UnwrittenData`, `SsdTooSmall`,
/// `SsdNoFreeSpace`, `DeviceGone`; `InvalidArgument` if the size is the present one.
pub fn resize(input: ResizeInput<'_>, facts: &Facts) -> Result<Plan, Failure> {
    let ResizeInput { pair, .. } = input;
    let refused = |kind| Failure::new(kind).device(&pair.ssd.text);
    let Some(made) = &pair.partition else {
        let name = match pair.ssd.is_memory() {
            true => "memory",
            false => "own-partition",
        };
        return Err(refused(Kind::NotResizable).name(name));
    };
    if input.in_initramfs {
        return Err(refused(Kind::NotResizable).name("system"));
    }
    let unwritten = &input.unwritten;
    if let Some(reason) = unwritten.stuck.as_ref().filter(|_| unwritten.possible) {
        return Err(refused(Kind::UnwrittenData)
            .name(reason)
            .sizes(input.unwritten.bytes, 0));
    }
    let own = facts.same_hardware(&pair.ssd);
    let own = own.ok_or_else(|| refused(Kind::DeviceGone))?;
    let ssd = own.table.as_deref().and_then(|table| facts.device(table));
    let ssd = ssd.ok_or_else(|| refused(Kind::DeviceGone))?;
    let (ident, planned) = partition::replaced(input.bytes, own, ssd, facts)?;
    if planned.start == own.ident.start && input.keeps {
        return Ok(in_place(input, own, planned.size));
    }

    let old = Pair {
        // The table stays for the new partition.
        partition: Some(Box::new(Partition {
            new_table: false,
            ..(**made).clone()
        })),
        ..pair.clone()
    };
    let new = Pair {
        ssd: ident,
        copies_stale: false,
        lost_generation: 0,
        partition: Some(Box::new(Partition {
            new_table: made.new_table,
            ..planned
        })),
        ..pair.clone()
    };
    let mut actions = Vec::new();
    if input.unwritten.possible {
        actions.push(Action::Drain(old.clone()));
    }
    actions.extend([
        Action::Detach(old.clone()),
        Action::FreeSsd(old.clone()),
        Action::DeletePartition(old),
        Action::CreatePartition(new.clone()),
        Action::Map(new.clone()),
    ]);
    if pair.mode == Mode::Writeback {
        actions.push(Action::EnableWriteback(new.clone()));
    }
    let warnings = vec![Warning {
        kind: WarningKind::StartsEmpty,
        device: new.ssd.text.clone(),
        users: Vec::new(),
    }];
    Ok(of(input, &new, actions, warnings))
}

/// The plan where the partition begins as before: the cache stays in use, and keeps what stays in its place.
fn in_place(input: ResizeInput<'_>, own: &Device, bytes: u64) -> Plan {
    let pair = input.pair;
    let new = pair.resized(bytes);
    let mut actions = Vec::new();
    if input.unwritten.possible {
        actions.push(Action::Drain(pair.clone()));
    }
    actions.push(Action::ResizeCache(new.clone()));
    let partition = Action::ResizePartition(new.clone());
    match bytes > own.ident.text.size {
        true => actions.insert(actions.len() - 1, partition),
        false => actions.push(partition),
    }
    of(input, &new, actions, Vec::new())
}

/// The plan of these actions, after which the cache is `new`.
fn of(input: ResizeInput<'_>, new: &Pair, actions: Vec<Action>, warnings: Vec<Warning>) -> Plan {
    let pair = input.pair;
    let subject = Subject {
        origin: &pair.origin.text,
        ssd: &new.ssd.text,
        mode: pair.mode,
        refused_modes: Vec::new(),
        dirty_bytes: input.unwritten.bytes,
        mount_points: input.mount_points,
    };
    Plan::new(JobKind::Resize, &pair.uuid, actions, warnings, subject)
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A machine on which a plan is possible, to change one fact at a time.

mod early;
mod judge;
mod kernel_cache;
mod later;
mod modes;
mod network;
mod other;
mod partition;
mod plain;
mod refusals;
mod removal;
mod resize;

use super::*;
use crate::model::action::MountDevice;
use crate::model::facts::{Device, Facts, Holder, Ident, Mount, Mounter, StartEntry, StartTable};
use std::collections::BTreeSet;
use tandem_api::{
    Failure, FileUser, Kind, Mode, ModeRefusal, PlanSpec, RefusedMode, StepKind, Target,
    WarningKind,
};

const GIB: u64 = 1 << 30;
const UUID: &str = "0123456789abcdef0123456789abcdef";

fn object(name: &str) -> tandem_api::OwnedObjectPath {
    format!("/org/freedesktop/UDisks2/block_devices/{name}")
        .try_into()
        .unwrap()
}

pub(crate) fn device(name: &str, size: u64) -> Device {
    let text = DeviceText {
        object: object(name),
        name: name.into(),
        size,
        ..DeviceText::none()
    };
    let ident = Ident {
        text,
        diskseq: 1,
        boot: "boot".into(),
        hardware: format!("/serial-of-{}", &name[..3]),
        ..Ident::default()
    };
    Device {
        drive: Some(format!("/drives/{}", &name[..3])),
        block_bytes: 512,
        rotates: Some(name.starts_with("sda")),
        ..Device::empty(ident)
    }
}

/// An entry of fstab that the start of the machine uses.
pub(crate) fn entry(target: &str, spec: &str) -> StartEntry {
    StartEntry {
        table: StartTable::Fstab,
        target: target.into(),
        spec: spec.into(),
        at_start: true,
        early: false,
    }
}

pub(crate) fn mount(point: &str, mounter: Mounter) -> Mount {
    Mount {
        point: point.into(),
        root: "/".into(),
        fstype: "ext4".into(),
        options: "rw".into(),
        mounter,
    }
}

/// A disk `sda` with an ext4 partition `sda1` that is mounted, and an empty SSD `sdb`.
struct Scene {
    facts: Facts,
    spec: PlanSpec,
    caches: Vec<String>,
}

impl Scene {
    fn new() -> Self {
        let mut disk = device("sda", 1000 * GIB);
        disk.partitioned = true;
        disk.ident.text.content = "partition-table".into();
        let mut part = device("sda1", 999 * GIB);
        part.table = Some(object("sda").to_string());
        part.ident.start = 1 << 20;
        part.ident.part_uuid = "aa-01".into();
        part.ident.text.content = "ext4".into();
        part.usage = "filesystem".into();
        part.mounts = vec![mount("/media/anna/Data", Mounter::Udisks(1000))];
        let spec = PlanSpec {
            origin: object("sda1"),
            ssd: object("sdb"),
            mode: Mode::Writethrough,
            erase_ssd: false,
            at_next_start: false,
            partition_bytes: 0,
            target: Target::Tandem,
            memory_bytes: 0,
        };
        Self {
            facts: Facts {
                devices: vec![disk, part, device("sdb", 200 * GIB)],
                initramfs: true,
                grub_disks: BTreeSet::new(),
                memory_for_cache: 0,
            },
            spec,
            caches: vec![],
        }
    }

    fn at(&mut self, name: &str) -> &mut Device {
        self.facts
            .devices
            .iter_mut()
            .find(|d| d.ident.text.name == name)
            .unwrap()
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn plan(&self) -> Result<Plan, Failure> {
        create(&self.spec, UUID, &self.facts, &self.caches, Vec::new())
    }

    /// Kind of the refusal and kernel name of the device that it names.
    fn refused(&self) -> (Kind, String) {
        let failure = self.plan().expect_err("must be refused");
        assert_eq!(failure.data, tandem_api::DataState::Unchanged);
        (failure.kind, failure.device.name)
    }
}

#[track_caller]
fn refuses(kind: Kind, device: &str, change: impl FnOnce(&mut Scene)) {
    assert_eq!(
        Scene::new().with(change).refused(),
        (kind, device.to_owned())
    );
}

#[test]
fn a_plan_names_every_step_and_nothing_else() {
    let plan = Scene::new().plan().unwrap();
    let kinds: Vec<_> = plan.reply.steps.iter().map(|s| s.kind).collect();
    assert_eq!(
        kinds,
        [
            StepKind::LoadModule,
            StepKind::Unmount,
            StepKind::Map,
            StepKind::Mount
        ]
    );
    assert_eq!(plan.reply.steps[1].target, "/media/anna/Data");
    assert_eq!(plan.reply.steps[2].bytes, plan.reply.cache_bytes);
    assert!(!plan.erases());
    let warnings: Vec<_> = plan.reply.warnings.iter().map(|w| w.kind).collect();
    assert_eq!(warnings, [WarningKind::Unavailable]);
    // The file system is mounted again through the mapping, not past it.
    assert!(
        matches!(plan.actions.last(), Some(Action::Mount(MountDevice::Mapping(pair), _)) if pair.uuid == UUID)
    );
}

#[test]
fn several_mounts_come_back_in_their_order() {
    let scene = Scene::new().with(|s| s.at("sda1").mounts.push(mount("/second", Mounter::Other)));
    let targets: Vec<_> = scene
        .plan()
        .unwrap()
        .reply
        .steps
        .iter()
        .map(|s| s.target.clone())
        .collect();
    assert_eq!(
        targets,
        [
            "",
            "/second",
            "/media/anna/Data",
            "",
            "/media/anna/Data",
            "/second"
        ]
    );
}

#[test]
fn who_uses_the_disk_is_said_in_the_plan() {
    let scene = Scene::new();
    let user = FileUser {
        pid: 7,
        command: "bash".into(),
        uid: 1,
        user: "anna".into(),
    };
    let plan = create(&scene.spec, UUID, &scene.facts, &[], vec![user.clone()]).unwrap();
    let warning = plan
        .reply
        .warnings
        .iter()
        .find(|w| w.kind == WarningKind::InUse)
        .unwrap();
    assert_eq!(warning.users, [user]);
    // Other users of the file system do not make another plan.
    assert!(plan.does_the_same(&scene.plan().unwrap()));
}

#[test]
fn write_back_is_enabled_last_and_warned_of() {
    let scene = Scene::new().with(|s| s.spec.mode = Mode::Writeback);
    let plan = scene.plan().unwrap();
    let last = plan.reply.steps.last().unwrap();
    assert_eq!(last.kind, StepKind::EnableWriteback);
    assert!(plan.reply.refused_modes.is_empty());
    let kinds: Vec<_> = plan.reply.warnings.iter().map(|w| w.kind).collect();
    for kind in [WarningKind::WritebackRisk, WarningKind::WritebackElsewhere] {
        assert!(kinds.contains(&kind), "{kind}");
        let through = Scene::new().plan().unwrap().reply.warnings;
        assert!(through.iter().all(|w| w.kind != kind));
    }
}

#[test]
fn clear_text_of_an_encrypted_volume_is_warned_of() {
    let kinds = |plan: Plan| {
        let all = plan.reply.warnings.into_iter();
        all.map(|w| (w.kind, w.device.name)).collect::<Vec<_>>()
    };
    let warning = (WarningKind::ClearText, "sdb".to_owned());
    assert!(!kinds(Scene::new().plan().unwrap()).contains(&warning));
    let unlocked = Scene::new().with(|s| s.at("sda1").clear_text = true);
    assert!(kinds(unlocked.plan().unwrap()).contains(&warning));
}

#[test]
fn a_replaced_device_makes_another_plan() {
    let plan = Scene::new().plan().unwrap();
    for change in [
        (|s: &mut Scene| s.at("sdb").ident.diskseq = 9) as fn(&mut Scene),
        |s| s.at("sdb").ident.hardware = "other".into(),
        |s| s.at("sda1").ident.text.size -= 512,
        |s| s.at("sda1").mounts[0].point = "/elsewhere".into(),
        |s| s.at("sda1").ident.text.content = "xfs".into(),
        |s| s.spec.mode = Mode::Writearound,
    ] {
        let other = Scene::new().with(change).plan().unwrap();
        assert!(!plan.does_the_same(&other));
        assert_ne!(plan.reply.digest, other.reply.digest);
    }
    assert_eq!(plan.reply.digest, Scene::new().plan().unwrap().reply.digest);
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Plans for disks that are always in use: the next start of the machine puts the cache over them.

use super::*;
use tandem_api::Sharing;

/// A disk that fstab mounts here by its UUID, with everything that the start of the machine needs.
pub(super) fn in_use_at(point: &str) -> Scene {
    Scene::new().with(|s| {
        s.spec.at_next_start = true;
        s.at("sda1").mounts = vec![mount(point, Mounter::Fstab("UUID=a".into()))];
        s.at("sda1").submounts = vec!["/elsewhere".into()];
        for name in ["sda1", "sdb"] {
            s.at(name).found_at_start = true;
        }
    })
}

fn kinds(plan: &Plan) -> Vec<StepKind> {
    plan.reply.steps.iter().map(|step| step.kind).collect()
}

#[test]
fn a_disk_in_use_stays_in_use_until_the_next_start() {
    let user = FileUser {
        pid: 7,
        command: "bash".into(),
        uid: 1,
        user: "anna".into(),
    };
    let scene = in_use_at("/home");
    let plan = create(&scene.spec, UUID, &scene.facts, &[], vec![user]).unwrap();
    assert_eq!(kinds(&plan), [StepKind::LoadModule, StepKind::Prepare]);
    assert!(plan.reply.at_next_start && plan.reply.warnings.is_empty());
    assert_eq!(plan.reply.steps[1].bytes, plan.reply.cache_bytes);
    assert!(!Scene::new().plan().unwrap().reply.at_next_start);
}

#[test]
fn the_running_system_needs_new_initial_file_systems_too() {
    let plan = in_use_at("/").plan().unwrap();
    let expected = [
        StepKind::LoadModule,
        StepKind::Prepare,
        StepKind::UpdateInitramfs,
    ];
    assert_eq!(kinds(&plan), expected);
    let warned: Vec<_> = plan.reply.warnings.iter().map(|w| w.kind).collect();
    assert_eq!(warned, [WarningKind::NoHibernation]);
    // The initial file system finds it by any name.
    let by_name = in_use_at("/").with(|s| {
        s.at("sda1").entries = vec![entry("/", "/dev/sda1")];
    });
    assert!(by_name.plan().is_ok());
    // A part of the same file system that is mounted elsewhere is found by systemd.
    let part = by_name.with(|s| s.at("sda1").entries.push(entry("/home", "/dev/sda1")));
    assert_eq!(part.plan().unwrap_err().kind, Kind::FstabNamesDevice);
}

#[test]
fn what_the_start_does_not_find_is_refused() {
    let refused = |scene: Scene| {
        let failure = scene.plan().unwrap_err();
        (failure.kind, failure.device.name, failure.name)
    };
    for device in ["sda1", "sdb"] {
        let scene = in_use_at("/home").with(|s| s.at(device).found_at_start = false);
        let expected = (Kind::NotFoundAtStart, device.into(), "records".into());
        assert_eq!(refused(scene), expected);
    }
    let without = |point| in_use_at(point).with(|s| s.facts.initramfs = false);
    let expected = (Kind::NotFoundAtStart, "sda1".into(), "initramfs".into());
    assert_eq!(refused(without("/")), expected);
    assert!(without("/home").plan().is_ok());
    let by_name = in_use_at("/home").with(|s| {
        s.at("sda1").entries = vec![entry("/home", "/dev/sda1")];
    });
    assert_eq!(refused(by_name).0, Kind::FstabNamesDevice);
    for point in ["/usr", "/var", "/etc"] {
        assert_eq!(refused(in_use_at(point)).0, Kind::OriginRoot);
    }
    assert_eq!(refused(in_use_at("/boot")).0, Kind::OriginBoot);
}

#[test]
fn a_running_system_on_a_volume_and_a_volume_for_it_are_refused() {
    let on = |device: &'static str, hardware: &'static str, point| {
        let scene = in_use_at(point).with(|s| s.at(device).ident.hardware = hardware.into());
        scene.plan().map(drop)
    };
    // An unlocked device, a logical volume, an array, and a partition of an array.
    for volume in ["CRYPT-LUKS2-0a-root", "LVM-0b", "0c:0d:0e:0f"] {
        for device in ["sda1", "sdb"] {
            let failure = on(device, volume, "/").unwrap_err();
            assert_eq!(failure.kind, Kind::NotFoundAtStart, "{device} {volume}");
            assert_eq!(
                (failure.name.as_str(), failure.device.name.as_str()),
                ("volume", device)
            );
            assert!(on(device, volume, "/home").is_ok());
        }
    }
    for drive in ["0x5000/S1", "/S1", ""] {
        assert!(on("sda1", drive, "/").is_ok(), "{drive}");
    }
}

#[test]
fn a_disk_from_which_grub_starts_by_bios_is_refused_now_and_later() {
    for (point, at_next_start) in [("/", true), ("/", false), ("/home", true), ("/data", false)] {
        let with = |numbers: &[&str]| {
            let scene = in_use_at(point).with(|s| {
                s.spec.at_next_start = at_next_start;
                s.at("sda1").submounts.clear();
                s.at("sda1").number = "8:1".into();
                s.facts.grub_disks = numbers.iter().map(|&n| n.to_owned()).collect();
            });
            scene.plan().map(drop)
        };
        let failure = with(&["253:0", "8:1"]).unwrap_err();
        assert_eq!(failure.kind, Kind::OriginGrub, "{point} {at_next_start}");
        assert_eq!(failure.mount_points, [point]);
        let elsewhere = with(&["8:17"]).map_err(|failure| failure.kind);
        let expected = match (point, at_next_start) {
            ("/", false) => Err(Kind::OriginRoot),
            _ => Ok(()),
        };
        assert_eq!(elsewhere, expected, "{point} {at_next_start}");
    }
}

#[test]
fn nothing_is_to_be_on_the_ssd_only_before_or_below_the_running_system() {
    for (point, reason) in [
        ("/", ModeRefusal::System),
        ("/home", ModeRefusal::NextStart),
    ] {
        let scene = in_use_at(point).with(|s| s.spec.mode = Mode::Writeback);
        let failure = scene.plan().unwrap_err();
        assert_eq!(failure.kind, Kind::ModeRefused);
        assert_eq!(failure.name, reason.as_str());
    }
    // The same when the system runs through the cache already.
    let scene = in_use_at("/");
    let (plain, mapped) = (&scene.facts.devices[2], &scene.facts.devices[1]);
    let refused = refused_modes(Target::Tandem, plain, plain, Some(mapped), Sharing::Alone);
    assert_eq!(refused[0].reason, ModeRefusal::System);
}

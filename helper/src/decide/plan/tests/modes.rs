// SPDX-License-Identifier: GPL-3.0-or-later
//! Where write-back is not offered, and what beside a cache changes the disk.

use super::*;
use tandem_api::Sharing;

#[test]
fn write_back_is_refused_where_the_disk_may_be_read_without_the_ssd() {
    type Change = (ModeRefusal, fn(&mut Scene));
    let changes: [Change; 11] = [
        (ModeRefusal::Removable, |s| s.at("sda1").removable = true),
        (ModeRefusal::Removable, |s| s.at("sdb").removable = true),
        (ModeRefusal::OtherSystems, |s| {
            s.at("sda1").ident.text.content = "ntfs".into()
        }),
        (ModeRefusal::OtherSystems, |s| {
            s.at("sda1").ident.text.content = "exfat".into()
        }),
        (ModeRefusal::OtherSystems, |s| {
            s.at("sda1").ident.text.content = "vfat".into()
        }),
        (ModeRefusal::OtherSystems, |s| {
            s.at("sda1").ident.text.content = "BitLocker".into()
        }),
        (ModeRefusal::Shared, |s| s.at("sda1").snapshots = true),
        (ModeRefusal::BlockSize, |s| s.at("sdb").block_bytes = 4096),
        (ModeRefusal::MountedAtStart, |s| {
            s.at("sda1").entries = vec![entry("/srv", "UUID=a")]
        }),
        // The same where the start assembles the cache before it unlocks the disk.
        (ModeRefusal::UnlockedAtStart, |s| {
            s.at("sda1").found_at_start = true;
            s.at("sdb").found_at_start = true;
            s.at("sda1").entries = vec![StartEntry {
                table: StartTable::Crypttab,
                ..entry("safe", "UUID=a")
            }];
        }),
        // The clear text on such a disk, also where fstab does not name it.
        (ModeRefusal::UnlockedAtStart, |s| {
            s.at("sda1").behind_lock = true
        }),
    ];
    let by_hand = Scene::new().with(|s| {
        s.at("sda1").entries = vec![StartEntry {
            table: StartTable::Crypttab,
            at_start: false,
            ..entry("safe", "UUID=a")
        }];
    });
    assert!(by_hand.plan().unwrap().reply.refused_modes.is_empty());
    let mut both = Scene::new();
    both.at("sda1").entries = vec![entry("/srv", "UUID=a")];
    for name in ["sda1", "sdb"] {
        // One of them alone is not enough.
        assert!(!both.plan().unwrap().reply.refused_modes.is_empty());
        both.at(name).found_at_start = true;
    }
    assert!(both.plan().unwrap().reply.refused_modes.is_empty());
    for (reason, change) in changes {
        let offered = Scene::new()
            .with(change)
            .plan()
            .unwrap()
            .reply
            .refused_modes;
        let mode = Mode::Writeback;
        assert_eq!(offered, [RefusedMode { mode, reason }]);
        let chosen = Scene::new().with(change).with(|s| s.spec.mode = mode);
        let refused = chosen.plan().unwrap_err();
        assert_eq!(
            (refused.kind, refused.name.as_str()),
            (Kind::ModeRefused, reason.as_str())
        );
        assert_eq!(refused.device.name, "sda1");
    }
}

#[test]
fn a_cached_btrfs_with_a_further_device_and_a_volume_with_snapshots_are_seen() {
    let scene = Scene::new().with(|s| {
        for name in ["sda1", "sdb"] {
            s.at(name).content_uuid = "fs".into();
        }
        s.at("sda1").ident.text.content = "btrfs".into();
    });
    let sharing = |scene: &Scene, mapped: Option<&Device>| {
        let disk = scene.facts.device(object("sda1").as_str()).unwrap();
        scene.facts.sharing(disk, mapped)
    };
    assert_eq!(sharing(&scene, None), Sharing::Alone);
    let scene = scene.with(|s| s.at("sdb").ident.text.content = "btrfs".into());
    assert_eq!(sharing(&scene, None), Sharing::Filesystem);
    // The mapping knows the file system that was made through it.
    let mut mapping = scene.facts.devices[0].clone();
    mapping.ident.text.content = "ext4".into();
    mapping.ident.hardware = "TANDEM-x".into();
    assert_eq!(sharing(&scene, Some(&mapping)), Sharing::Alone);
    let scene = scene.with(|s| {
        s.at("sdb").content_uuid = "other".into();
        s.at("sda1").snapshots = true;
    });
    assert_eq!(sharing(&scene, None), Sharing::Snapshots);
}

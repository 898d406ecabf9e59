// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks that an initial file system uses.

use super::*;
use tandem_api::Sharing;

/// The disk is in use without its cache then, and what is on the SSD only is lost.
#[test]
fn a_disk_that_an_initial_file_system_uses_is_refused() {
    for table in [StartTable::Fstab, StartTable::Crypttab] {
        for later in [false, true] {
            let scene = |target| {
                Scene::new().with(|s| {
                    s.spec.at_next_start = later;
                    for name in ["sda1", "sdb"] {
                        s.at(name).found_at_start = true;
                    }
                    s.at("sda1").entries = vec![StartEntry {
                        table,
                        early: true,
                        ..entry(target, "UUID=a")
                    }];
                })
            };
            let failure = scene("/srv").plan().unwrap_err();
            assert_eq!(failure.kind, Kind::NotFoundAtStart, "{table:?} {later}");
            assert_eq!(
                (failure.name.as_str(), failure.mount_points),
                ("early", vec!["/srv".into()])
            );
            // The initial file systems put the cache over the disk of the running system themselves.
            let is_root = table == StartTable::Fstab;
            assert_eq!(scene("/").plan().is_ok(), is_root);
        }
    }
    // The option may be added when there is a cache.
    let cached = Scene::new().with(|s| {
        s.at("sda1").found_at_start = true;
        s.at("sdb").found_at_start = true;
        s.at("sda1").entries = vec![StartEntry {
            early: true,
            ..entry("/srv", "UUID=a")
        }];
    });
    let [_, disk, ssd] = cached.facts.devices.as_slice() else {
        panic!("three devices");
    };
    let refused = refused_modes(Target::Tandem, ssd, ssd, Some(disk), Sharing::Alone);
    assert_eq!(refused[0].reason, ModeRefusal::MountedAtStart);
}

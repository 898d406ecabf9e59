// SPDX-License-Identifier: GPL-3.0-or-later
//! How the start of the machine finds a disk that is to have a cache.

use crate::*;

#[tokio::test]
async fn fstab_that_names_the_device_is_changed_when_the_user_agrees() {
    let bench = Bench::simulated().await;
    let manager = bench.machine.manager().await;
    let levers = bench.machine.simulation().await;
    let points = bench.points().await;
    let disk = &bench.spec.origin;
    assert_eq!(manager.name_changes(disk).await.unwrap(), []);
    levers.set_fstab_name(disk, "/dev/sda1").await.unwrap();
    let refused = bench.machine.create(&bench.spec).await.unwrap_err();
    assert_eq!(refused.kind, Kind::FstabNamesDevice);

    let changes = manager.name_changes(disk).await.unwrap();
    assert_eq!(changes.len(), points.len(), "{changes:?}");
    assert_eq!(changes[0].before, "/dev/sda1");
    assert!(changes[0].after.starts_with("UUID="), "{changes:?}");
    // Nothing is changed but what was shown, and nothing without the user's authorisation.
    let mut other = changes.clone();
    other[0].after = "UUID=ffff-ffff".to_owned();
    for wrong in [&other[..], &[]] {
        let failure = Failure::from(manager.change_names(disk, wrong).await.unwrap_err());
        assert_eq!(failure.kind, Kind::PlanUnknown);
    }
    levers.set_authorized(false).await.unwrap();
    let denied = Failure::from(manager.change_names(disk, &changes).await.unwrap_err());
    assert_eq!(denied.kind, Kind::NotAuthorized);
    levers.set_authorized(true).await.unwrap();
    assert_eq!(manager.name_changes(disk).await.unwrap(), changes);

    let backup = manager.change_names(disk, &changes).await.unwrap();
    assert_eq!(backup, "/etc/fstab.before-tandem");
    assert_eq!(manager.name_changes(disk).await.unwrap(), []);
    bench.machine.create(&bench.spec).await.unwrap();
    bench
        .machine
        .remove(&bench.the_cache().await)
        .await
        .unwrap();
    bench.as_before(&points).await;
}

/// The files other than fstab, each with an entry that names the device, and what is written instead.
#[tokio::test]
async fn the_other_files_are_changed_one_after_the_other() {
    let bench = Bench::simulated().await;
    let manager = bench.machine.manager().await;
    let levers = bench.machine.simulation().await;
    let disk = &bench.spec.origin;
    let cases = [
        (
            "/etc/crypttab",
            "safe",
            "/dev/sda1",
            Kind::CrypttabNamesDevice,
        ),
        (
            "/etc/default/grub",
            "GRUB_CMDLINE_LINUX",
            "root=/dev/sda1",
            Kind::GrubNamesDevice,
        ),
        (
            "/etc/default/grub",
            "GRUB_DISABLE_LINUX_UUID",
            "true",
            Kind::GrubNamesDevice,
        ),
    ];
    for (file, entry, name, _) in cases {
        levers
            .add_start_entry(disk, file, entry, name)
            .await
            .unwrap();
    }
    let refused = async || bench.machine.create(&bench.spec).await.unwrap_err().kind;
    let mut after = Vec::new();
    for file in ["/etc/crypttab", "/etc/default/grub"] {
        let expected = cases.iter().find(|case| case.0 == file).unwrap().3;
        assert_eq!(refused().await, expected);
        let changes = manager.name_changes(disk).await.unwrap();
        assert!(
            changes.iter().all(|change| change.file == file),
            "{changes:?}"
        );
        after.extend(changes.iter().map(|change| change.after.clone()));
        let backup = manager.change_names(disk, &changes).await.unwrap();
        assert_eq!(backup, format!("{file}.before-tandem"));
    }
    assert!(after[0].starts_with("UUID="), "{after:?}");
    assert!(after[1].starts_with("root=UUID="), "{after:?}");
    assert_eq!(after[2], "false");
    assert_eq!(manager.name_changes(disk).await.unwrap(), []);

    // The command line alone says which name was used, and not which file has it: nothing is offered.
    levers
        .add_start_entry(disk, "/proc/cmdline", "", "root=/dev/sda1")
        .await
        .unwrap();
    assert_eq!(refused().await, Kind::BootNamesDevice);
    assert_eq!(manager.name_changes(disk).await.unwrap(), []);
}

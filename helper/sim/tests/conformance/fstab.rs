// SPDX-License-Identifier: GPL-3.0-or-later
//! How fstab names a disk that is to have a cache.

use super::*;

#[tokio::test]
async fn fstab_that_names_the_device_is_changed_when_the_user_agrees() {
    let bench = Bench::new().await;
    if bench.is_skipped("tests change no fstab of a real machine here; vm-system does") {
        return;
    }
    let manager = bench.machine.manager().await;
    let levers = bench.machine.simulation().await;
    let points = bench.points().await;
    let disk = &bench.spec.origin;
    assert_eq!(manager.fstab_changes(disk).await.unwrap(), []);
    levers.set_fstab_name(disk, "/dev/sda1").await.unwrap();
    let refused = bench.machine.create(&bench.spec).await.unwrap_err();
    assert_eq!(refused.kind, Kind::FstabNamesDevice);

    let changes = manager.fstab_changes(disk).await.unwrap();
    assert_eq!(changes.len(), points.len(), "{changes:?}");
    assert_eq!(changes[0].before, "/dev/sda1");
    assert!(changes[0].after.starts_with("UUID="), "{changes:?}");
    // Nothing is changed but what was shown, and nothing without the user's authorisation.
    let mut other = changes.clone();
    other[0].after = "UUID=ffff-ffff".to_owned();
    for wrong in [&other[..], &[]] {
        let failure = Failure::from(manager.change_fstab(disk, wrong).await.unwrap_err());
        assert_eq!(failure.kind, Kind::PlanUnknown);
    }
    levers.set_authorized(false).await.unwrap();
    let denied = Failure::from(manager.change_fstab(disk, &changes).await.unwrap_err());
    assert_eq!(denied.kind, Kind::NotAuthorized);
    levers.set_authorized(true).await.unwrap();
    assert_eq!(manager.fstab_changes(disk).await.unwrap(), changes);

    let backup = manager.change_fstab(disk, &changes).await.unwrap();
    assert_eq!(backup, "/etc/fstab.before-tandem");
    assert_eq!(manager.fstab_changes(disk).await.unwrap(), []);
    bench.machine.create(&bench.spec).await.unwrap();
    bench
        .machine
        .remove(&bench.the_cache().await)
        .await
        .unwrap();
    bench.as_before(&points).await;
}

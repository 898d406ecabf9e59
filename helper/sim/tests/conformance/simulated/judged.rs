// SPDX-License-Identifier: GPL-3.0-or-later
//! The judgement of the service on a device is the one that a plan gets, and each change of it is told.

use crate::Bench;
use crate::common::until;
use std::collections::BTreeSet;
use tandem_api::*;

#[tokio::test]
async fn whatever_is_offered_is_planned_and_whatever_is_refused_is_refused_for_that_reason() {
    let bench = Bench::simulated().await;
    let manager = bench.machine.manager().await;
    let all = manager.devices().await.unwrap();
    let (mut planned, mut refused) = (0, BTreeSet::new());
    for disk in &all {
        for ssd in &all {
            for later in [false, true] {
                let spec = PlanSpec {
                    origin: disk.device.object.clone(),
                    ssd: ssd.device.object.clone(),
                    erase_ssd: true,
                    at_next_start: later,
                    ..bench.spec.clone()
                };
                let against = match later {
                    true => &disk.against_disk_later,
                    false => &disk.against_disk,
                };
                let said = against.iter().chain(&ssd.against_ssd).map(|o| o.kind);
                let said: Vec<_> = said.collect();
                let names = (&disk.device.name, &ssd.device.name);
                match manager.plan(&spec).await.map_err(Failure::from) {
                    Ok(_) => {
                        assert!(said.is_empty(), "{names:?}: {said:?}");
                        planned += 1;
                    }
                    // Only the pair shows this.
                    Err(failure) if failure.kind == Kind::SameDevice => {}
                    Err(failure) if said.is_empty() && later => {
                        assert_eq!(failure.kind, Kind::NotFoundAtStart, "{names:?}");
                    }
                    Err(failure) => {
                        assert!(
                            said.contains(&failure.kind),
                            "{names:?}: {said:?} {failure:?}"
                        );
                        refused.insert(failure.kind);
                    }
                }
            }
        }
    }
    assert!(
        planned > 10 && refused.len() > 5,
        "{planned} planned, refused for {refused:?}"
    );
}

#[tokio::test]
async fn a_change_is_told_and_what_is_in_a_cache_is_offered_no_more() {
    let bench = Bench::simulated().await;
    let manager = bench.machine.manager().await;
    let of = async |object: &zbus::OwnedObjectPath| {
        let all = manager.devices().await.unwrap();
        all.into_iter()
            .find(|judged| judged.device.object == *object)
            .unwrap()
    };
    assert_eq!(of(&bench.spec.origin).await.disk_obstacle(), None);
    assert!(of(&bench.spec.ssd).await.against_ssd.is_empty());
    bench.machine.create(&bench.spec).await.unwrap();
    until("the devices of the cache", async || {
        let (disk, ssd) = (of(&bench.spec.origin).await, of(&bench.spec.ssd).await);
        let cached = |against: &[Objection]| {
            against
                .first()
                .is_some_and(|o| o.kind == Kind::AlreadyCached)
        };
        cached(&disk.against_disk) && cached(&disk.against_disk_later) && cached(&ssd.against_ssd)
    })
    .await;
}

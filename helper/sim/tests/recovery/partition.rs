// SPDX-License-Identifier: GPL-3.0-or-later
//! A service that is killed while it makes or deletes the partition of a cache.

use super::*;

async fn sharing(host: &dyn Host) -> Plan {
    creation_on(host, Mode::Writethrough, 1 << 30).await
}

#[tokio::test]
async fn a_killed_creation_leaves_no_partition_without_a_cache() {
    let mut seen = Vec::new();
    for at in 0..7 {
        for after in [false, true] {
            let world = Arc::new(World::default());
            world.set_step_time(Duration::ZERO);
            let folder = Folder::new(&format!("partition-{at}-{after}"));
            let store = Store::open(&folder.0).unwrap();
            let host = Simulated::new(world.clone());
            let plan = sharing(&host).await;
            let makes = |a: &Action| matches!(a, Action::CreatePartition(_));
            assert!(plan.actions.iter().any(makes));
            let died = run_and_die(&world, &store, &plan, at, after).await;
            assert_eq!(died, at < plan.actions.len(), "at {at}");
            // `state` accepts the plain disk only with an SSD that is empty as before.
            let state = state(&host, &store).await;
            let map = plan
                .actions
                .iter()
                .position(|a| matches!(a, Action::Map(_)));
            let map = map.unwrap();
            let mapped = at > map || (at == map && after);
            let expected = if mapped { "cached" } else { "plain" };
            assert_eq!(state, expected, "at {at}, after {after}");
            seen.push(state);
        }
    }
    assert!(seen.contains(&"plain") && seen.contains(&"cached"));
}

#[tokio::test]
async fn a_killed_removal_leaves_no_partition_without_a_cache() {
    for at in 0..8 {
        for after in [false, true] {
            let world = Arc::new(World::default());
            world.set_step_time(Duration::ZERO);
            let folder = Folder::new(&format!("unpartition-{at}-{after}"));
            let store = Store::open(&folder.0).unwrap();
            let host = Simulated::new(world.clone());
            let plan = sharing(&host).await;
            apply::run(&host, &store, &plan, 0, &Unwatched)
                .await
                .unwrap();
            assert_eq!(state(&host, &store).await, "cached");
            let plan = removal(&host, &store).await;
            run_and_die(&world, &store, &plan, at, after).await;
            state(&host, &store).await;
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A killed job leaves no memory taken that no cache uses.

use super::*;
use tandem_helper::model::memory::Room;

/// The plan of a cache in the computer's memory.
async fn in_memory(host: &dyn Host) -> Plan {
    let spec = PlanSpec {
        origin: path("sda1"),
        ssd: "/".try_into().unwrap(),
        mode: Mode::Writethrough,
        erase_ssd: false,
        at_next_start: false,
        partition_bytes: 0,
        target: Target::Tandem,
        memory_bytes: 1 << 30,
    };
    let Room { total, .. } = host.memory_room().unwrap();
    let facts = Facts {
        memory_for_cache: total / 2,
        ..facts(host).await
    };
    plan::create(&spec, UUID, &facts, &[], Vec::new()).unwrap()
}

async fn takes_memory(host: &dyn Host) -> bool {
    let facts = facts(host).await;
    facts.devices.iter().any(|d| d.ident.is_memory())
}

#[tokio::test]
async fn a_job_with_memory_that_is_killed_takes_none_without_a_cache() {
    let mut seen = Vec::new();
    for removes in [false, true] {
        for at in 0..6 {
            for after in [false, true] {
                let world = Arc::new(World::default());
                world.set_step_time(Duration::ZERO);
                let folder = Folder::new(&format!("memory-{removes}-{at}-{after}"));
                let store = Store::open(&folder.0).unwrap();
                let host = Simulated::new(world.clone());
                let mut plan = in_memory(&host).await;
                if removes {
                    apply::run(&host, &store, &plan, 0, &Unwatched)
                        .await
                        .unwrap();
                    plan = removal(&host, &store).await;
                }
                let died = run_and_die(&world, &store, &plan, at, after).await;
                assert_eq!(died, at < plan.actions.len());
                let state = state(&host, &store).await;
                let cached = state == "cached";
                assert_eq!(takes_memory(&host).await, cached, "{removes} {at} {after}");
                seen.push((removes, state));
            }
        }
    }
    assert!(!seen.contains(&(true, "cached")));
    for expected in [(false, "plain"), (false, "cached"), (true, "plain")] {
        assert!(seen.contains(&expected), "{expected:?}");
    }
}

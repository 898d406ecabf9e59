// SPDX-License-Identifier: GPL-3.0-or-later
//! The service dies in the middle of a job, and a device is unplugged there and plugged in again. The kernel takes the device
//! for another one. The job ends all the same, without a start of the computer.

use super::*;

const DISK: [&str; 1] = ["sda1"];
/// The SSD, and the partition that a cache gets on it.
const SSD: [&str; 2] = ["sdc", "sdc1"];

fn replug(world: &World, names: &[&str]) {
    for name in names {
        world.pull_out(name);
    }
    for name in names {
        world.put_back(path(name).as_str());
    }
}

/// Every step of a creation or of a removal. `bytes`: of the partition for the cache; 0: the cache takes the whole SSD.
async fn end_without(names: &[&str], removes: bool, bytes: u64) {
    for (at, after) in (0..6).flat_map(|at| [(at, false), (at, true)]) {
        let what = format!("{names:?} {removes} {bytes} at {at}, after {after}");
        let world = Arc::new(World::default());
        world.set_step_time(Duration::ZERO);
        let folder = Folder::new(&format!("unplugged-{}-{removes}-{bytes}", names[0]));
        let store = Store::open(&folder.0).unwrap();
        let host = Simulated::new(world.clone());
        let mut plan = creation_on(&host, Mode::Writethrough, bytes).await;
        if removes {
            apply::run(&host, &store, &plan, 0, &Unwatched)
                .await
                .unwrap();
            plan = removal(&host, &store).await;
        }
        let mortal = Mortal::new(&world, at, after);
        let job = apply::run(&mortal, &store, &plan, 0, &Unwatched);
        if !mortal.until_death(job).await {
            assert_eq!(at, plan.actions.len(), "{what}");
            return;
        }
        replug(&world, names);
        // After a failure the service comes back to the job a minute later.
        for intent in store.intents().into_iter().chain(store.intents()) {
            let _ = apply::recover(&host, &store, intent, &Unwatched).await;
        }
        assert!(store.intents().is_empty(), "{what}");
        // A mapping and its record are there together.
        let live = host.live_mappings().await.unwrap();
        assert_eq!(live.len(), store.caches().len(), "{what}");
    }
}

#[tokio::test]
async fn a_job_ends_though_its_disk_was_plugged_in_again() {
    for (removes, bytes) in [(false, 0), (true, 0), (false, 1 << 30), (true, 1 << 30)] {
        end_without(&DISK, removes, bytes).await;
    }
}

// A partition that a creation has made on an empty SSD is deleted by the next start of the computer.
#[tokio::test]
async fn a_job_ends_though_its_ssd_was_plugged_in_again() {
    for (removes, bytes) in [(false, 0), (true, 0), (true, 1 << 30)] {
        end_without(&SSD, removes, bytes).await;
    }
}

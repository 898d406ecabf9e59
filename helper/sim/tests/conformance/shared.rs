// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches on partitions that the service makes on an SSD.

use super::*;

pub(crate) const BYTES: u64 = 64 << 20;

impl Bench {
    pub(crate) fn sharing(&self, disk: Option<&str>) -> PlanSpec {
        PlanSpec {
            origin: disk.map_or_else(|| self.spec.origin.clone(), common::block),
            partition_bytes: BYTES,
            ..self.spec.clone()
        }
    }

    pub(crate) async fn layout(&self, ssd: &zbus::OwnedObjectPath) -> Vec<SsdPart> {
        self.machine.manager().await.ssd_layout(ssd).await.unwrap()
    }
}

#[tokio::test]
async fn a_cache_on_a_new_partition_works_and_the_partition_goes_with_it() {
    let bench = Bench::new().await;
    let points = bench.points().await;
    let before = bench.layout(&bench.spec.ssd).await;
    assert_eq!(before.len(), 1, "the test SSD is empty: {before:?}");
    assert_eq!(before[0].used_for, PartUse::Free);
    bench.machine.create(&bench.sharing(None)).await.unwrap();
    let cache = bench.the_cache().await;
    assert_eq!(cache.state().await.unwrap(), CacheState::Active);
    let layout = bench.layout(&bench.spec.ssd).await;
    let ours = layout.iter().find(|part| part.used_for == PartUse::Cache);
    let ours = ours.unwrap_or_else(|| panic!("{layout:?}"));
    assert_eq!(ours.cache, cache.uuid().await.unwrap());
    assert_eq!(ours.bytes, BYTES);
    let text = cache.ssd_text().await.unwrap();
    assert_eq!((text.size, text.name), (BYTES, ours.device.name.clone()));
    // The rest of the SSD is free for the cache of another disk.
    let free = layout.iter().filter(|part| part.used_for == PartUse::Free);
    let table = 4 << 20;
    assert!(free.map(|part| part.bytes).max().unwrap() >= before[0].bytes - BYTES - table);
    bench.machine.remove(&cache).await.unwrap();
    bench.as_before(&points).await;
}

#[tokio::test]
async fn the_share_of_a_cache_grows_and_shrinks_while_programs_use_the_disk() {
    let bench = Bench::new().await;
    let points = bench.points().await;
    bench.machine.create(&bench.sharing(None)).await.unwrap();
    let cache = bench.the_cache().await;
    let mapped = cache.mapped().await.unwrap();
    let point = points.first().expect("the disk is mounted");
    let sleeper = bench.occupy(&mapped, point).await;
    let uuid = cache.uuid().await.unwrap();
    for bytes in [BYTES * 3 / 2, BYTES] {
        let plan = cache.plan_resize(bytes).await.unwrap();
        assert_eq!(plan.ssd.size, bytes);
        let job = cache.resize(&plan.plan_id, &plan.digest).await.unwrap();
        bench.machine.end(job).await.unwrap();
        let cache = bench.the_cache().await;
        assert_eq!(cache.state().await.unwrap(), CacheState::Active);
        assert_eq!(cache.uuid().await.unwrap(), uuid);
        assert_eq!(cache.mapped().await.unwrap(), mapped);
        assert_eq!(cache.mount_points().await.unwrap(), points);
        assert_eq!(cache.ssd_text().await.unwrap().size, bytes);
        let layout = bench.layout(&bench.spec.ssd).await;
        let shares = layout.iter().filter(|part| part.used_for != PartUse::Free);
        let shares: Vec<_> = shares.map(|part| (part.bytes, &part.cache)).collect();
        assert_eq!(shares, [(bytes, &uuid)]);
    }
    bench.leave(&mapped, sleeper).await;
    bench.machine.remove(&cache).await.unwrap();
    bench.as_before(&points).await;
}

#[tokio::test]
async fn sizes_that_a_share_cannot_have_are_refused_and_change_nothing() {
    let bench = Bench::new().await;
    let points = bench.points().await;
    let refused = async |bytes| {
        let cache = bench.the_cache().await;
        Failure::from(cache.plan_resize(bytes).await.unwrap_err()).kind
    };
    bench.machine.create(&bench.sharing(None)).await.unwrap();
    let before = bench.layout(&bench.spec.ssd).await;
    assert_eq!(refused(BYTES - 1).await, Kind::SsdTooSmall);
    assert_eq!(refused(BYTES).await, Kind::InvalidArgument);
    assert_eq!(refused(1 << 50).await, Kind::SsdNoFreeSpace);
    assert_eq!(bench.layout(&bench.spec.ssd).await, before);
    let cache = bench.the_cache().await;
    bench.machine.remove(&cache).await.unwrap();
    // A cache on a whole SSD has no share that the service made.
    bench.machine.create(&bench.spec).await.unwrap();
    assert_eq!(refused(2 * BYTES).await, Kind::NotResizable);
    let cache = bench.the_cache().await;
    bench.machine.remove(&cache).await.unwrap();
    bench.as_before(&points).await;
}

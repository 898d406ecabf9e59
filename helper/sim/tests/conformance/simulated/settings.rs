// SPDX-License-Identifier: GPL-3.0-or-later
//! The limit of dirty data with programs that write, and a limit that cannot be recorded.

use crate::settings::LIMIT;
use crate::*;
use tandem_api::DirtyLimit;

/// In a second 50 MB can be written, and no more may be dirty.
#[tokio::test]
async fn no_more_gets_dirty_than_the_limit_says() {
    let bench = Bench::simulated().await;
    let writeback = PlanSpec {
        mode: Mode::Writeback,
        ..bench.spec.clone()
    };
    bench.machine.create(&writeback).await.unwrap();
    let cache = bench.the_cache().await;
    let limit = DirtyLimit {
        seconds: 30,
        bytes: 2 << 20,
        rest: 0,
    };
    cache.set_dirty_limit(limit).await.unwrap();
    let levers = bench.machine.simulation().await;
    levers.advance(600).await.unwrap();
    cache.watch().await.unwrap();
    until("a sample with dirty data", async || {
        cache.dirty_bytes().await.unwrap() > 0
    })
    .await;
    let dirty = cache.dirty_bytes().await.unwrap();
    assert!(dirty <= 2 * limit.bytes, "{dirty} bytes are dirty");
}

#[tokio::test]
async fn a_limit_that_cannot_be_recorded_is_taken_back() {
    let bench = Bench::simulated().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    bench.machine.no_cache_record(&cache.uuid().await.unwrap());
    let failure = Failure::from(cache.set_dirty_limit(LIMIT).await.unwrap_err());
    assert_eq!(failure.kind, Kind::Internal);
    assert_eq!(cache.dirty_limit().await.unwrap(), DirtyLimit::default());
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A new beginning of the figures that cannot be saved.

use crate::*;

#[tokio::test]
async fn a_new_beginning_that_cannot_be_saved_does_not_begin() {
    let bench = Bench::simulated().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    bench.reads(&cache).await;
    bench.machine.no_history(&cache.uuid().await.unwrap());
    let before = cache.long_history(Span::Day).await.unwrap();
    let failure = Failure::from(cache.reset_statistics().await.unwrap_err());
    assert_eq!(failure.kind, Kind::Internal);
    let now = cache.long_history(Span::Day).await.unwrap();
    assert!(!now.was_reset);
    assert_eq!(now.total.start, before.total.start);
    assert!(now.total.read_ssd >= before.total.read_ssd);
}

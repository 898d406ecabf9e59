// SPDX-License-Identifier: GPL-3.0-or-later
//! The figures since the set-up, and their new beginning.

use super::*;

impl Bench {
    /// Has two samples taken, with reads between them where the machine is simulated.
    pub(crate) async fn reads(&self, cache: &CacheProxy<'_>) {
        let mut samples = cache.receive_sampled().await.unwrap();
        cache.watch().await.unwrap();
        for _ in 0..2 {
            if !self.real {
                self.machine.simulation().await.advance(60).await.unwrap();
            }
            tokio::time::timeout(LIMIT, samples.next()).await.unwrap();
        }
        cache.unwatch().await.unwrap();
    }
}

#[tokio::test]
async fn the_statistics_begin_anew_and_that_can_be_taken_back() {
    let mut bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let all = async || cache.long_history(Span::Day).await.unwrap();
    bench.reads(&cache).await;
    let before = all().await;
    assert!(!before.was_reset && before.total.start > 0);
    let nothing = Failure::from(cache.undo_reset_statistics().await.unwrap_err());
    assert_eq!(
        (nothing.kind, nothing.name.as_str()),
        (Kind::WrongState, "statistics")
    );

    cache.reset_statistics().await.unwrap();
    let anew = all().await;
    assert!(anew.was_reset && anew.total.start >= before.total.start);
    if !bench.real {
        assert!(before.total.read_ssd > 0 && before.ssd_written.bytes > 0);
        assert!(anew.total.read_ssd < before.total.read_ssd);
    }
    // The days in the chart stay, and so does what wore out the SSD.
    assert!(anew.periods.len() >= before.periods.len());
    assert_eq!(anew.ssd_written.since, before.ssd_written.since);
    assert!(anew.ssd_written.bytes >= before.ssd_written.bytes);

    bench.reads(&cache).await;
    let since = all().await.total;
    cache.undo_reset_statistics().await.unwrap();
    let back = all().await;
    assert!(!back.was_reset);
    assert_eq!(back.total.start, before.total.start);
    assert!(back.total.read_ssd >= before.total.read_ssd + since.read_ssd);
    cache.undo_reset_statistics().await.unwrap_err();

    cache.reset_statistics().await.unwrap();
    let anew = all().await.total.start;
    if !bench.real {
        bench.machine.restart_service().await;
        let cache = bench.the_cache().await;
        let kept = cache.long_history(Span::Day).await.unwrap();
        assert!(kept.was_reset && kept.total.start == anew);
        return;
    }
    bench.machine.remove(&cache).await.unwrap();
}

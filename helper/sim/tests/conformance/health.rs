// SPDX-License-Identifier: GPL-3.0-or-later
//! What an SSD says of its own health.

use super::*;

#[tokio::test]
async fn a_real_ssd_without_such_a_report_is_not_called_good() {
    let bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let health = cache.ssd_health().await.unwrap();
    assert_eq!(
        health.read_at == 0,
        health.report == SelfReport::Unknown,
        "{health:?}"
    );
    bench.machine.remove(&cache).await.unwrap();
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A kernel without the module is noticed when it is installed, and nothing new stays on an SSD only meanwhile.

use crate::Bench;
use crate::common::until;
use tandem_api::*;

#[tokio::test]
async fn write_back_waits_while_a_kernel_lacks_the_module() {
    let bench = Bench::new().await;
    if bench.is_skipped("kernels are installed on the simulated machine only") {
        return;
    }
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    let manager = bench.machine.manager().await;
    let mode = async |wanted: Mode| cache.mode().await.is_ok_and(|mode| mode == wanted);
    let lacking = async || manager.kernels_without_module().await.unwrap();
    assert!(lacking().await.is_empty());

    simulation
        .set_kernels_without_module(&["6.99"])
        .await
        .unwrap();
    manager.check_kernels().await.unwrap();
    until("the property", async || lacking().await == ["6.99"]).await;
    until("write-through", async || mode(Mode::Writethrough).await).await;
    until("nothing to be unwritten", async || {
        !cache.may_be_unwritten().await.unwrap_or(true)
    })
    .await;

    simulation.set_kernels_without_module(&[]).await.unwrap();
    manager.check_kernels().await.unwrap();
    until("write-back", async || mode(Mode::Writeback).await).await;
    assert!(lacking().await.is_empty());

    // What the user chooses meanwhile is not changed afterwards.
    simulation
        .set_kernels_without_module(&["6.99"])
        .await
        .unwrap();
    manager.check_kernels().await.unwrap();
    until("write-through", async || mode(Mode::Writethrough).await).await;
    cache.set_mode(Mode::Writearound).await.unwrap();
    simulation.set_kernels_without_module(&[]).await.unwrap();
    manager.check_kernels().await.unwrap();
    assert!(mode(Mode::Writearound).await);
    bench.machine.remove(&cache).await.unwrap();
    assert_eq!(simulation.lost_bytes().await.unwrap(), 0);
}

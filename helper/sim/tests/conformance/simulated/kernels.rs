// SPDX-License-Identifier: GPL-3.0-or-later
//! The service notices an installed kernel without the module, and no new data stays on an SSD only meanwhile.

use crate::Bench;
use crate::common::until;
use tandem_api::*;

#[tokio::test]
async fn write_back_waits_while_a_kernel_lacks_the_module() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    let manager = bench.machine.manager().await;
    let mode = async |wanted: Mode| cache.mode().await.is_ok_and(|mode| mode == wanted);
    // This proxy keeps the value that it read first until the service signals a change.
    let follower = CacheProxy::builder(&bench.machine.connection)
        .path(cache.inner().path().to_owned())
        .build()
        .await
        .unwrap();
    let waits = async |wanted: bool| {
        let (now, signalled) = (
            cache.waits_for_kernel().await,
            follower.waits_for_kernel().await,
        );
        now.is_ok_and(|now| now == wanted) && signalled.is_ok_and(|now| now == wanted)
    };
    assert!(waits(false).await);
    let lacking = async || manager.kernels_without_module().await.unwrap();
    assert!(lacking().await.is_empty());

    simulation
        .set_kernels_without_module(&["6.99"])
        .await
        .unwrap();
    manager.check_kernels().await.unwrap();
    until("the property", async || lacking().await == ["6.99"]).await;
    until("write-through", async || mode(Mode::Writethrough).await).await;
    until("the cache to wait", async || waits(true).await).await;
    until("nothing to be unwritten", async || {
        !cache.may_be_unwritten().await.unwrap_or(true)
    })
    .await;

    simulation.set_kernels_without_module(&[]).await.unwrap();
    manager.check_kernels().await.unwrap();
    until("write-back", async || mode(Mode::Writeback).await).await;
    until("the end of the wait", async || waits(false).await).await;
    assert!(lacking().await.is_empty());

    // If the user chooses a mode meanwhile, the service does not change that mode afterwards.
    simulation
        .set_kernels_without_module(&["6.99"])
        .await
        .unwrap();
    manager.check_kernels().await.unwrap();
    until("write-through", async || mode(Mode::Writethrough).await).await;
    until("the cache to wait", async || waits(true).await).await;
    cache.set_mode(Mode::Writearound).await.unwrap();
    simulation.set_kernels_without_module(&[]).await.unwrap();
    manager.check_kernels().await.unwrap();
    assert!(mode(Mode::Writearound).await);
    until("the end of the wait", async || waits(false).await).await;
    bench.machine.remove(&cache).await.unwrap();
    assert_eq!(simulation.lost_bytes().await.unwrap(), 0);
}

#[tokio::test]
async fn a_key_is_enrolled_by_a_password_and_a_restart() {
    let bench = Bench::simulated().await;
    let simulation = bench.machine.simulation().await;
    let manager = bench.machine.manager().await;
    let key = async |wanted: SigningKey| manager.signing_key().await.is_ok_and(|key| key == wanted);
    assert!(key(SigningKey::NotNeeded).await);
    let unneeded = Failure::from(manager.enroll_key("long enough").await.unwrap_err());
    assert_eq!(unneeded.kind, Kind::WrongState);

    simulation.set_module(ModuleState::Refused).await.unwrap();
    until("the key not to be trusted", async || {
        key(SigningKey::NotEnrolled).await
    })
    .await;
    assert_eq!(
        manager.module_problem().await.unwrap().0,
        ModuleProblem::NotSigned
    );
    for refused in [
        "short",
        "line\nbreak in it",
        "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
    ] {
        let failure = Failure::from(manager.enroll_key(refused).await.unwrap_err());
        assert_eq!(failure.kind, Kind::InvalidArgument, "{refused:?}");
    }
    assert!(key(SigningKey::NotEnrolled).await);
    manager.enroll_key("long enough").await.unwrap();
    until("the request", async || key(SigningKey::Pending).await).await;
    simulation.restart().await.unwrap();
    until("the trust", async || key(SigningKey::Enrolled).await).await;
    assert_eq!(
        manager.module_problem().await.unwrap().0,
        ModuleProblem::None
    );
}

#[tokio::test]
async fn another_problem_and_another_key_are_signalled_while_the_state_stays() {
    let bench = Bench::simulated().await;
    let simulation = bench.machine.simulation().await;
    let manager = bench.machine.manager().await;
    // This proxy keeps the values that it read first until the service signals a change.
    let follower = ManagerProxy::new(&bench.machine.connection).await.unwrap();
    let shows = async |problem: ModuleProblem, key: SigningKey| {
        let (now, _) = follower.module_problem().await.unwrap();
        (now, follower.signing_key().await.unwrap()) == (problem, key)
    };
    assert!(shows(ModuleProblem::None, SigningKey::NotNeeded).await);
    simulation.set_module(ModuleState::NotBuilt).await.unwrap();
    until("the first problem", async || {
        shows(ModuleProblem::BuildFailed, SigningKey::NotNeeded).await
    })
    .await;

    for (problem, key) in [
        (ModuleProblem::NoHeaders, SigningKey::NotNeeded),
        (ModuleProblem::NoHeaders, SigningKey::Missing),
        (ModuleProblem::Excluded, SigningKey::NotEnrolled),
    ] {
        simulation.set_module_problem(problem, key).await.unwrap();
        manager.check_kernels().await.unwrap();
        until("the change", async || shows(problem, key).await).await;
    }

    let (problem, key) = (ModuleProblem::Excluded, SigningKey::NotEnrolled);
    manager.enroll_key("long enough").await.unwrap();
    until("the request", async || {
        shows(problem, SigningKey::Pending).await
    })
    .await;
    // The service compares with the key as it was after the request.
    simulation.set_module_problem(problem, key).await.unwrap();
    manager.check_kernels().await.unwrap();
    until("the end of the request", async || shows(problem, key).await).await;
}

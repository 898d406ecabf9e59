// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of states that only the simulated machine can be brought into.

mod away;
mod found;
mod giving_up;
mod growth;
mod grub;
mod health;
mod judged;
mod kept;
mod kernel_cache;
mod kernels;
mod memory;
mod naming;
mod network;
mod other_history;
mod others;
mod removals;
mod renamed;
mod returning;
mod settings;
mod shared;
mod sharing;
mod speed;
mod start_names;
mod statistics;
mod watch;
mod writeback;

use crate::Bench;
use crate::common::until;
use tandem_api::{CacheProxy, CacheState, SimulationProxy};

/// Lets ten minutes pass, and returns how many frames of the cache are filled then. The cache is watched from now on.
async fn fill(cache: &CacheProxy<'_>, levers: &SimulationProxy<'_>) -> u64 {
    let time = async || cache.latest().await.unwrap().time_us;
    cache.watch().await.unwrap();
    until("a sample", async || time().await > 0).await;
    let before = time().await;
    levers.advance(600).await.unwrap();
    until("ten minutes", async || time().await > before + 600_000_000).await;
    cache.latest().await.unwrap().frames_used
}

/// Makes the cache of the bench, fills it and removes it. After a start of the machine, the cache has what it had if it starts
/// `warm`, and begins with nothing otherwise.
async fn starts(warm: bool, bench: &Bench, levers: &SimulationProxy<'_>) {
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let before = fill(&cache, levers).await;
    assert!(before > 0);
    levers.restart().await.unwrap();
    until("a start", async || {
        let sample = cache.latest().await.unwrap();
        cache.state().await == Ok(CacheState::Active) && (sample.frames_used >= before / 2) == warm
    })
    .await;
    bench.machine.remove(&cache).await.unwrap();
}

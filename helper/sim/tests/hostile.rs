// SPDX-License-Identifier: GPL-3.0-or-later
//! Sixty connections of another user that flood the service with calls and never read an answer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use common::flood::{CONNECTIONS, NOBODY, answers, call, connect};
use common::{Machine, spec, until};
use futures_util::StreamExt;
use std::io::Write;
use std::os::unix::net::UnixStream;
use tandem_api::*;
use zbus::Message;

const OBJECT_MANAGER: &str = "org.freedesktop.DBus.ObjectManager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const INTROSPECTABLE: &str = "org.freedesktop.DBus.Introspectable";
/// Calls of each connection; the bus allows 128 without an answer.
const CALLS: usize = 120;
/// Histories that one user gets: 54 at once, and one more every 19 seconds. They are what takes memory in the service and
/// on the bus.
const HISTORIES: usize = 60;
/// Only a history is that long.
const HISTORY_BYTES: u64 = 100_000;
/// Bytes by which the memory of the service may grow by calls that zbus itself answers: about 4 MiB with the bound, up to
/// 50 MiB without it. A test of the connection itself counts the calls.
const GROWTH_OF_READS: u64 = 16 << 20;
/// Samples that the service keeps.
const HISTORY: usize = 600;
/// Microseconds between two samples, which are to be one second apart, on a busy machine.
const GAP: u64 = 5_000_000;

/// Opens the connections, makes all calls on each, and returns the connections. `message` returns the n-th call of a
/// connection.
fn flood(address: &str, message: impl Fn(usize) -> Message) -> Vec<UnixStream> {
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| connect(address)).collect();
    for n in 0..CALLS {
        for stream in &mut connections {
            stream.write_all(message(n).data()).unwrap();
        }
    }
    connections
}

/// The n-th call of a connection that asks for plans, histories and objects. A user that is not root floods under its
/// own name, with calls that give no plans: a user's new plans take the place of its old ones.
fn costly(cache: &str, n: usize, other_user: bool) -> Message {
    let remove = if other_user {
        "PlanRemove"
    } else {
        "PlanDiscard"
    };
    let message = match n % 7 {
        3 => call((cache, CACHE_INTERFACE, remove)).build(&()),
        4 => call((cache, CACHE_INTERFACE, "PlanDiscard")).build(&()),
        5 => {
            let wanted = spec(if other_user { "sda2" } else { "sda1" }, "sde");
            call((ROOT_PATH, MANAGER_INTERFACE, "Plan")).build(&(&wanted,))
        }
        6 => call((ROOT_PATH, OBJECT_MANAGER, "GetManagedObjects")).build(&()),
        _ => call((cache, CACHE_INTERFACE, "History")).build(&()),
    };
    message.unwrap()
}

/// The n-th call of a connection that makes the calls that zbus itself answers.
fn standard(cache: &str, n: usize) -> Message {
    let message = match n % 4 {
        0 => call((cache, PROPERTIES, "GetAll")).build(&CACHE_INTERFACE),
        1 => call((cache, PROPERTIES, "Get")).build(&(CACHE_INTERFACE, "OriginText")),
        _ => call((cache, INTROSPECTABLE, "Introspect")).build(&()),
    };
    message.unwrap()
}

/// A value of the process's status, in bytes.
fn memory(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib: u64 = line
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    kib << 10
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_calls_gets_few_histories_and_delays_neither_samples_nor_an_authorized_job() {
    let machine = Machine::simulated().await;
    machine.create(&spec("sda1", "sdc")).await.unwrap();
    let cache = machine.caches().await.remove(0);
    let simulation = machine.simulation().await;
    simulation.set_sample_period(5).await.unwrap();
    cache.watch().await.unwrap();
    until("a whole history", async || {
        cache.history().await.unwrap().len() == HISTORY
    })
    .await;
    simulation.set_sample_period(1000).await.unwrap();
    let mut samples = cache.receive_sampled().await.unwrap();
    let creation = PlanSpec {
        erase_ssd: true,
        at_next_start: false,
        ..spec("sda2", "sde")
    };
    let plan = machine.plan(&creation).await.unwrap();

    let (address, path) = (machine.address.clone(), cache.inner().path().to_string());
    let flood = std::thread::spawn(move || {
        let root = rustix::process::geteuid().is_root();
        if root {
            // This changes the user of this thread only.
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(NOBODY)).unwrap();
        }
        flood(&address, |n| costly(&path, n, root))
    });
    let mut latest = samples.next().await.unwrap().args().unwrap().sample.time_us;
    while !flood.is_finished() {
        latest = next(&mut samples, latest).await;
    }
    let manager = machine.manager().await;
    let mut job = None;
    until("the job", async || {
        let made = manager.create(&plan.plan_id, &plan.digest).await;
        let made = made.map_err(Failure::from);
        // All calls of the user that floods count.
        if !rustix::process::geteuid().is_root()
            && made.as_ref().is_err_and(|f| f.kind == Kind::TooMany)
        {
            return false;
        }
        job = Some(made.unwrap());
        true
    })
    .await;
    machine.end(job.unwrap()).await.unwrap();
    for _ in 0..5 {
        latest = next(&mut samples, latest).await;
    }
    // Each call has an answer. Most answers are that there are too many calls.
    let mut histories = 0;
    for mut stream in flood.join().unwrap() {
        let all = answers(&mut stream, CALLS);
        assert_eq!(all.len(), CALLS);
        histories += all.iter().filter(|bytes| **bytes > HISTORY_BYTES).count();
    }
    println!("{histories} histories");
    assert!(histories <= HISTORIES, "{histories} histories were sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_reads_takes_little_memory_and_delays_no_samples() {
    let machine = Machine::simulated().await;
    machine.create(&spec("sda1", "sdc")).await.unwrap();
    let cache = machine.caches().await.remove(0);
    cache.watch().await.unwrap();
    let mut samples = cache.receive_sampled().await.unwrap();
    let pid = machine.pid();
    // From here on the kernel keeps the peak of the process's memory.
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
    let before = memory(pid, "VmRSS:");
    let (address, path) = (machine.address.clone(), cache.inner().path().to_string());
    let flood = std::thread::spawn(move || flood(&address, |n| standard(&path, n)));
    let mut latest = samples.next().await.unwrap().args().unwrap().sample.time_us;
    while !flood.is_finished() {
        latest = next(&mut samples, latest).await;
    }
    for _ in 0..5 {
        latest = next(&mut samples, latest).await;
    }
    let grown = memory(pid, "VmHWM:").saturating_sub(before);
    println!("the service has {grown} bytes more");
    assert!(
        grown < GROWTH_OF_READS,
        "the service has {grown} bytes more"
    );
    let connections = flood.join().unwrap();
    for mut stream in connections {
        assert_eq!(answers(&mut stream, CALLS).len(), CALLS);
    }
}

/// The time of the next sample. Checks that the time since the last sample is not long.
async fn next(samples: &mut SampledStream, before: u64) -> u64 {
    let sample = tokio::time::timeout(common::LIMIT, samples.next()).await;
    let sample = sample.expect("no sample comes any more").unwrap();
    let at = sample.args().unwrap().sample.time_us;
    assert!(at - before < GAP, "no sample for {} us", at - before);
    at
}

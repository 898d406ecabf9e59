// SPDX-License-Identifier: GPL-3.0-or-later
//! Sixty connections of a user without any right call each method and read each property that introspection shows. The
//! service does no work for them: a property is a copy of memory, and a method authorises its caller first. Only a method
//! that plans asks the machine, one call of a user at a time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use common::flood::{CONNECTIONS, NOBODY, answers, call, connect};
use common::introspect::introspect;
use common::{Machine, block, spec, until};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tandem_api::*;
use zbus::Message;

const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const SIMULATION: &str = "org.tandemcache.Tandem1.Simulation";
/// The methods that everybody may call and that ask the machine, in the queue of their user.
const PLANNING: [&str; 6] = [
    "Plan",
    "PlanRemove",
    "PlanDiscard",
    "PlanResize",
    "SsdLayout",
    "NameChanges",
];
/// Calls of each connection with each member.
const CALLS: usize = 2;
/// How long the simulated machine takes for each question, in milliseconds, so that questions at the same time are seen.
const QUESTION: u32 = 5;

/// A call of a method, with arguments that would have an effect if the call were allowed.
fn method(path: &str, (interface, name, signature): &(String, String, String)) -> Message {
    let call = call((path, interface, name));
    let disk = block("sda2");
    let message = match signature.as_str() {
        "" => call.build(&()),
        "ss" => call.build(&("0", "0")),
        "s" if name == "EnrollKey" => call.build(&("long enough",)),
        "s" => call.build(&("writeback",)),
        "u" => call.build(&(5u32,)),
        "b" => call.build(&(true,)),
        "t" => call.build(&(2_u64 << 30,)),
        "(utu)" => call.build(&((5u32, 0u64, 60u32),)),
        "o" => call.build(&(disk,)),
        "os" => call.build(&(disk, "ab".repeat(16))),
        "(oosbbtst)" => call.build(&(spec("sda2", "sde"),)),
        "oa(ssss)" => call.build(&(disk, vec![("/etc/fstab", "/", "/dev/sda2", "UUID=ab")])),
        other => panic!("{name} takes {other}: teach this test to call it"),
    };
    message.unwrap()
}

/// Each call on all connections at the same time, and their answers.
fn flood(connections: &mut [UnixStream], message: &Message) {
    for _ in 0..CALLS {
        for stream in &mut *connections {
            stream.write_all(message.data()).unwrap();
        }
    }
    for stream in connections {
        assert_eq!(answers(stream, CALLS).len(), CALLS, "{message:?}");
    }
}

/// Connections of another user, if the test may change its user.
fn strangers(address: String) -> Vec<UnixStream> {
    let connect = move || {
        if rustix::process::geteuid().is_root() {
            // This changes the user of this thread only.
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(NOBODY)).unwrap();
        }
        (0..CONNECTIONS).map(|_| connect(&address)).collect()
    };
    std::thread::spawn(connect).join().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_method_and_no_property_has_the_service_work_for_a_user_without_rights() {
    let machine = Machine::simulated().await;
    let simulation = machine.simulation().await;
    machine.create(&spec("sda1", "sdc")).await.unwrap();
    let cache = machine.caches().await.remove(0).inner().path().to_string();
    let mut paths = vec![ROOT_PATH.to_owned(), cache];
    if rustix::process::geteuid().is_root() {
        // A job that is under way all the time, of another user.
        simulation.set_step_time(3_600_000).await.unwrap();
        simulation.set_users(&block("sdb1"), &[]).await.unwrap();
        let creation = PlanSpec {
            erase_ssd: true,
            ..spec("sdb1", "sde")
        };
        let plan = machine.plan(&creation).await.unwrap();
        let manager = machine.manager().await;
        let job = manager.create(&plan.plan_id, &plan.digest).await.unwrap();
        paths.push(job.to_string());
    }
    simulation.set_authorized(false).await.unwrap();
    simulation.set_question_time(QUESTION).await.unwrap();
    let mut last = 0;
    until("the service to be at rest", async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = simulation.questions().await.unwrap().0;
        std::mem::replace(&mut last, now) == now
    })
    .await;

    let mut connections = strangers(machine.address.clone());
    let (mut called, mut read) = (0, 0);
    for path in &paths {
        let found = introspect(&machine, path).await;
        let ours = |interface: &str| interface != SIMULATION && interface != PROPERTIES;
        let methods = found.methods.iter().filter(|found| ours(&found.0));
        let all = call((path, PROPERTIES, "GetAll"));
        let mut messages: Vec<_> = methods
            .map(|found| (found.1.clone(), method(path, found)))
            .collect();
        called += messages.len();
        for (interface, name, _) in found.properties.iter().filter(|found| ours(&found.0)) {
            let get = call((path, PROPERTIES, "Get")).build(&(interface, name));
            messages.push((name.clone(), get.unwrap()));
            read += 1;
        }
        let interface = found
            .properties
            .first()
            .map_or("", |found| found.0.as_str());
        messages.push(("GetAll".to_owned(), all.build(&(interface,)).unwrap()));
        for (name, message) in messages {
            let (before, _) = simulation.questions().await.unwrap();
            flood(&mut connections, &message);
            let (after, most_open) = simulation.questions().await.unwrap();
            if PLANNING.contains(&name.as_str()) {
                assert!(most_open <= 1, "{name}: {most_open} questions at a time");
            } else {
                assert_eq!(after - before, 0, "{path} {name} asks the machine");
            }
        }
    }
    assert!(
        called > 30 && read > 30,
        "{called} methods, {read} properties"
    );
}

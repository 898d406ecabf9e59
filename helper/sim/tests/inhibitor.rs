// SPDX-License-Identifier: GPL-3.0-or-later
//! The machine stays on while a job works, and not longer. A logind of the test's own counts the locks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use common::{Machine, spec, until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use tandem_api::*;
use zbus::fdo;

/// A lock: the words of its call, and the end of the pipe that tells whether the other end is closed.
struct Lock {
    what: String,
    who: String,
    why: String,
    mode: String,
    end: OwnedFd,
}

impl Lock {
    fn held(&self) -> bool {
        let mut fds = [PollFd::new(&self.end, PollFlags::IN)];
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // The holder writes nothing, so the end is readable only when the other end is closed everywhere.
        poll(&mut fds, Some(&none)).unwrap() == 0
    }
}

/// Answers as logind does.
#[derive(Clone, Default)]
struct Login {
    locks: Arc<Mutex<Vec<Lock>>>,
    refuses: bool,
}

impl Login {
    fn held(&self) -> usize {
        self.locks
            .lock()
            .unwrap()
            .iter()
            .filter(|lock| lock.held())
            .count()
    }

    /// Number of the locks that were taken so far.
    fn taken(&self) -> usize {
        self.locks.lock().unwrap().len()
    }

    async fn serve(&self, machine: &Machine) -> zbus::Connection {
        zbus::connection::Builder::address(machine.address.as_str())
            .serve_at("/org/freedesktop/login1", self.clone())
            .name("org.freedesktop.login1")
            .build()
            .await
            .unwrap()
    }
}

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl Login {
    fn inhibit(
        &self,
        what: String,
        who: String,
        why: String,
        mode: String,
    ) -> fdo::Result<zbus::OwnedFd> {
        if self.refuses {
            return Err(fdo::Error::AccessDenied("not today".to_owned()));
        }
        let (end, lock) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        self.locks.lock().unwrap().push(Lock {
            what,
            who,
            why,
            mode,
            end,
        });
        Ok(lock.into())
    }
}

/// A machine with a cache with dirty data, and its logind with its connection.
async fn dirty() -> (Machine, CacheProxy<'static>, Login, zbus::Connection) {
    let machine = Machine::simulated().await;
    let login = Login::default();
    let connection = login.serve(&machine).await;
    let spec = PlanSpec {
        mode: Mode::Writeback,
        ..spec("sda1", "sdc")
    };
    let levers = machine.simulation().await;
    // A job does not wait for its lock, so it must take longer than that takes.
    levers.set_step_time(200).await.unwrap();
    machine.create(&spec).await.unwrap();
    let cache = machine.caches().await.remove(0);
    levers.set_drain_rate(1).await.unwrap();
    until("dirty data", async || {
        cache.dirty_bytes().await.unwrap() > 0
    })
    .await;
    until("no lock", async || login.held() == 0).await;
    (machine, cache, login, connection)
}

#[tokio::test]
async fn the_machine_stays_on_while_a_job_works_and_not_while_it_is_paused() {
    let (machine, cache, login, _connection) = dirty().await;
    {
        let locks = login.locks.lock().unwrap();
        assert_eq!(locks.len(), 1, "the creation took one");
        let lock = &locks[0];
        assert_eq!(
            (lock.what.as_str(), lock.who.as_str(), lock.mode.as_str()),
            ("shutdown:sleep:handle-lid-switch", "Tandem", "block")
        );
        assert!(lock.why.contains("WD40EZRZ"), "{}", lock.why);
    }
    let path = cache.flush().await.unwrap();
    until("the lock", async || login.held() == 1).await;
    let job = machine.job(path.clone()).await;
    until("the drain", async || job.pausable().await.unwrap()).await;
    assert_eq!(login.held(), 1, "the lock stays");
    job.pause().await.unwrap();
    until("no lock in a pause", async || login.held() == 0).await;
    job.resume().await.unwrap();
    until("the lock again", async || login.held() == 1).await;
    machine
        .simulation()
        .await
        .set_drain_rate(1 << 40)
        .await
        .unwrap();
    machine.end(path).await.unwrap();
    until("no lock after the end", async || login.held() == 0).await;
    assert_eq!(login.taken(), 3);
}

#[tokio::test]
async fn a_job_that_is_cancelled_or_fails_or_dies_releases_its_lock() {
    let (mut machine, cache, login, _connection) = dirty().await;
    let path = cache.flush().await.unwrap();
    until("the lock", async || login.held() == 1).await;
    let job = machine.job(path.clone()).await;
    until("the drain", async || job.pausable().await.unwrap()).await;
    job.cancel().await.unwrap();
    machine.end(path).await.unwrap_err();
    until("no lock after the cancellation", async || login.held() == 0).await;

    let levers = machine.simulation().await;
    levers.set_drain_rate(1 << 40).await.unwrap();
    machine.remove(&cache).await.unwrap();
    let taken = login.taken();
    levers.fail_next(StepKind::Map).await.unwrap();
    machine.create(&spec("sda1", "sdc")).await.unwrap_err();
    assert_eq!(login.taken(), taken + 1);
    until("no lock after the failure", async || login.held() == 0).await;

    levers.set_step_time(60_000).await.unwrap();
    let plan = machine.plan(&spec("sda1", "sdc")).await.unwrap();
    let manager = machine.manager().await;
    manager.create(&plan.plan_id, &plan.digest).await.unwrap();
    until("the lock", async || login.held() == 1).await;
    machine.restart_service().await;
    until("no lock of a dead service", async || login.held() == 0).await;
}

#[tokio::test]
async fn a_job_needs_no_logind() {
    let machine = Machine::simulated().await;
    let login = Login {
        refuses: true,
        ..Login::default()
    };
    machine.create(&spec("sda1", "sdc")).await.unwrap();
    let cache = machine.caches().await.remove(0);
    let _connection = login.serve(&machine).await;
    machine.remove(&cache).await.unwrap();
    assert_eq!(login.taken(), 0);
}

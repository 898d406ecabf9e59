// SPDX-License-Identifier: GPL-3.0-or-later
//! Keeps the machine on while a job works: logind delays neither a suspend nor a shutdown for a service that it does not
//! know of, and a person who closes the lid would not learn that data is under way.
//!
//! A job that is cut short is finished or undone later, so nothing here decides about data. Without logind, or if logind
//! does not answer, the job goes on.

use std::time::Duration;
use tokio::sync::watch;
use zbus::{OwnedFd, proxy};

/// The actions that logind must not begin. logind handles a closed lid when the lock is released.
const WHAT: &str = "shutdown:sleep:handle-lid-switch";
/// How long logind may take to answer.
const LIMIT: Duration = Duration::from_secs(5);

/// The part of logind that is used.
#[proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1"
)]
trait Login {
    /// Takes a lock, which is released when the result and all its copies are closed.
    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zbus::Result<OwnedFd>;
}

/// Holds a lock whenever `works` is true, until its sender is dropped. `why`: the reason in plain words, which desktops
/// show beside the refusal.
pub(crate) async fn while_working(mut works: watch::Receiver<bool>, why: String) {
    let mut lock = None;
    loop {
        if !*works.borrow_and_update() {
            lock = None;
        } else if lock.is_none() {
            lock = take(&why).await;
        }
        if works.changed().await.is_err() {
            return;
        }
    }
}

async fn take(why: &str) -> Option<OwnedFd> {
    let lock = async {
        // The service's own connection passes no file descriptors, because it bounds what other programs make it read.
        // No program can call this connection: it has no name, and is closed at once.
        let connection = zbus::connection::Builder::system().build().await?;
        let login = LoginProxy::new(&connection).await?;
        let lock = login.inhibit(WHAT, "Tandem", why, "block").await?;
        connection.close().await?;
        zbus::Result::Ok(lock)
    };
    match tokio::time::timeout(LIMIT, lock).await {
        Ok(Ok(lock)) => Some(lock),
        Ok(Err(e)) => {
            tracing::info!("nothing keeps the machine on: {e}");
            None
        }
        Err(_) => {
            tracing::warn!("nothing keeps the machine on: logind does not answer");
            None
        }
    }
}

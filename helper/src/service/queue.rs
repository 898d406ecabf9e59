// SPDX-License-Identifier: GPL-3.0-or-later
//! Limits the work that a user can cause. Every user may ask for plans and histories. The queue of a user works on one
//! plan or history at a time. A call beyond the limits is refused at once, before it costs memory or I/O.
//!
//! An authorised job waits in no queue, so no plan of another user can delay it.

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tandem_api::{Failure, Kind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zbus::Type;
use zbus::object_server::ResponseDispatchNotifier;

/// Calls that one connection to the bus may have open.
const CALLS_PER_CONNECTION: usize = 16;
/// Calls that all connections of one user may have open.
const CALLS_PER_USER: usize = 32;
/// Users that have a slot at the same time.
const SLOTS: usize = 4;
/// Samples of histories that one user can ask for at once: 55 whole histories, about 16 MiB on the bus. The bus keeps
/// a reply in memory until its receiver reads it, and stops reading from the service at 127 MiB of such replies.
const SAMPLES: u64 = 32_768;
/// Samples that are added each second to the samples that a user can ask for, up to that limit.
const SAMPLES_PER_SECOND: u64 = 32;

/// The calls and samples of one user.
struct User {
    open: usize,
    slot: Arc<Semaphore>,
    samples: u64,
    /// When `samples` was last brought up to date.
    at: Instant,
}

impl User {
    fn new(now: Instant) -> Self {
        Self {
            open: 0,
            slot: Arc::new(Semaphore::new(1)),
            samples: SAMPLES,
            at: now,
        }
    }

    /// Adds the samples for the whole seconds since the last refill.
    fn refill(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.at).as_secs();
        if seconds > 0 {
            let grown = seconds.saturating_mul(SAMPLES_PER_SECOND);
            self.samples = self.samples.saturating_add(grown).min(SAMPLES);
            self.at = now;
        }
    }
}

#[derive(Default)]
struct Open {
    /// Open calls by the unique bus name of the caller's connection.
    connections: BTreeMap<String, usize>,
    users: BTreeMap<u32, User>,
}

/// The queues of all users.
pub(crate) struct Queues {
    open: Mutex<Open>,
    slots: Arc<Semaphore>,
}

impl Default for Queues {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            slots: Arc::new(Semaphore::new(SLOTS)),
        }
    }
}

impl Queues {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call of a connection, by its unique bus name, until the answer is dropped.
    ///
    /// # Errors
    /// `TooMany` open calls of this connection.
    pub(crate) fn admit(self: &Arc<Self>, connection: &str) -> Result<Admitted, Failure> {
        let mut open = self.open();
        let calls = open.connections.entry(connection.to_owned()).or_default();
        if *calls >= CALLS_PER_CONNECTION {
            return Err(Failure::new(Kind::TooMany));
        }
        *calls += 1;
        Ok(Admitted {
            queues: self.clone(),
            connection: connection.to_owned(),
        })
    }

    /// Counts a call of a user until the answer is dropped.
    ///
    /// # Errors
    /// `TooMany` open calls of this user.
    pub(crate) fn caller(self: &Arc<Self>, uid: u32) -> Result<Caller, Failure> {
        let mut open = self.open();
        let now = Instant::now();
        // A user without an open call is kept only until all its samples are given back.
        open.users.retain(|_, user| {
            user.refill(now);
            user.open > 0 || user.samples < SAMPLES
        });
        let user = open.users.entry(uid).or_insert_with(|| User::new(now));
        if user.open >= CALLS_PER_USER {
            return Err(Failure::new(Kind::TooMany));
        }
        user.open += 1;
        Ok(Caller {
            uid,
            queues: self.clone(),
        })
    }
}

/// A call that counts for its connection.
pub(crate) struct Admitted {
    queues: Arc<Queues>,
    connection: String,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.queues.open();
        if let Some(calls) = open.connections.get_mut(&self.connection) {
            *calls -= 1;
            if *calls == 0 {
                open.connections.remove(&self.connection);
            }
        }
    }
}

/// The user of a call, as the bus reports the user. The value counts as an open call of that user until it is dropped.
pub(crate) struct Caller {
    pub(crate) uid: u32,
    queues: Arc<Queues>,
}

impl Caller {
    /// Waits until no other plan or history of this user is worked on.
    ///
    /// # Errors
    /// `Internal` while the service ends.
    pub(crate) async fn queue_slot(self) -> Result<QueueSlot, Failure> {
        let ended = |e| Failure::new(Kind::Internal).detail(e);
        let queues = self.queues.clone();
        let own = {
            let mut open = queues.open();
            let user = open.users.entry(self.uid);
            let user = user.or_insert_with(|| User::new(Instant::now()));
            user.slot.clone()
        };
        let own = own.acquire_owned().await.map_err(ended)?;
        let one = queues.slots.clone().acquire_owned().await.map_err(ended)?;
        Ok(QueueSlot {
            caller: self,
            _permits: [own, one],
        })
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut open = self.queues.open();
        if let Some(user) = open.users.get_mut(&self.uid) {
            user.open = user.open.saturating_sub(1);
        }
    }
}

/// The right of a caller to have one plan or history worked on. The slot is free again when this value is dropped.
pub(crate) struct QueueSlot {
    caller: Caller,
    _permits: [OwnedSemaphorePermit; 2],
}

impl QueueSlot {
    /// User id of the caller.
    pub(crate) fn uid(&self) -> u32 {
        self.caller.uid
    }

    /// A reply that keeps the slot until the reply is written, so that each user has at most one history in memory.
    pub(crate) fn reply<T: Serialize + Type>(self, value: T) -> ResponseDispatchNotifier<T> {
        let (reply, written) = ResponseDispatchNotifier::new(value);
        tokio::spawn(async move {
            written.await;
            drop(self);
        });
        reply
    }

    /// Charges the user for a history.
    ///
    /// # Errors
    /// `TooMany` samples in a short time; the user can ask again after some seconds.
    pub(crate) fn charge(&self, samples: usize) -> Result<(), Failure> {
        let cost = u64::try_from(samples).unwrap_or(u64::MAX);
        let mut open = self.caller.queues.open();
        let user = open.users.get_mut(&self.caller.uid);
        let left = user.and_then(|user| Some((user.samples.checked_sub(cost)?, user)));
        let (left, user) = left.ok_or_else(|| Failure::new(Kind::TooMany))?;
        user.samples = left;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::time::Duration;

    fn refused<T>(result: Result<T, Failure>) -> bool {
        result.is_err_and(|failure| failure.kind == Kind::TooMany)
    }

    #[test]
    fn a_connection_has_a_limited_number_of_open_calls() {
        let queues = Arc::new(Queues::default());
        let admit = || queues.admit(":1.1");
        let mut open: Vec<_> = (0..CALLS_PER_CONNECTION)
            .map(|_| admit().unwrap())
            .collect();
        assert!(refused(admit()));
        queues.admit(":1.2").unwrap();
        open.pop();
        admit().unwrap();
        drop(open);
        assert!(queues.open().connections.is_empty());
    }

    #[test]
    fn a_user_has_a_limited_number_of_open_calls() {
        let queues = Arc::new(Queues::default());
        let mut open: Vec<_> = (0..CALLS_PER_USER)
            .map(|_| queues.caller(1000).unwrap())
            .collect();
        assert!(refused(queues.caller(1000)));
        queues.caller(1001).unwrap();
        open.pop();
        queues.caller(1000).unwrap();
        drop(open);
        // Users without calls are removed.
        queues.caller(1002).unwrap();
        assert_eq!(queues.open().users.len(), 1);
    }

    #[tokio::test]
    async fn calls_of_one_user_take_turns_and_other_users_do_not_wait_for_them() {
        let queues = Arc::new(Queues::default());
        let slot = |uid| queues.caller(uid).unwrap().queue_slot();
        let first = slot(1000).await.unwrap();
        let mut second = Box::pin(slot(1000));
        assert!(second.as_mut().now_or_never().is_none());
        let other = slot(1001).now_or_never().unwrap().unwrap();
        drop(first);
        second.await.unwrap();
        drop(other);
    }

    #[tokio::test]
    async fn histories_are_refused_when_a_user_asked_for_too_many_and_given_again_later() {
        let queues = Arc::new(Queues::default());
        let slot = queues.caller(1000).unwrap().queue_slot().await.unwrap();
        let whole = usize::try_from(SAMPLES).unwrap();
        slot.charge(whole).unwrap();
        assert!(refused(slot.charge(1)));
        let seconds = Duration::from_secs(2);
        let later = Instant::now() + seconds;
        queues.open().users.get_mut(&1000).unwrap().refill(later);
        slot.charge(64).unwrap();
        assert!(refused(slot.charge(1)));
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Feeds an advisor with what a disk does, and has the advisor's state saved.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_advisor::{Advisor, Request};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::Requests;

/// The state is saved so often if there were requests: what a power cut may cost.
const SAVE_PERIOD_US: u64 = 600_000_000;
/// And so often if there were none: the time without requests counts as watched, too.
const IDLE_SAVE_PERIOD_US: u64 = 6 * SAVE_PERIOD_US;

/// Few requests are read after this time; until then the kernel keeps them.
const READ_PERIOD: Duration = Duration::from_secs(5);

/// From one read of the trace to the next. Together with the size of a read this bounds the work for a disk that gets more
/// requests than any hard disk can serve; the kernel then drops events, and counts them.
const PAUSE: Duration = Duration::from_millis(20);

/// Reads at the end of a session, of about a page each: more than the kernel's buffers of 64 processors hold. A busy disk
/// must not keep the session from ending.
const LAST_READS: usize = 4096;

/// How a session ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The requests that are there count.
    Drained,
    /// The requests that are there may be those of another device that got the number of this one, and do not count.
    Dropped,
}

/// The progress of a session since the last save.
struct Progress<'a> {
    advisor: &'a Mutex<Advisor>,
    lost: u64,
    saved_us: u64,
    /// There were requests since.
    fed: bool,
    requests: Vec<Request>,
}

/// Locks, also after a panic of another thread that had the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress<'_> {
    /// Reads once, and returns whether there may be more.
    fn read(&mut self, source: &mut dyn Requests) -> io::Result<bool> {
        let more = source.read(&mut self.requests)?;
        let lost = source.lost();
        let mut advisor = lock(self.advisor);
        advisor.lose(lost - self.lost);
        self.fed |= lost > self.lost || !self.requests.is_empty();
        self.lost = lost;
        for request in self.requests.drain(..) {
            advisor.feed(&request);
        }
        if !more {
            advisor.watch(source.now_us());
        }
        Ok(more)
    }

    /// The state, if it has to be saved now.
    fn state_if_due(&mut self, now_us: u64) -> Option<Vec<u8>> {
        let period = if self.fed {
            SAVE_PERIOD_US
        } else {
            IDLE_SAVE_PERIOD_US
        };
        if now_us.saturating_sub(self.saved_us) < period {
            return None;
        }
        self.saved_us = now_us;
        self.fed = false;
        Some(lock(self.advisor).save())
    }
}

/// Watches until `end` says how to end, or is dropped. `save` is called on a thread that may block. The state since the last
/// save is in `advisor`, for the caller to save.
///
/// # Errors
/// The kernel gives no more requests.
pub async fn run<S>(
    source: &mut dyn Requests,
    advisor: &Mutex<Advisor>,
    save: S,
    mut end: oneshot::Receiver<End>,
) -> io::Result<()>
where
    S: Fn(Vec<u8>) + Clone + Send + 'static,
{
    let mut progress = Progress {
        advisor,
        lost: source.lost(),
        saved_us: source.now_us(),
        fed: false,
        requests: Vec::new(),
    };
    // The clock of this session is another than that of the last: the advisor counts from here on.
    lock(advisor).resume(source.now_us());
    let mut more = true;
    loop {
        let wait = async {
            if more {
                sleep(PAUSE).await;
            } else {
                tokio::select! {
                    () = source.wait() => {}
                    () = sleep(READ_PERIOD) => {}
                }
            }
        };
        tokio::select! {
            // What is there belongs to another disk, perhaps, so it must not be read before this is looked at.
            biased;
            how = &mut end => {
                let reads = if how == Ok(End::Drained) { LAST_READS } else { 0 };
                for _ in 0..reads {
                    if !progress.read(source)? {
                        break;
                    }
                }
                return Ok(());
            }
            () = wait => {}
        }
        more = progress.read(source)?;
        if let Some(state) = progress.state_if_due(source.now_us()) {
            let save = save.clone();
            if let Err(e) = tokio::task::spawn_blocking(move || save(state)).await {
                tracing::warn!("the state of the advisor was not saved: {e}");
            }
        }
    }
}

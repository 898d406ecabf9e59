// SPDX-License-Identifier: GPL-3.0-or-later
//! Feeds an advisor with what a disk does, and has the advisor's state saved.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tandem_advisor::{Advisor, Request};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::{Event, Watch};

/// The state is saved so often: what a power cut may cost.
const SAVE_PERIOD: Duration = Duration::from_secs(600);

/// From one read of the trace to the next. Together with the size of a read this bounds the work for a disk that gets more
/// requests than any hard disk can serve; the kernel then drops events, and counts them.
const PAUSE: Duration = Duration::from_millis(20);

/// Watches until the kernel gives nothing more, and returns why. `save` is called on a thread that may block. To stop, drop the
/// future; the state since the last save is in `advisor`.
pub async fn run<S>(mut watch: Watch, advisor: &Mutex<Advisor>, save: S) -> io::Error
where
    S: Fn(Vec<u8>) + Clone + Send + 'static,
{
    let begin = Instant::now();
    let now = || u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
    let lock = || advisor.lock().unwrap_or_else(PoisonError::into_inner);
    // The clock of this session is another than that of the last: the advisor counts from here on.
    lock().resume(now());
    let mut period = interval_at(begin + SAVE_PERIOD, SAVE_PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut events: Vec<Event> = Vec::new();
    loop {
        tokio::select! {
            result = watch.next(&mut events) => {
                if let Err(e) = result {
                    return e;
                }
                let time_us = now();
                let mut advisor = lock();
                for Event { kind, sector, sectors } in events.drain(..) {
                    advisor.feed(&Request { time_us, kind, sector, sectors });
                }
            }
            _ = period.tick() => {
                let bytes = {
                    let mut advisor = lock();
                    advisor.watch(now());
                    advisor.save()
                };
                let save = save.clone();
                if let Err(e) = tokio::task::spawn_blocking(move || save(bytes)).await {
                    tracing::warn!("the state of the advisor was not saved: {e}");
                }
                continue;
            }
        }
        sleep(PAUSE).await;
    }
}

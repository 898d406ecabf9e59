// SPDX-License-Identifier: GPL-3.0-or-later
//! The removal of a cache that another system has made. The system does it; this code watches, reports and waits. What the
//! system shows says how far it is, so nothing has to be on record, and a removal that was cut short can be asked for again.

use super::Watcher;
use super::drain::{DrainRate, MAX_FAILED_QUERIES, QUERY_INTERVAL};
use crate::host::Host;
use crate::host::traits::Others;
use crate::model::removal::{OtherProgress, OtherRemoval};
use tandem_api::{DataState, Failure};
use tokio::time::Instant;

/// Has a cache removed. `begin`: the removal has not begun yet.
///
/// # Errors
/// `Cancelled`, `StepFailed`, or that the machine does not say how far the removal is.
pub async fn remove(
    host: &dyn Host,
    removal: &OtherRemoval,
    begin: bool,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    watcher.step(0, false);
    if begin {
        host.begin_removal(removal).await?;
    }
    let result = follow(host, removal, watcher).await;
    watcher.no_return();
    result
}

async fn follow(
    host: &dyn Others,
    removal: &OtherRemoval,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    let (mut pace, mut most) = (DrainRate::default(), 0);
    let (mut stopped, mut failed_queries) = (false, 0);
    let last = removal.steps.len().saturating_sub(1);
    loop {
        if watcher.cancelled() && !stopped {
            match host.stop_removal(removal).await {
                Ok(()) => stopped = true,
                Err(e) => tracing::warn!("the removal is not stopped yet: {e}"),
            }
        }
        match host.removal_progress(removal).await {
            Ok(OtherProgress::Ended(end)) => {
                // The next process tries again to put back what is not as before.
                if !matches!(&end, Err(e) if e.data == DataState::Incomplete) {
                    host.forget_removal(removal).await;
                }
                return end.map_err(|failure| *failure);
            }
            // The next process finds it by its note.
            Ok(OtherProgress::Left(failure)) => return Err(*failure),
            Ok(OtherProgress::Drains(left)) => {
                failed_queries = 0;
                if let Some(left) = left {
                    most = most.max(left);
                    let left = share(removal.unwritten_bytes, left, most);
                    watcher.drained(pace.measure(Instant::now(), left));
                }
            }
            Ok(OtherProgress::Removes) => {
                failed_queries = 0;
                watcher.no_return();
                watcher.step(last, false);
            }
            Err(e) if failed_queries == MAX_FAILED_QUERIES => {
                // The cache stays, and no later process goes on with the removal by itself. LVM's cache may be in write-through
                // for now; its note has the mode that comes back.
                if host.stop_removal(removal).await.is_ok()
                    && let Ok(OtherProgress::Ended(_)) = host.removal_progress(removal).await
                {
                    host.forget_removal(removal).await;
                }
                return Err(e.data(removal.data()));
            }
            Err(_) => failed_queries += 1,
        }
        tokio::time::sleep(QUERY_INTERVAL).await;
    }
}

/// LVM counts blocks of a size that it does not tell: the part of the bytes that so much of the most is.
fn share(bytes: u64, left: u64, most: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(left);
    u64::try_from(part / u128::from(most.max(1))).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::removal;
    use crate::service::apply::Unwatched;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tandem_api::OtherKind;

    #[test]
    fn blocks_of_an_unknown_size_are_a_share_of_the_bytes() {
        assert_eq!(share(1_000, 668, 668), 1_000);
        assert_eq!(share(1_000, 167, 668), 250);
        assert_eq!(share(1_000, 0, 0), 0);
        assert_eq!(share(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
    }
    /// A machine on which each removal has come so far.
    struct Machine {
        progress: OtherProgress,
        forgotten: AtomicBool,
    }

    #[async_trait::async_trait]
    impl Others for Machine {
        async fn removal_progress(&self, _: &OtherRemoval) -> Result<OtherProgress, Failure> {
            Ok(self.progress.clone())
        }

        async fn forget_removal(&self, _: &OtherRemoval) {
            self.forgotten.store(true, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn what_could_not_be_put_back_is_not_forgotten() {
        let removal = removal(OtherKind::LvmCache);
        let cancelled = || Box::new(removal.cancelled());
        let incomplete = Box::new(removal.cancelled().data(DataState::Incomplete));
        for (progress, ends, forgets) in [
            (OtherProgress::Ended(Ok(())), true, true),
            (OtherProgress::Ended(Err(cancelled())), false, true),
            (OtherProgress::Ended(Err(incomplete)), false, false),
            (OtherProgress::Left(cancelled()), false, false),
        ] {
            let forgotten = AtomicBool::new(false);
            let machine = Machine {
                progress,
                forgotten,
            };
            let end = follow(&machine, &removal, &Unwatched).await;
            let forgotten = machine.forgotten.into_inner();
            assert_eq!((end.is_ok(), forgotten), (ends, forgets), "{end:?}");
        }
    }
}

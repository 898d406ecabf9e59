// SPDX-License-Identifier: GPL-3.0-or-later
//! The removal of a cache that LVM has made. LVM does it; this code watches, reports and waits. LVM's own metadata say how far
//! it is, so nothing has to be on record, and a removal that was cut short can be asked for again.

use super::Watcher;
use super::drain::{DrainRate, MAX_FAILED_QUERIES, QUERY_INTERVAL};
use crate::host::Host;
use crate::model::lvm::{LvmEnd, LvmRemoval};
use tandem_api::{DataState, Failure, Kind, OtherKind, StepKind};
use tokio::time::Instant;

/// Has LVM remove a cache. `begin`: LVM has not begun yet.
///
/// # Errors
/// `Cancelled`, `StepFailed`, or that the machine does not say how far LVM is.
pub async fn remove(
    host: &dyn Host,
    removal: &LvmRemoval,
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
    host: &dyn Host,
    removal: &LvmRemoval,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    let (mut pace, mut most) = (DrainRate::default(), 0);
    let (mut stopped, mut failed_queries) = (false, 0);
    let last = removal.steps.len().saturating_sub(1);
    loop {
        if watcher.cancelled() && !stopped {
            match host.stop_removal(removal).await {
                Ok(()) => stopped = true,
                Err(e) => tracing::warn!("LVM is not stopped yet: {e}"),
            }
        }
        match host.removal_progress(removal).await {
            Ok(progress) => {
                failed_queries = 0;
                if let Some(end) = progress.ended {
                    host.forget_removal(removal).await;
                    return outcome(removal, &end, stopped);
                }
                if let Some(blocks) = progress.blocks_left {
                    most = most.max(blocks);
                    let left = share(removal.unwritten_bytes, blocks, most);
                    watcher.drained(pace.measure(Instant::now(), left));
                    if blocks == 0 {
                        watcher.step(last, false);
                    }
                }
            }
            Err(e) if failed_queries == MAX_FAILED_QUERIES => {
                return Err(e.data(data(removal)));
            }
            Err(_) => failed_queries += 1,
        }
        tokio::time::sleep(QUERY_INTERVAL).await;
    }
}

/// LVM counts blocks of a size that it does not tell: the part of the bytes that so many of the blocks are.
fn share(bytes: u64, blocks: u64, most: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(blocks);
    u64::try_from(part / u128::from(most.max(1))).unwrap_or(bytes)
}

/// What became of the data if the cache is still there.
fn data(removal: &LvmRemoval) -> DataState {
    match removal.may_be_unwritten {
        true => DataState::Unwritten,
        false => DataState::Unchanged,
    }
}

/// The end of the job. The exit status and the volume have to agree: a flush that was stopped prints that the cache is
/// removed.
fn outcome(removal: &LvmRemoval, end: &LvmEnd, stopped: bool) -> Result<(), Failure> {
    let failed = |step: StepKind, device: usize| {
        let status = end
            .status
            .map_or_else(|| "unknown".to_owned(), |s| s.to_string());
        Failure::new(Kind::StepFailed)
            .name(step.as_str())
            .device(&removal.devices[device].text)
            .detail(format_args!(
                "lvconvert: exit status {status}\n{}",
                end.said
            ))
    };
    match (end.status, end.cached) {
        (Some(0), Some(false)) => Ok(()),
        (_, Some(false)) => Err(failed(StepKind::FreeSsd, 1).data(DataState::Incomplete)),
        // LVM has ended in another way than by its own success, and the cache is there.
        (Some(0), _) | (_, None) => Err(failed(StepKind::Drain, 0).data(data(removal))),
        (_, Some(true)) if stopped => {
            let cleans = removal.kind == OtherKind::LvmWritecache;
            let cancelled = Failure::new(Kind::Cancelled).name(if cleans { "cleaner" } else { "" });
            let disk = &removal.devices[0].text;
            Err(cancelled.device(disk).data(data(removal)).detail(&end.said))
        }
        (_, Some(true)) => Err(failed(StepKind::Drain, 0).data(data(removal))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::facts::Ident;

    fn removal(kind: OtherKind) -> LvmRemoval {
        LvmRemoval {
            id: String::new(),
            volume: "vg2/m".into(),
            kind,
            devices: [Ident::default(), Ident::default()],
            steps: Vec::new(),
            unwritten_bytes: 1_000,
            may_be_unwritten: true,
            owner: 0,
        }
    }

    fn ended(status: Option<i32>, cached: Option<bool>, stopped: bool) -> Result<(), Failure> {
        let said = "Logical volume vg2/m is not cached and vg2/cm_cvol is removed.";
        let end = LvmEnd {
            status,
            cached,
            said: said.into(),
        };
        outcome(&removal(OtherKind::LvmCache), &end, stopped)
    }

    #[test]
    fn a_success_needs_the_exit_status_and_the_volume() {
        assert_eq!(ended(Some(0), Some(false), false), Ok(()));
        // The request to stop came too late.
        assert_eq!(ended(Some(0), Some(false), true), Ok(()));
        let is = |status, cached, stopped| {
            let failure = ended(status, cached, stopped).unwrap_err();
            (failure.kind, failure.name, failure.data)
        };
        let drain = || (Kind::StepFailed, "drain".to_owned(), DataState::Unwritten);
        for stopped in [false, true] {
            assert_eq!(is(Some(0), Some(true), stopped), drain());
            assert_eq!(is(Some(0), None, stopped), drain());
            assert_eq!(is(Some(5), None, stopped), drain());
        }
        assert_eq!(is(Some(5), Some(true), false), drain());
        assert_eq!(is(None, Some(true), false), drain());
        let incomplete = (
            Kind::StepFailed,
            "free-ssd".to_owned(),
            DataState::Incomplete,
        );
        assert_eq!(is(Some(5), Some(false), false), incomplete);
    }

    #[test]
    fn a_cancelled_removal_keeps_the_cache_and_says_whether_its_cleaner_stays() {
        let failure = ended(Some(5), Some(true), true).unwrap_err();
        assert_eq!(failure.kind, Kind::Cancelled);
        assert_eq!(
            (failure.name.as_str(), failure.data),
            ("", DataState::Unwritten)
        );
        let end = LvmEnd {
            status: Some(5),
            cached: Some(true),
            said: String::new(),
        };
        let failure = outcome(&removal(OtherKind::LvmWritecache), &end, true).unwrap_err();
        assert_eq!(
            (failure.kind, failure.name.as_str()),
            (Kind::Cancelled, "cleaner")
        );
    }

    #[test]
    fn blocks_of_an_unknown_size_are_a_share_of_the_bytes() {
        assert_eq!(share(1_000, 668, 668), 1_000);
        assert_eq!(share(1_000, 167, 668), 250);
        assert_eq!(share(1_000, 0, 0), 0);
        assert_eq!(share(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
    }
}

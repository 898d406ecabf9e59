// SPDX-License-Identifier: GPL-3.0-or-later
//! `org.tandemcache.Tandem1.Job`, see [`tandem_api::JobProxy`].

use crate::machine::mounts::users;
use crate::service::apply::{Drained, Watcher};
use crate::service::auth;
use crate::service::iface::bounded::Bounded;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tandem_api::{Failure, JobKind, Kind, Step, StepKind};
use tokio::sync::{Notify, watch};
use zbus::message::Header;
use zbus::object_server::{InterfaceRef, SignalEmitter};
use zbus::{Connection, interface};

/// How far a job is.
#[derive(Debug, Clone, PartialEq)]
struct State {
    index: usize,
    undoing: bool,
    cancelled: bool,
    cancellable: bool,
    /// `Some` in a step that moves data: whether the user has paused the step.
    pausable: bool,
    paused: bool,
    drained: Option<Drained>,
    finished: Option<(bool, Failure)>,
}

/// The state of a job that its runner and its D-Bus object share.
pub struct Progress {
    steps: Vec<Step>,
    began: Instant,
    state: Mutex<State>,
    changed: Notify,
    /// Whether the job works: it has not ended, and is not paused.
    works: watch::Sender<bool>,
}

impl Progress {
    /// A job before its first step.
    pub fn new(steps: Vec<Step>) -> Self {
        let state = State {
            index: 0,
            undoing: false,
            cancelled: false,
            cancellable: true,
            pausable: false,
            paused: false,
            drained: None,
            finished: None,
        };
        Self {
            steps,
            began: Instant::now(),
            state: Mutex::new(state),
            changed: Notify::new(),
            works: watch::Sender::new(true),
        }
    }

    /// Tells whether the job works, until the job is dropped.
    pub fn works(&self) -> watch::Receiver<bool> {
        self.works.subscribe()
    }

    fn get<T>(&self, f: impl FnOnce(&State) -> T) -> T {
        f(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, f: impl FnOnce(&mut State)) {
        let works = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            f(&mut state);
            state.finished.is_none() && !state.paused
        };
        self.works
            .send_if_modified(|last| std::mem::replace(last, works) != works);
        self.changed.notify_one();
    }

    /// Ends the job.
    pub fn finish(&self, result: Result<(), Failure>) {
        self.set(|s| {
            s.cancellable = false;
            if result.is_ok() {
                s.index = self.steps.len();
            }
            s.finished = Some(match result {
                Ok(()) => (true, Failure::none()),
                Err(failure) => (false, failure),
            });
        });
    }

    /// A step that moves data takes nearly all of the time. All other steps share the rest.
    fn fraction(&self) -> f64 {
        let weight = |step: &Step| {
            if step.kind == StepKind::Drain {
                99.0
            } else {
                1.0
            }
        };
        let sum = |steps: &[Step]| steps.iter().map(weight).sum::<f64>();
        self.get(|s| {
            if matches!(s.finished, Some((true, _))) {
                return 1.0;
            }
            let index = s.index.min(self.steps.len());
            let within = self.steps.get(index).map_or(0.0, |step| {
                let moved = s.drained.filter(|_| step.kind == StepKind::Drain);
                moved.map_or(0.0, |d| 1.0 - d.left as f64 / d.total.max(1) as f64) * weight(step)
            });
            (sum(&self.steps[..index]) + within) / sum(&self.steps).max(1.0)
        })
    }

    /// How far the present step is with moving data, if it moves data.
    fn moved(&self) -> Option<Drained> {
        self.get(|s| {
            let step = self.steps.get(s.index);
            let moves = step.is_some_and(|step| step.kind == StepKind::Drain)
                && !s.undoing
                && s.finished.is_none();
            s.drained.filter(|_| moves)
        })
    }

    /// The estimate uses the rate so far. A step that moves data has its own estimate and does not count for the rate.
    fn seconds_left(&self) -> u64 {
        if let Some(drained) = self.moved() {
            return drained.seconds;
        }
        let done = self.fraction();
        let moves = self.steps.iter().any(|step| step.kind == StepKind::Drain);
        if moves || done <= 0.0 || self.get(|s| s.finished.is_some()) {
            return 0;
        }
        (self.began.elapsed().as_secs_f64() * (1.0 - done) / done).ceil() as u64
    }
}

impl Watcher for Progress {
    fn step(&self, index: usize, undoing: bool) {
        self.set(|s| (s.index, s.undoing) = (index, undoing));
    }

    fn cancelled(&self) -> bool {
        self.get(|s| s.cancelled)
    }

    fn no_return(&self) {
        self.set(|s| s.cancellable = false);
    }

    fn paused(&self) -> bool {
        self.get(|s| s.paused)
    }

    fn data_moves(&self, paused: Option<bool>) {
        self.set(|s| {
            s.pausable = paused.is_some();
            s.paused = paused.unwrap_or(false);
        });
    }

    fn drained(&self, drained: Drained) {
        self.set(|s| s.drained = Some(drained));
    }
}

/// One job.
pub struct JobObject {
    kind: JobKind,
    uuid: String,
    owner: u32,
    progress: Arc<Progress>,
}

impl JobObject {
    /// A job that the user with this uid started.
    pub fn new(kind: JobKind, uuid: String, owner: u32, progress: Arc<Progress>) -> Self {
        Self {
            kind,
            uuid,
            owner,
            progress,
        }
    }

    /// Checks that the caller started the job or is root.
    async fn owned(&self, connection: &Connection, header: &Header<'_>) -> Result<(), Failure> {
        let uid = auth::sender_uid(connection, header).await?;
        if uid != self.owner && uid != 0 {
            return Err(Failure::new(Kind::NotAuthorized).detail("not the job's owner"));
        }
        Ok(())
    }

    fn wait(&self, paused: bool) -> Result<(), Failure> {
        if !self.progress.get(|s| s.pausable) {
            return Err(Failure::new(Kind::WrongState).name("not-pausable"));
        }
        self.progress.set(|s| s.paused = paused);
        Ok(())
    }

    /// Emits a signal for each change, then for the end, and returns.
    pub async fn emit_changes(object: InterfaceRef<Bounded<Self>>) {
        let mut told = None;
        loop {
            let this = object.get().await;
            let progress = this.progress.clone();
            let now = progress.get(Clone::clone);
            if told.as_ref() != Some(&now) {
                if let Err(e) = this
                    .tell_changes(object.signal_emitter(), told.as_ref(), &now)
                    .await
                {
                    tracing::warn!("cannot tell a job's progress: {e}");
                }
                drop(this);
                if let Some((success, failure)) = &now.finished {
                    let failure = failure_for(None, failure.clone());
                    let _ = Self::completed(object.signal_emitter(), *success, failure).await;
                    return;
                }
                told = Some(now);
                continue;
            }
            drop(this);
            progress.changed.notified().await;
        }
    }

    async fn tell_changes(
        &self,
        emitter: &SignalEmitter<'_>,
        old: Option<&State>,
        new: &State,
    ) -> zbus::Result<()> {
        if old.is_none_or(|old| old.cancellable != new.cancellable) {
            self.cancellable_changed(emitter).await?;
        }
        if old.is_none_or(|old| old.undoing != new.undoing) {
            self.undoing_changed(emitter).await?;
        }
        if old.is_none_or(|old| old.pausable != new.pausable) {
            self.pausable_changed(emitter).await?;
        }
        if old.is_none_or(|old| old.paused != new.paused) {
            self.paused_changed(emitter).await?;
        }
        let moved = old.is_none_or(|old| old.drained != new.drained);
        let stepped = old.is_none_or(|old| old.index != new.index);
        if moved || stepped {
            self.rate_bytes_changed(emitter).await?;
        }
        if stepped {
            self.step_index_changed(emitter).await?;
        }
        if stepped || moved {
            self.estimated_seconds_changed(emitter).await?;
            self.progress_changed(emitter).await?;
        }
        if new.finished.is_some() {
            self.finished_invalidate(emitter).await?;
        }
        Ok(())
    }
}

/// A failure, without details that the user with this uid may not see. `None`: without details that only some users may
/// see.
fn failure_for(uid: Option<u32>, mut failure: Failure) -> Failure {
    failure.users = users::visible_to(uid, failure.users);
    failure
}

#[interface(name = "org.tandemcache.Tandem1.Job")]
impl JobObject {
    async fn cancel(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Failure> {
        self.owned(connection, &header).await?;
        self.progress.set(|s| s.cancelled = true);
        Ok(())
    }

    async fn pause(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Failure> {
        self.owned(connection, &header).await?;
        self.wait(true)
    }

    async fn resume(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Failure> {
        self.owned(connection, &header).await?;
        self.wait(false)
    }

    #[zbus(signal)]
    async fn completed(
        emitter: &SignalEmitter<'_>,
        success: bool,
        failure: Failure,
    ) -> zbus::Result<()>;

    #[zbus(property(emits_changed_signal = "const"))]
    fn kind(&self) -> JobKind {
        self.kind
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn steps(&self) -> Vec<Step> {
        self.progress.steps.clone()
    }

    #[zbus(property)]
    fn step_index(&self) -> u32 {
        self.progress
            .get(|s| u32::try_from(s.index).unwrap_or(u32::MAX))
    }

    #[zbus(property)]
    fn undoing(&self) -> bool {
        self.progress.get(|s| s.undoing)
    }

    #[zbus(property)]
    fn progress(&self) -> f64 {
        self.progress.fraction()
    }

    #[zbus(property)]
    fn rate_bytes(&self) -> u64 {
        self.progress.moved().map_or(0, |drained| drained.rate)
    }

    #[zbus(property)]
    fn pausable(&self) -> bool {
        self.progress.get(|s| s.pausable)
    }

    #[zbus(property)]
    fn paused(&self) -> bool {
        self.progress.get(|s| s.paused)
    }

    #[zbus(property)]
    fn estimated_seconds(&self) -> u64 {
        self.progress.seconds_left()
    }

    #[zbus(property)]
    fn cancellable(&self) -> bool {
        self.progress.get(|s| s.cancellable)
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn cache_uuid(&self) -> String {
        self.uuid.clone()
    }

    /// The signal does not send the value: each caller reads its own view.
    #[zbus(property(emits_changed_signal = "invalidates"))]
    async fn finished(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> (bool, bool, Failure) {
        let finished = self.progress.get(|s| s.finished.clone());
        let Some((success, failure)) = finished else {
            return (false, false, Failure::none());
        };
        let uid = match header {
            Some(header) if !failure.users.is_empty() => {
                auth::sender_uid(connection, &header).await.ok()
            }
            _ => None,
        };
        (true, success, failure_for(uid, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::DeviceText;

    fn at(kinds: &[StepKind], index: usize) -> Progress {
        let step = |kind: &StepKind| Step {
            kind: *kind,
            device: DeviceText::none(),
            target: String::new(),
            bytes: 0,
        };
        let progress = Progress::new(kinds.iter().map(step).collect());
        progress.step(index, false);
        progress
    }

    #[test]
    fn a_drain_says_nothing_of_how_long_other_steps_take() {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let removal = [StepKind::Drain, StepKind::Detach, StepKind::Unmap];
        assert_eq!(at(&removal, 1).seconds_left(), 0);
    }

    #[test]
    fn without_one_the_pace_so_far_tells() {
        let progress = at(&[StepKind::Map, StepKind::Mount], 1);
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(progress.seconds_left(), 1);
    }
}

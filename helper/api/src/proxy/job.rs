// SPDX-License-Identifier: GPL-3.0-or-later
//! A job.

use crate::{Failure, JobKind, Step};
use zbus::proxy;

/// A job: a change that is under way. The object disappears ten seconds after the end of the job.
#[proxy(
    interface = "org.tandemcache.Tandem1.Job",
    default_service = "org.tandemcache.Tandem1"
)]
pub trait Job {
    /// Asks the job to stop and to undo its steps. The result of the job says whether the request came in time
    /// (`Cancelled`) or too late. Allowed for the user that started the job, and for root.
    fn cancel(&self) -> zbus::Result<()>;

    /// Pauses a job that is [`Self::pausable`], until [`Self::resume`]. A job that is paused when the machine is
    /// switched off is still paused after the next start. Allowed for the user that started the job, and for root.
    ///
    /// # Errors
    /// `WrongState` if the job cannot be paused now.
    fn pause(&self) -> zbus::Result<()>;

    /// Ends [`Self::pause`].
    fn resume(&self) -> zbus::Result<()>;

    /// The job is over. After a success the failure is empty ([`Failure::none`]). The failure names no programs of
    /// users: a client reads [`Self::finished`], which names the programs of the caller. A client that may have missed
    /// this signal reads [`Self::finished`] after it has subscribed.
    #[zbus(signal)]
    fn completed(&self, success: bool, failure: Failure) -> zbus::Result<()>;

    /// The kind of job.
    #[zbus(property(emits_changed_signal = "const"))]
    fn kind(&self) -> zbus::Result<JobKind>;

    /// The steps of the plan.
    #[zbus(property(emits_changed_signal = "const"))]
    fn steps(&self) -> zbus::Result<Vec<Step>>;

    /// The present step, counted from 0; the number of steps when all are done.
    #[zbus(property)]
    fn step_index(&self) -> zbus::Result<u32>;

    /// Whether the job undoes its steps.
    #[zbus(property)]
    fn undoing(&self) -> zbus::Result<bool>;

    /// Progress over all steps, 0 to 1. The progress decreases only while steps are undone.
    #[zbus(property)]
    fn progress(&self) -> zbus::Result<f64>;

    /// Bytes a second in a step that moves data, 0 in other steps.
    #[zbus(property)]
    fn rate_bytes(&self) -> zbus::Result<u64>;

    /// Estimated seconds until the end, 0 if unknown.
    #[zbus(property)]
    fn estimated_seconds(&self) -> zbus::Result<u64>;

    /// Whether [`Self::cancel`] can still have an effect.
    #[zbus(property)]
    fn cancellable(&self) -> zbus::Result<bool>;

    /// Whether [`Self::pause`] can have an effect now: the present step moves data.
    #[zbus(property)]
    fn pausable(&self) -> zbus::Result<bool>;

    /// Whether the job waits for [`Self::resume`].
    #[zbus(property)]
    fn paused(&self) -> zbus::Result<bool>;

    /// UUID of the cache that the job creates or changes, 32 hex digits; for a cache of another system
    /// [`crate::OtherCache::id`].
    #[zbus(property(emits_changed_signal = "const"))]
    fn cache_uuid(&self) -> zbus::Result<String>;

    /// Whether the job is over, and then the arguments of [`Self::receive_completed`]. The failure names the programs
    /// of the caller, and for root those of all users. Signals of this property, and an object manager, name no
    /// programs.
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn finished(&self) -> zbus::Result<(bool, bool, Failure)>;
}

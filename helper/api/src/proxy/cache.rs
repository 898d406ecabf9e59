// SPDX-License-Identifier: GPL-3.0-or-later
//! A cache.

use crate::{
    CacheState, DeviceText, DirtyLimit, DiskCandidate, LongHistory, Mode, PlanReply, RefusedMode,
    Sample, Sharing, Span, SpeedTest, SsdHealth, Target,
};
use zbus::{OwnedObjectPath, proxy};

/// One cache.
#[proxy(
    interface = "org.tandemcache.Tandem1.Cache",
    default_service = "org.tandemcache.Tandem1"
)]
pub trait Cache {
    /// Makes the service take a sample each second instead of every ten seconds, until [`Self::unwatch`] or until the
    /// caller leaves the bus. One [`Self::unwatch`] ends any number of these calls.
    fn watch(&self) -> zbus::Result<()>;

    /// Ends [`Self::watch`].
    fn unwatch(&self) -> zbus::Result<()>;

    /// The last samples, oldest first, at most 600. The time between two samples varies: see [`Sample::time_us`].
    ///
    /// # Errors
    /// `TooMany` if this user asked for very many samples in the last minutes.
    fn history(&self) -> zbus::Result<Vec<Sample>>;

    /// The long history of the cache, also from before the service was started.
    ///
    /// # Errors
    /// As [`Self::history`].
    fn long_history(&self, span: Span) -> zbus::Result<LongHistory>;

    /// The devices that may be the disk of the cache, while data may be on the SSD only and no device agrees with all that
    /// is on record (`disk-elsewhere`, `disk-in-doubt`).
    #[zbus(property)]
    fn candidates(&self) -> zbus::Result<Vec<DiskCandidate>>;

    /// Says that this device, one of [`Self::candidates`], is the disk of the cache, after asking the user to authenticate
    /// (`org.tandemcache.Tandem1.confirm-disk`). The cache is put over it then, and data that is on the SSD only can be
    /// written to it.
    ///
    /// # Errors
    /// `WrongState` with `name` `disk-known` (there is nothing to confirm), `other-disk`, `disk-in-use`, or `disk-changed`
    /// (the device was used without the cache since); `NotAuthorized`, `AuthorityUnavailable`.
    #[zbus(allow_interactive_auth)]
    fn confirm_disk(&self, disk: &OwnedObjectPath) -> zbus::Result<()>;

    /// Says what the removal of the cache would do. Needs no authorisation and changes nothing.
    ///
    /// # Errors
    /// `UnwrittenData` if data is on the SSD only and cannot be written to the disk now. If the reason of the state is
    /// `disk-error`, there is a plan nevertheless; the job ends with that failure if the disk accepts no data.
    fn plan_remove(&self) -> zbus::Result<PlanReply>;

    /// Says what the removal of the cache would do if the user gave up the data that is on the SSD only. Needs no
    /// authorisation and changes nothing.
    ///
    /// # Errors
    /// `WrongState` if no data has to be given up, because [`Self::plan_remove`] can write the data to the disk. Data
    /// that the disk does not accept (`disk-error`) can be given up.
    fn plan_discard(&self) -> zbus::Result<PlanReply>;

    /// Executes a plan of [`Self::plan_remove`] or [`Self::plan_discard`] after asking the user to
    /// authenticate (`org.tandemcache.Tandem1.remove`, `.discard`).
    ///
    /// # Errors
    /// As [`crate::ManagerProxy::create`].
    #[zbus(allow_interactive_auth)]
    fn remove(&self, plan_id: &str, digest: &str) -> zbus::Result<OwnedObjectPath>;

    /// Says what a change of the share of the cache to so many bytes of its SSD would do, rounded down to whole MiB. The
    /// service made the partition of the cache ([`crate::PlanSpec::partition_bytes`]), and makes a new one in the free
    /// space that the SSD has without the old one. Needs no authorisation and changes nothing.
    ///
    /// # Errors
    /// `NotResizable`, `SsdTooSmall`, `SsdNoFreeSpace`, `InvalidArgument` if the size is the present one, `UnwrittenData`
    /// as for [`Self::plan_remove`], `WrongState` if the cache does not work.
    fn plan_resize(&self, bytes: u64) -> zbus::Result<PlanReply>;

    /// Executes a plan of [`Self::plan_resize`] after asking the user to authenticate
    /// (`org.tandemcache.Tandem1.resize`). The disk stays in use. If the job fails after the old partition is given up,
    /// the cache is removed: [`crate::DataState::Removed`].
    ///
    /// # Errors
    /// As [`crate::ManagerProxy::create`].
    #[zbus(allow_interactive_auth)]
    fn resize(&self, plan_id: &str, digest: &str) -> zbus::Result<OwnedObjectPath>;

    /// Changes the mode, after asking the user to authenticate (`org.tandemcache.Tandem1.write-back` for write-back,
    /// `.tune` for the other modes). After a change from write-back to another mode, the module writes the dirty data
    /// to the disk little by little: see [`Self::dirty_bytes`].
    ///
    /// # Errors
    /// `ModeRefused`, `WrongState`, `Busy`, `NotAuthorized`, `AuthorityUnavailable`, `StepFailed`. After an error the
    /// mode is as before.
    #[zbus(allow_interactive_auth)]
    fn set_mode(&self, mode: Mode) -> zbus::Result<()>;

    /// Has each shutdown and restart of the machine write all dirty data to the disk, for at most so many minutes (25 at
    /// most; 0: it does not do that), after asking the user to authenticate (`.tune`). After such a shutdown nothing is
    /// on the SSD only, unless the time was over. Write-back goes on when the machine has started.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotAuthorized`, `AuthorityUnavailable`, `StepFailed`. After an error the setting is as before.
    #[zbus(allow_interactive_auth)]
    fn set_shutdown_minutes(&self, minutes: u32) -> zbus::Result<()>;

    /// Sets how much data may be on the SSD only, after asking the user to authenticate (`.tune`). When there is more,
    /// the cache writes the data to the disk until there is not. Applies in write-back.
    ///
    /// # Errors
    /// `InvalidArgument` if [`DirtyLimit::is_valid`] is false; `WrongState` if the cache does not run; `ModuleTooOld`;
    /// `Busy`, `NotAuthorized`, `AuthorityUnavailable`, `StepFailed`. After an error the limit is as before.
    #[zbus(allow_interactive_auth)]
    fn set_dirty_limit(&self, limit: DirtyLimit) -> zbus::Result<()>;

    /// Starts a cache again that was stopped so that its disk can be unplugged (`put-away`), or whose last start has failed
    /// for a reason that may be over, such as a program that used the disk (`disk-in-use`), after asking the user to
    /// authenticate (`.tune`). The cache also starts when the disk is plugged in again, is unmounted, or is mounted elsewhere.
    ///
    /// # Errors
    /// `WrongState` if the cache does not wait for that; `NotAuthorized`, `AuthorityUnavailable`.
    #[zbus(allow_interactive_auth)]
    fn start(&self) -> zbus::Result<()>;

    /// Pauses the cache, or lets it go on, after asking the user to authenticate (`.tune`). A paused cache serves what it
    /// holds and keeps that up to date, but stores nothing else. It goes on by itself when it is set up again, as at the
    /// next start of the machine.
    ///
    /// # Errors
    /// As [`Self::set_dirty_limit`].
    #[zbus(allow_interactive_auth)]
    fn set_paused(&self, paused: bool) -> zbus::Result<()>;

    /// Gives the cache a name, after asking the user to authenticate (`.tune`). The service cuts spaces at the ends off;
    /// an empty name takes the name away. The name is for people; the mapped device keeps its own [`Self::name`].
    ///
    /// # Errors
    /// `InvalidArgument` if [`crate::checked_name`] refuses the name; `NotAuthorized`, `AuthorityUnavailable`. After an error the name is as before.
    #[zbus(allow_interactive_auth)]
    fn set_name(&self, name: &str) -> zbus::Result<()>;

    /// Begins the totals of the long history anew ([`LongHistory::total`]), after asking the user to authenticate
    /// (`.tune`). Its periods stay, and so do the counters of the samples.
    ///
    /// # Errors
    /// `WrongState`, `NotAuthorized`, `AuthorityUnavailable`, `Internal` if that cannot be saved. After an error the totals
    /// are as before.
    #[zbus(allow_interactive_auth)]
    fn reset_statistics(&self) -> zbus::Result<()>;

    /// Takes back the last [`Self::reset_statistics`] since the service was started, after asking as that does. What came
    /// since then counts for the totals of before.
    ///
    /// # Errors
    /// `WrongState` if there is nothing to take back, `NotAuthorized`, `AuthorityUnavailable`.
    #[zbus(allow_interactive_auth)]
    fn undo_reset_statistics(&self) -> zbus::Result<()>;

    /// Writes all dirty data to the disk, after asking the user to authenticate (`.tune`). The job can be paused. While
    /// the job runs, writes go to the disk as in write-through, so that the job comes to an end. After the job the mode
    /// is as before.
    ///
    /// # Errors
    /// `WrongState`, `Busy`, `TooMany`, `NotAuthorized`, `AuthorityUnavailable`.
    #[zbus(allow_interactive_auth)]
    fn flush(&self) -> zbus::Result<OwnedObjectPath>;

    /// Measures how fast the disk is with its SSD and without it, after polkit has allowed it
    /// (`org.tandemcache.Tandem1.test-speed`; a user at this machine needs no password). The test only reads: the same
    /// places from the disk and through the cache. Returns after 30 seconds at the latest. The service keeps the result
    /// with the cache: [`Self::last_speed_test`].
    ///
    /// One test at a time runs on the machine. The signal [`crate::ManagerProxy::receive_speed_test_progressed`] tells the
    /// progress. [`crate::ManagerProxy::cancel_speed_test`], and the end of the caller's connection to the bus, end the test,
    /// and so does each job with one of the devices.
    ///
    /// # Errors
    /// `Busy` if a job uses one of the devices, or (`name`: `speed-test`) if another test runs; `WrongState`,
    /// `NotAuthorized`, `AuthorityUnavailable`, `TooMany`, `Cancelled`, `DeviceGone`, `SpeedTestFailed`. After an error
    /// the last result is as before.
    #[zbus(allow_interactive_auth)]
    fn test_speed(&self) -> zbus::Result<SpeedTest>;

    /// The result of the last speed test of this cache, also from before a restart; with the time 0 there is none.
    #[zbus(property)]
    fn last_speed_test(&self) -> zbus::Result<SpeedTest>;

    /// The service has taken a sample, which is the new value of [`Self::latest`].
    #[zbus(signal)]
    fn sampled(&self, sample: Sample) -> zbus::Result<()>;

    /// UUID of the cache, 32 hex digits.
    #[zbus(property(emits_changed_signal = "const"))]
    fn uuid(&self) -> zbus::Result<String>;

    /// Name of the mapped device below `/dev/mapper`.
    #[zbus(property(emits_changed_signal = "const"))]
    fn name(&self) -> zbus::Result<String>;

    /// UDisks2 block object of the disk, `/` while it is missing.
    #[zbus(property)]
    fn origin(&self) -> zbus::Result<OwnedObjectPath>;

    /// UDisks2 block object of the SSD, `/` while it is missing.
    #[zbus(property)]
    fn ssd(&self) -> zbus::Result<OwnedObjectPath>;

    /// The disk, as last known.
    #[zbus(property)]
    fn origin_text(&self) -> zbus::Result<DeviceText>;

    /// The SSD, as last known.
    #[zbus(property)]
    fn ssd_text(&self) -> zbus::Result<DeviceText>;

    /// The mode: how the cache handles writes.
    #[zbus(property)]
    fn mode(&self) -> zbus::Result<Mode>;

    /// Modes that [`Self::set_mode`] refuses, with the reasons.
    #[zbus(property)]
    fn refused_modes(&self) -> zbus::Result<Vec<RefusedMode>>;

    /// Whether the record of the cache says that data may be on the SSD only. The record also covers a cache that does
    /// not run, and every mode.
    #[zbus(property)]
    fn may_be_unwritten(&self) -> zbus::Result<bool>;

    /// Whether the service took the cache out of write-back because a kernel that may start next lacks the module
    /// ([`crate::ManagerProxy::kernels_without_module`]). The service sets write-back again when each such kernel has the
    /// module, unless [`Self::set_mode`] chooses a mode meanwhile.
    #[zbus(property)]
    fn waits_for_kernel(&self) -> zbus::Result<bool>;

    /// Whether GRUB starts this machine from the disk of this cache, by BIOS or by an image without a signature. Such a
    /// cache is not created any more: GRUB's next update would make a start image that does not start the machine. The cache has to be
    /// removed before.
    #[zbus(property)]
    fn grub_would_fail(&self) -> zbus::Result<bool>;

    /// The target that serves the cache. A cache keeps its target.
    #[zbus(property(emits_changed_signal = "const"))]
    fn target(&self) -> zbus::Result<Target>;

    /// Whether something beside the cache changes the disk. While it does, each start of the cache is cold.
    #[zbus(property)]
    fn sharing(&self) -> zbus::Result<Sharing>;

    /// Minutes that a shutdown may take to write all dirty data to the disk; 0: it does not do that.
    #[zbus(property)]
    fn shutdown_minutes(&self) -> zbus::Result<u32>;

    /// How much data may be on the SSD only ([`Self::set_dirty_limit`]).
    #[zbus(property)]
    fn dirty_limit(&self) -> zbus::Result<DirtyLimit>;

    /// Whether the cache is paused ([`Self::set_paused`]).
    #[zbus(property)]
    fn paused(&self) -> zbus::Result<bool>;

    /// The report of the SSD about its health. Nothing is known of an SSD that is missing, is behind a volume, or
    /// cannot be read by UDisks2.
    #[zbus(property)]
    fn ssd_health(&self) -> zbus::Result<SsdHealth>;

    /// Name that the user gave the cache ([`Self::set_name`]); empty: none.
    #[zbus(property)]
    fn chosen_name(&self) -> zbus::Result<String>;

    /// Bytes of dirty data, which is on the SSD only, from the newest sample. No signal of properties tells a change:
    /// use [`Self::receive_sampled`].
    #[zbus(property(emits_changed_signal = "false"))]
    fn dirty_bytes(&self) -> zbus::Result<u64>;

    /// Seconds that a drain of the dirty data would take, from the newest sample; 0 if unknown.
    #[zbus(property(emits_changed_signal = "false"))]
    fn seconds_to_drain(&self) -> zbus::Result<u64>;

    /// What the cache is doing.
    #[zbus(property)]
    fn state(&self) -> zbus::Result<CacheState>;

    /// The reason of the state: a word, or empty.
    #[zbus(property)]
    fn state_reason(&self) -> zbus::Result<String>;

    /// UDisks2 block object of the mapped device, `/` while the cache is not assembled.
    #[zbus(property)]
    fn mapped(&self) -> zbus::Result<OwnedObjectPath>;

    /// Where the mapped device is mounted.
    #[zbus(property)]
    fn mount_points(&self) -> zbus::Result<Vec<String>>;

    /// Bytes of data that the cache can hold.
    #[zbus(property)]
    fn cache_bytes(&self) -> zbus::Result<u64>;

    /// The newest sample. No signal of properties tells a change: use [`Self::receive_sampled`].
    #[zbus(property(emits_changed_signal = "false"))]
    fn latest(&self) -> zbus::Result<Sample>;

    /// Object of the job that changes this cache now, or `/`.
    #[zbus(property)]
    fn job(&self) -> zbus::Result<OwnedObjectPath>;
}

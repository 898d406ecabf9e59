// SPDX-License-Identifier: GPL-3.0-or-later
//! Proxies of the service's interfaces, for every client.

use crate::{
    CacheState, DeviceText, Failure, FstabChange, JobKind, LongHistory, Mode, ModuleProblem,
    ModuleState, PlanReply, PlanSpec, RefusedMode, Sample, SigningKey, Span, SpeedTest, SsdPart,
    Step,
};
use zbus::{OwnedObjectPath, proxy};

/// The service as a whole.
#[proxy(
    interface = "org.tandemcache.Tandem1.Manager",
    default_service = "org.tandemcache.Tandem1",
    default_path = "/org/tandemcache/Tandem1"
)]
pub trait Manager {
    /// Says exactly what the creation of this cache would do, or why the cache cannot be created. Needs no
    /// authorisation and changes nothing.
    ///
    /// # Errors
    /// A [`Failure`] with the reason against the creation: see [`crate::Kind`].
    fn plan(&self, spec: &PlanSpec) -> zbus::Result<PlanReply>;

    /// Executes a plan of [`Self::plan`] after asking the user to authenticate: `org.tandemcache.Tandem1.create`, or
    /// `.create-erasing` if the plan erases content; for the mode write-back also `.write-back`. The object of the job
    /// exists when this call returns, and until ten seconds after the end of the job.
    ///
    /// # Errors
    /// `PlanUnknown`, `NotAuthorized`, `AuthorityUnavailable`, `DeviceGone`, `DeviceChanged`, `Busy`, `TooMany`. After
    /// an error nothing was changed.
    #[zbus(allow_interactive_auth)]
    fn create(&self, plan_id: &str, digest: &str) -> zbus::Result<OwnedObjectPath>;

    /// Lists the parts of a whole SSD in the order of addresses: the shares of caches, other partitions, and the free
    /// space in which [`Self::plan`] can make a partition. The list leaves out free space smaller than 1 MiB, and all
    /// free space of an SSD on which the service makes no partition ([`crate::Kind::SsdTable`]). An SSD without a
    /// partition table and without known content is one free part; only a plan finds out whether the SSD is really
    /// empty. Needs no authorisation and changes nothing.
    ///
    /// # Errors
    /// `DeviceGone`; `InvalidArgument` if the device is a partition or a volume.
    fn ssd_layout(&self, ssd: &OwnedObjectPath) -> zbus::Result<Vec<SsdPart>>;

    /// Says how the entries of fstab for this disk have to be changed before [`Self::plan`] can cache the disk
    /// ([`crate::Kind::FstabNamesDevice`]): the UUID of the file system takes the place of a name that would not find
    /// the cache. No change is needed if the answer is empty. Needs no authorisation and changes nothing.
    ///
    /// # Errors
    /// `DeviceGone`; `Indistinguishable` if another device has a file system with the same UUID, or if the file system
    /// has none.
    fn fstab_changes(&self, disk: &OwnedObjectPath) -> zbus::Result<Vec<FstabChange>>;

    /// Makes these changes in fstab, after asking the user to authenticate
    /// (`org.tandemcache.Tandem1.change-fstab`). Returns the path of the file in which the fstab of before is kept. The
    /// changed fstab is right with a cache and without one.
    ///
    /// # Errors
    /// `PlanUnknown` unless the changes are those of [`Self::fstab_changes`] at this moment; `NotAuthorized`,
    /// `AuthorityUnavailable`; `StepFailed` if fstab cannot be changed: then it is as before.
    #[zbus(allow_interactive_auth)]
    fn change_fstab(&self, disk: &OwnedObjectPath, changes: &[FstabChange])
    -> zbus::Result<String>;

    /// Measures how fast a disk without a cache is, after polkit has allowed it (`org.tandemcache.Tandem1.test-speed`).
    /// Returns after 30 seconds at the latest; see [`CacheProxy::test_speed`].
    ///
    /// # Errors
    /// As [`CacheProxy::test_speed`]; `DeviceGone`; `AlreadyCached` if the device is the mapping of a cache.
    #[zbus(allow_interactive_auth)]
    fn test_speed(&self, disk: &OwnedObjectPath) -> zbus::Result<SpeedTest>;

    /// Ends the speed test that runs. Without a test nothing happens. Allowed for the user that started the test, and
    /// for root.
    ///
    /// # Errors
    /// `NotAuthorized`.
    fn cancel_speed_test(&self) -> zbus::Result<()>;

    /// A speed test goes on. `done`: 0 to 1. `through_cache`: whether it reads through the cache now, and not from the
    /// disk.
    #[zbus(signal)]
    fn speed_test_progressed(&self, done: f64, through_cache: bool) -> zbus::Result<()>;

    /// Makes the service check whether the kernels that may start next have the module. For root only: the scripts of
    /// kernel packages and of DKMS make this call.
    ///
    /// # Errors
    /// `NotAuthorized`.
    fn check_kernels(&self) -> zbus::Result<()>;

    /// Version of the service.
    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> zbus::Result<String>;

    /// `device-mapper`, or `simulated` where no real device is touched.
    #[zbus(property(emits_changed_signal = "const"))]
    fn engine(&self) -> zbus::Result<String>;

    /// Whether the kernel can run a cache.
    #[zbus(property)]
    fn module_state(&self) -> zbus::Result<ModuleState>;

    /// Why the kernel cannot run a cache, and a detail for an expert: the end of the build's log, or the name of the
    /// missing package. The service signals a change when `ModuleState` changes and when kernels or modules were
    /// installed.
    #[zbus(property)]
    fn module_problem(&self) -> zbus::Result<(ModuleProblem, String)>;

    /// State of the key that DKMS signs modules with. The service signals a change as for `ModuleProblem`, and after
    /// [`Self::enroll_key`].
    #[zbus(property)]
    fn signing_key(&self) -> zbus::Result<SigningKey>;

    /// Makes the firmware ask at the next start whether to trust the key that DKMS signs modules with, after asking the
    /// user to authenticate (`org.tandemcache.Tandem1.enroll-key`). The firmware then asks for `password`: 8 to 256
    /// printable ASCII characters.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotAuthorized`, `AuthorityUnavailable`, `WrongState` unless the key is
    /// [`SigningKey::NotEnrolled`], `StepFailed` with the message of mokutil.
    #[zbus(allow_interactive_auth)]
    fn enroll_key(&self, password: &str) -> zbus::Result<()>;

    /// Releases of the kernels that may start next and have no module that they accept. While this list is not empty,
    /// the service keeps caches out of write-back, and their dirty data is written to the disks:
    /// [`CacheProxy::waits_for_kernel`].
    #[zbus(property)]
    fn kernels_without_module(&self) -> zbus::Result<Vec<String>>;

    /// Release of the running kernel, as `uname -r` gives it.
    #[zbus(property(emits_changed_signal = "const"))]
    fn kernel(&self) -> zbus::Result<String>;

    /// Least size of an SSD or of a partition for a cache, in bytes.
    #[zbus(property(emits_changed_signal = "const"))]
    fn minimum_ssd_bytes(&self) -> zbus::Result<u64>;
}

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
    /// As [`ManagerProxy::create`].
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
    /// As [`ManagerProxy::create`].
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
    /// One test at a time runs on the machine. The signal [`ManagerProxy::receive_speed_test_progressed`] tells the
    /// progress. [`ManagerProxy::cancel_speed_test`], and the end of the caller's connection to the bus, end the test,
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
    /// ([`ManagerProxy::kernels_without_module`]). The service sets write-back again when each such kernel has the
    /// module, unless [`Self::set_mode`] chooses a mode meanwhile.
    #[zbus(property)]
    fn waits_for_kernel(&self) -> zbus::Result<bool>;

    /// Minutes that a shutdown may take to write all dirty data to the disk; 0: it does not do that.
    #[zbus(property)]
    fn shutdown_minutes(&self) -> zbus::Result<u32>;

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

    /// UUID of the cache that the job creates or changes, 32 hex digits.
    #[zbus(property(emits_changed_signal = "const"))]
    fn cache_uuid(&self) -> zbus::Result<String>;

    /// Whether the job is over, and then the arguments of [`Self::receive_completed`]. The failure names the programs
    /// of the caller, and for root those of all users. Signals of this property, and an object manager, name no
    /// programs.
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn finished(&self) -> zbus::Result<(bool, bool, Failure)>;
}

/// Changes the simulated machine of `tandem-simulated`, at the object of the manager. The real service has no such
/// interface.
#[proxy(
    interface = "org.tandemcache.Tandem1.Simulation",
    default_service = "org.tandemcache.Tandem1",
    default_path = "/org/tandemcache/Tandem1"
)]
pub trait Simulation {
    /// Plugs in a drive; `kind` is `disk` (rotational, one ext4 partition with files), `ssd` (empty),
    /// or `usb` (a stick with a FAT partition). Returns the block objects, whole drive first.
    fn plug(
        &self,
        kind: &str,
        model: &str,
        serial: &str,
        bytes: u64,
    ) -> zbus::Result<Vec<OwnedObjectPath>>;

    /// Unplugs the drive of this block object.
    fn unplug(&self, block: &OwnedObjectPath) -> zbus::Result<()>;

    /// The next execution of a step of this kind fails ([`crate::Kind::StepFailed`]).
    fn fail_next(&self, step: crate::StepKind) -> zbus::Result<()>;

    /// The programs that keep the file system of this block object busy from now on. With an empty list the file system
    /// is not busy.
    fn set_users(&self, block: &OwnedObjectPath, users: &[crate::FileUser]) -> zbus::Result<()>;

    /// Replaces the file system on this block object by another one with the same type, size and label, and with this
    /// UUID.
    fn format(&self, block: &OwnedObjectPath, uuid: &str) -> zbus::Result<()>;

    /// Lets this block object, a partition, grow to this size.
    fn grow(&self, block: &OwnedObjectPath, bytes: u64) -> zbus::Result<()>;

    /// Has fstab name the file systems of this block object so from now on.
    fn set_fstab_name(&self, block: &OwnedObjectPath, name: &str) -> zbus::Result<()>;

    /// Whether a program has this block object open exclusively from now on.
    fn claim(&self, block: &OwnedObjectPath, claimed: bool) -> zbus::Result<()>;

    /// The state of the module from now on. The module cannot be loaded in the states [`ModuleState::Refused`] and
    /// [`ModuleState::NotBuilt`].
    fn set_module(&self, state: ModuleState) -> zbus::Result<()>;

    /// Why the kernel has no module that it accepts, and the state of the module's key. The state of the module stays.
    fn set_module_problem(&self, problem: ModuleProblem, key: SigningKey) -> zbus::Result<()>;

    /// The kernels that from now on may start next and have no module.
    fn set_kernels_without_module(&self, releases: &[&str]) -> zbus::Result<()>;

    /// How long each step takes from now on, the step that is being done included, in milliseconds (400 at first).
    fn set_step_time(&self, milliseconds: u32) -> zbus::Result<()>;

    /// Time between two samples of a watched cache from now on, in milliseconds (1000 at first).
    fn set_sample_period(&self, milliseconds: u32) -> zbus::Result<()>;

    /// Whether authorisation is granted from now on (at first it is).
    fn set_authorized(&self, authorized: bool) -> zbus::Result<()>;

    /// Lets this much time pass for the counters of all caches at once, to have a history to show.
    fn advance(&self, seconds: u32) -> zbus::Result<()>;

    /// Unplugs the drive of this block object and plugs the drive in again with the same content.
    fn replug(&self, block: &OwnedObjectPath) -> zbus::Result<()>;

    /// Moves the drive of this block object into a USB enclosure with this serial number.
    fn rehouse(&self, block: &OwnedObjectPath, serial: &str) -> zbus::Result<()>;

    /// Switches the machine off and on again. The service keeps running.
    fn restart(&self) -> zbus::Result<()>;

    /// A program other than the service mounts this block object.
    fn mount(&self, block: &OwnedObjectPath, point: &str) -> zbus::Result<()>;

    /// Whether a volume, a mapping of the service or a hold uses this block object, so that no program can mount it.
    fn held(&self, block: &OwnedObjectPath) -> zbus::Result<bool>;

    /// The rate at which the caches write dirty data to the disk from now on, in bytes a second (50 MB/s at first).
    fn set_drain_rate(&self, bytes: u64) -> zbus::Result<()>;

    /// The share of other programs in what the disks do from now on, in percent (0 at first).
    fn set_other_load(&self, percent: u32) -> zbus::Result<()>;

    /// How long a drain waits from now on for a disk that fails all writes, in milliseconds (2 minutes at first).
    fn set_stall_limit(&self, milliseconds: u32) -> zbus::Result<()>;

    /// Bytes of dirty data that were lost since the simulation began.
    fn lost_bytes(&self) -> zbus::Result<u64>;

    /// Puts the cache with this UUID (32 hex digits) into a state, with a reason: `active`, or `bypass` for a lost SSD.
    fn set_state(&self, uuid: &str, state: CacheState, reason: &str) -> zbus::Result<()>;
}

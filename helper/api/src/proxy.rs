// SPDX-License-Identifier: GPL-3.0-or-later
//! Proxies of the service's interfaces, for every client.

use crate::{
    CacheState, DeviceText, Failure, JobKind, LongHistory, Mode, ModuleProblem, ModuleState,
    PlanReply, PlanSpec, RefusedMode, Sample, SigningKey, Span, SsdPart, Step,
};
use zbus::{OwnedObjectPath, proxy};

/// The service as a whole.
#[proxy(
    interface = "org.tandemcache.Tandem1.Manager",
    default_service = "org.tandemcache.Tandem1",
    default_path = "/org/tandemcache/Tandem1"
)]
pub trait Manager {
    /// Says exactly what creating this cache would do, or why it cannot be done. Needs no
    /// authorisation and changes nothing.
    ///
    /// # Errors
    /// A [`Failure`] for each reason not to create it: see [`crate::Kind`].
    fn plan(&self, spec: &PlanSpec) -> zbus::Result<PlanReply>;

    /// Executes a plan of [`Self::plan`] after asking the user to authenticate
    /// (`org.tandemcache.Tandem1.create`, or `.create-erasing` where the plan erases content; in mode
    /// write-back `.write-back` as well). The job's object exists from the moment of this answer until ten seconds after its end.
    ///
    /// # Errors
    /// `PlanUnknown`, `NotAuthorized`, `AuthorityUnavailable`, `DeviceGone`, `DeviceChanged`,
    /// `Busy`, `TooMany`: nothing was changed then.
    #[zbus(allow_interactive_auth)]
    fn create(&self, plan_id: &str, digest: &str) -> zbus::Result<OwnedObjectPath>;

    /// Says how a whole SSD is divided, in the order of addresses: the shares of caches, what else is on it, and the free
    /// space in which [`Self::plan`] can make a partition. Free space smaller than 1 MiB is left out, and so is all free
    /// space where the service makes no partition ([`crate::Kind::SsdTable`]). An SSD without a partition table and
    /// without known content is one free part; whether it is really empty only a plan finds out. Needs no authorisation
    /// and changes nothing.
    ///
    /// # Errors
    /// `DeviceGone`; `InvalidArgument` if it is a partition or a volume.
    fn ssd_layout(&self, ssd: &OwnedObjectPath) -> zbus::Result<Vec<SsdPart>>;

    /// Has the service look whether the kernels that may start next have the module. For root only: the scripts of
    /// kernel packages and of DKMS call it.
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

    /// Has the firmware ask at the next start whether to trust the key that DKMS signs modules with, after asking the
    /// user to authenticate (`org.tandemcache.Tandem1.enroll-key`). The person types `password` there again: 8 to 256
    /// printable ASCII characters.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotAuthorized`, `AuthorityUnavailable`, `WrongState` unless the key is
    /// [`SigningKey::NotEnrolled`], `StepFailed` with what mokutil says.
    #[zbus(allow_interactive_auth)]
    fn enroll_key(&self, password: &str) -> zbus::Result<()>;

    /// Releases of the kernels that may start next and have no module that they accept. While there are any, caches
    /// in write-back are in write-through, and what is on their SSDs only is written to the disks.
    #[zbus(property)]
    fn kernels_without_module(&self) -> zbus::Result<Vec<String>>;

    /// Release of the running kernel, as `uname -r` gives it.
    #[zbus(property(emits_changed_signal = "const"))]
    fn kernel(&self) -> zbus::Result<String>;

    /// Least bytes that an SSD or a partition must have.
    #[zbus(property(emits_changed_signal = "const"))]
    fn minimum_ssd_bytes(&self) -> zbus::Result<u64>;
}

/// One cache.
#[proxy(
    interface = "org.tandemcache.Tandem1.Cache",
    default_service = "org.tandemcache.Tandem1"
)]
pub trait Cache {
    /// Asks for a sample each second instead of every ten, until [`Self::unwatch`] or until the
    /// caller leaves the bus. Calls do not add up.
    fn watch(&self) -> zbus::Result<()>;

    /// Ends [`Self::watch`].
    fn unwatch(&self) -> zbus::Result<()>;

    /// Samples of the past, oldest first, at most 600; at uneven distances, see [`Sample::time_us`].
    ///
    /// # Errors
    /// `TooMany` if this user asked for very many of them in the last minutes.
    fn history(&self) -> zbus::Result<Vec<Sample>>;

    /// What the cache did over a longer time, also before the service was started.
    ///
    /// # Errors
    /// As [`Self::history`].
    fn long_history(&self, span: Span) -> zbus::Result<LongHistory>;

    /// Says what removing the cache would do. Needs no authorisation and changes nothing.
    ///
    /// # Errors
    /// `UnwrittenData` if something is only on the SSD and cannot be written to the disk now. While the
    /// state's reason is `disk-error` it is tried; the job ends with that failure if the disk takes no more.
    fn plan_remove(&self) -> zbus::Result<PlanReply>;

    /// Says what removing the cache would do if what is only on the SSD were given up. Needs no
    /// authorisation and changes nothing.
    ///
    /// # Errors
    /// `WrongState` if nothing has to be given up: see [`Self::plan_remove`]. What a disk has refused
    /// (`disk-error`) can be.
    fn plan_discard(&self) -> zbus::Result<PlanReply>;

    /// Executes a plan of [`Self::plan_remove`] or [`Self::plan_discard`] after asking the user to
    /// authenticate (`org.tandemcache.Tandem1.remove`, `.discard`).
    ///
    /// # Errors
    /// As [`ManagerProxy::create`].
    #[zbus(allow_interactive_auth)]
    fn remove(&self, plan_id: &str, digest: &str) -> zbus::Result<OwnedObjectPath>;

    /// Treats writes another way from now on, after asking the user to authenticate
    /// (`org.tandemcache.Tandem1.write-back` for that mode, `.tune` for the others). Leaving write-back,
    /// what is only on the SSD is written to the disk little by little: see [`Self::dirty_bytes`].
    ///
    /// # Errors
    /// `ModeRefused`, `WrongState`, `Busy`, `NotAuthorized`, `AuthorityUnavailable`, `StepFailed`: the mode
    /// is as it was then.
    #[zbus(allow_interactive_auth)]
    fn set_mode(&self, mode: Mode) -> zbus::Result<()>;

    /// Writes all to the disk that is only on the SSD, as a job that can be paused, after asking the
    /// user to authenticate (`.tune`). Until its end writes go to the disk as in write-through, so that
    /// it comes to an end; then the mode is as before.
    ///
    /// # Errors
    /// `WrongState`, `Busy`, `TooMany`, `NotAuthorized`, `AuthorityUnavailable`.
    #[zbus(allow_interactive_auth)]
    fn flush(&self) -> zbus::Result<OwnedObjectPath>;

    /// A new sample; also the new value of [`Self::latest`].
    #[zbus(signal)]
    fn sampled(&self, sample: Sample) -> zbus::Result<()>;

    /// 32 hex digits.
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

    /// How writes are treated.
    #[zbus(property)]
    fn mode(&self) -> zbus::Result<Mode>;

    /// Modes that [`Self::set_mode`] refuses, and why.
    #[zbus(property)]
    fn refused_modes(&self) -> zbus::Result<Vec<RefusedMode>>;

    /// Whether data may be on the SSD only, as far as is recorded: also of a cache that does not run, in every mode.
    #[zbus(property)]
    fn may_be_unwritten(&self) -> zbus::Result<bool>;

    /// Whether the service took the cache out of write-back because a kernel that may start next lacks the module
    /// ([`ManagerProxy::kernels_without_module`]). The service sets write-back again when each such kernel has the
    /// module, unless [`Self::set_mode`] chooses a mode meanwhile.
    #[zbus(property)]
    fn waits_for_kernel(&self) -> zbus::Result<bool>;

    /// Bytes that are only on the SSD, as in the newest sample; told by [`Self::receive_sampled`] only.
    #[zbus(property(emits_changed_signal = "false"))]
    fn dirty_bytes(&self) -> zbus::Result<u64>;

    /// Seconds that writing them to the disk would take, as in the newest sample; 0 until that is known.
    #[zbus(property(emits_changed_signal = "false"))]
    fn seconds_to_drain(&self) -> zbus::Result<u64>;

    /// What the cache is doing.
    #[zbus(property)]
    fn state(&self) -> zbus::Result<CacheState>;

    /// Why it is in that state: a word, or empty.
    #[zbus(property)]
    fn state_reason(&self) -> zbus::Result<String>;

    /// UDisks2 block object of the mapped device, `/` while it is not assembled.
    #[zbus(property)]
    fn mapped(&self) -> zbus::Result<OwnedObjectPath>;

    /// Where the mapped device is mounted.
    #[zbus(property)]
    fn mount_points(&self) -> zbus::Result<Vec<String>>;

    /// Bytes of data that the cache can hold.
    #[zbus(property)]
    fn cache_bytes(&self) -> zbus::Result<u64>;

    /// The newest sample. Changes are told by [`Self::receive_sampled`] only.
    #[zbus(property(emits_changed_signal = "false"))]
    fn latest(&self) -> zbus::Result<Sample>;

    /// Job that changes this cache now, or `/`.
    #[zbus(property)]
    fn job(&self) -> zbus::Result<OwnedObjectPath>;
}

/// A change under way. Its object goes ten seconds after its end.
#[proxy(
    interface = "org.tandemcache.Tandem1.Job",
    default_service = "org.tandemcache.Tandem1"
)]
pub trait Job {
    /// Asks the job to stop and to undo what it did. Its end tells whether it came in time
    /// (`Cancelled`) or too late. Allowed for the user who started it and for root.
    fn cancel(&self) -> zbus::Result<()>;

    /// Asks a job that [`Self::pausable`] says can be paused to wait, until [`Self::resume`]. A job that
    /// is paused when the machine is switched off is paused after the next start. Allowed for the user
    /// who started it and for root.
    ///
    /// # Errors
    /// `WrongState` if it cannot be paused now.
    fn pause(&self) -> zbus::Result<()>;

    /// Ends [`Self::pause`].
    fn resume(&self) -> zbus::Result<()>;

    /// The job is over. With `success` the failure is empty ([`Failure::none`]) and to be ignored. A failure names no
    /// programs of users: a client reads [`Self::finished`], which names the caller's own. A client that may have come
    /// too late reads it after subscribing, too.
    #[zbus(signal)]
    fn completed(&self, success: bool, failure: Failure) -> zbus::Result<()>;

    /// What is done.
    #[zbus(property(emits_changed_signal = "const"))]
    fn kind(&self) -> zbus::Result<JobKind>;

    /// The steps of the plan.
    #[zbus(property(emits_changed_signal = "const"))]
    fn steps(&self) -> zbus::Result<Vec<Step>>;

    /// Step under way, from 0; the number of steps once all are done.
    #[zbus(property)]
    fn step_index(&self) -> zbus::Result<u32>;

    /// Whether steps are being undone.
    #[zbus(property)]
    fn undoing(&self) -> zbus::Result<bool>;

    /// 0 to 1, over all steps; never goes back except while undoing.
    #[zbus(property)]
    fn progress(&self) -> zbus::Result<f64>;

    /// Bytes a second of a step that moves data, else 0.
    #[zbus(property)]
    fn rate_bytes(&self) -> zbus::Result<u64>;

    /// Seconds until the end by the best guess, 0 if unknown.
    #[zbus(property)]
    fn estimated_seconds(&self) -> zbus::Result<u64>;

    /// Whether [`Self::cancel`] can still have an effect.
    #[zbus(property)]
    fn cancellable(&self) -> zbus::Result<bool>;

    /// Whether [`Self::pause`] has an effect now: in a step that moves data.
    #[zbus(property)]
    fn pausable(&self) -> zbus::Result<bool>;

    /// Whether the job waits for [`Self::resume`].
    #[zbus(property)]
    fn paused(&self) -> zbus::Result<bool>;

    /// Cache that the job makes or changes, by uuid (32 hex digits).
    #[zbus(property(emits_changed_signal = "const"))]
    fn cache_uuid(&self) -> zbus::Result<String>;

    /// Whether the job is over, and how: the arguments of [`Self::receive_completed`]. Names the caller's own programs,
    /// and to root all. What a change of this property or an object manager tells names none.
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn finished(&self) -> zbus::Result<(bool, bool, Failure)>;
}

/// The levers of `tandem-simulated`, on the manager's object; the real service has none.
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

    /// Pulls the drive that this block object is (on).
    fn unplug(&self, block: &OwnedObjectPath) -> zbus::Result<()>;

    /// The next execution of a step of this kind fails ([`crate::Kind::StepFailed`]).
    fn fail_next(&self, step: crate::StepKind) -> zbus::Result<()>;

    /// Programs that from now on keep this block object's file system busy; none makes it free.
    fn set_users(&self, block: &OwnedObjectPath, users: &[crate::FileUser]) -> zbus::Result<()>;

    /// Puts another file system on this block object, of the same type, size and label, with this UUID.
    fn format(&self, block: &OwnedObjectPath, uuid: &str) -> zbus::Result<()>;

    /// Whether from now on another program holds this block object exclusively.
    fn hold(&self, block: &OwnedObjectPath, held: bool) -> zbus::Result<()>;

    /// State of the module; [`ModuleState::Refused`] and [`ModuleState::NotBuilt`] make loading fail.
    fn set_module(&self, state: ModuleState) -> zbus::Result<()>;

    /// Why the kernel has no module that it accepts, and the state of the module's key. The state of the module stays.
    fn set_module_problem(&self, problem: ModuleProblem, key: SigningKey) -> zbus::Result<()>;

    /// Kernels that may start next and have no module.
    fn set_kernels_without_module(&self, releases: &[&str]) -> zbus::Result<()>;

    /// How long each step takes from now on, in milliseconds (400 at first).
    fn set_step_time(&self, milliseconds: u32) -> zbus::Result<()>;

    /// Time between two samples of a watched cache from now on, in milliseconds (1000 at first).
    fn set_sample_period(&self, milliseconds: u32) -> zbus::Result<()>;

    /// Whether authorisation is granted from now on (at first it is).
    fn set_authorized(&self, authorized: bool) -> zbus::Result<()>;

    /// Lets this much time pass for the counters of all caches at once, to have a history to show.
    fn advance(&self, seconds: u32) -> zbus::Result<()>;

    /// Pulls the drive that this block object is (on) and plugs it in again, with all that is on it.
    fn replug(&self, block: &OwnedObjectPath) -> zbus::Result<()>;

    /// Puts the drive of a device into a USB enclosure with this serial number, and plugs the device in again.
    fn rehouse(&self, block: &OwnedObjectPath, serial: &str) -> zbus::Result<()>;

    /// The machine is switched off and on again, as far as devices are concerned.
    fn restart(&self) -> zbus::Result<()>;

    /// Somebody mounts this block object.
    fn mount(&self, block: &OwnedObjectPath, point: &str) -> zbus::Result<()>;

    /// Whether a mapping of ours keeps this block object from everybody.
    fn kept(&self, block: &OwnedObjectPath) -> zbus::Result<bool>;

    /// How fast the caches write to the disk what is only on the SSD, bytes a second (50 MB/s at first).
    fn set_drain_rate(&self, bytes: u64) -> zbus::Result<()>;

    /// How long a disk is waited for that refuses what is to be written (2 minutes at first).
    fn set_patience(&self, milliseconds: u32) -> zbus::Result<()>;

    /// Bytes that were only on an SSD and have been lost since the simulation began.
    fn lost_bytes(&self) -> zbus::Result<u64>;

    /// Puts a cache (32 hex digits) into a state, with a reason: `active`, or `bypass` for a lost SSD.
    fn set_state(&self, uuid: &str, state: CacheState, reason: &str) -> zbus::Result<()>;
}

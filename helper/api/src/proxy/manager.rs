// SPDX-License-Identifier: GPL-3.0-or-later
//! The manager: the service as a whole.

use crate::{
    DiskWatch, FoundCache, JudgedDevice, ModuleProblem, ModuleState, NameChange, OtherCache,
    OtherPeriod, PlanReply, PlanSpec, SigningKey, SpeedTest, SsdPart,
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
    /// A [`crate::Failure`] with the reason against the creation: see [`crate::Kind`].
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

    /// Says how a file has to be changed before [`Self::plan`] can cache the disk ([`crate::Kind::FstabNamesDevice`],
    /// [`crate::Kind::CrypttabNamesDevice`], [`crate::Kind::GrubNamesDevice`]): the UUID of the content takes the place
    /// of a name that would not find the cache. All changes are of one file; another file may have to be changed after
    /// it. No change is needed or can be made if the answer is empty. Needs no authorisation and changes nothing.
    ///
    /// # Errors
    /// `DeviceGone`; `Indistinguishable` if another device has content with the same UUID, or if the content has none.
    fn name_changes(&self, disk: &OwnedObjectPath) -> zbus::Result<Vec<NameChange>>;

    /// Makes these changes, after asking the user to authenticate (`org.tandemcache.Tandem1.change-names`), and has
    /// GRUB's menu made anew after a change of its settings. Returns the path of the file of before, which is kept. The
    /// changed file is right with a cache and without one.
    ///
    /// # Errors
    /// `PlanUnknown` unless the changes are those of [`Self::name_changes`] at this moment; `NotAuthorized`,
    /// `AuthorityUnavailable`; `StepFailed` if the file cannot be changed, or GRUB's menu not be made: then the file is
    /// as before.
    #[zbus(allow_interactive_auth)]
    fn change_names(&self, disk: &OwnedObjectPath, changes: &[NameChange]) -> zbus::Result<String>;

    /// Measures how fast a disk without a cache is, after polkit has allowed it (`org.tandemcache.Tandem1.test-speed`).
    /// Returns after 30 seconds at the latest; see [`crate::CacheProxy::test_speed`].
    ///
    /// # Errors
    /// As [`crate::CacheProxy::test_speed`]; `DeviceGone`; `AlreadyCached` if the device is the mapping of a cache.
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

    /// Begins to watch the requests to a disk without a cache, after polkit has allowed it
    /// (`org.tandemcache.Tandem1.watch-disk`), to predict what a cache would do. The watch goes on over restarts of the
    /// service and of the machine, until [`Self::stop_watching`] or until the disk gets a cache. It changes nothing on the
    /// disk. Returns the id of the watch; for a disk that is watched already, the id of that watch.
    ///
    /// # Errors
    /// `DeviceGone`, `DeviceChanged`; `AlreadyCached`; `OriginPartitioned`; `InvalidArgument` for a loop device;
    /// `Indistinguishable`; `TooMany` watched disks; `StepFailed` if the kernel does not tell of the requests;
    /// `NotAuthorized`, `AuthorityUnavailable`.
    #[zbus(allow_interactive_auth)]
    fn watch_disk(&self, disk: &OwnedObjectPath) -> zbus::Result<String>;

    /// Ends the watch with this id and forgets what was seen, after polkit has allowed it
    /// (`org.tandemcache.Tandem1.watch-disk`).
    ///
    /// # Errors
    /// `WrongState` if there is no such watch; `NotAuthorized`, `AuthorityUnavailable`.
    #[zbus(allow_interactive_auth)]
    fn stop_watching(&self, id: &str) -> zbus::Result<()>;

    /// The disks that are watched. The service signals a change when a watch begins, ends or changes its state, and once a
    /// minute if there were requests.
    #[zbus(property)]
    fn watches(&self) -> zbus::Result<Vec<DiskWatch>>;

    /// The block devices, and what can be done with each. The service signals a change soon after a device is plugged in,
    /// mounted, taken into use or changed.
    #[zbus(property)]
    fn devices(&self) -> zbus::Result<Vec<JudgedDevice>>;

    /// Caches that other systems have made: bcache, LVM, dm-cache and so on. The service shows them. It signals changes of the
    /// machine at once, and looks at their figures every 14 s.
    #[zbus(property)]
    fn other_caches(&self) -> zbus::Result<Vec<OtherCache>>;

    /// The periods of the last hour of a cache of another system, oldest first; none before the service has looked at it twice. The
    /// service keeps this in memory only, and looks every 14 s. `id`: [`OtherCache::id`]. Needs no authorisation and changes
    /// nothing.
    ///
    /// # Errors
    /// `WrongState` if there is no such cache.
    fn other_history(&self, id: &str) -> zbus::Result<Vec<OtherPeriod>>;

    /// Says what the removal of a cache of another system would do ([`OtherCache::id`]). The amounts are those of
    /// [`Self::other_caches`]. Needs no authorisation and changes nothing. Of a bcache device without a cache
    /// ([`OtherCache::is_left_alone`]) bcache itself is removed: the partition becomes a plain one.
    ///
    /// # Errors
    /// `WrongState` if there is no such cache; `OtherNotRemovable`; `StaysBcache`, and those of an entry that names the device.
    fn plan_remove_other(&self, id: &str) -> zbus::Result<PlanReply>;

    /// Writes back what is on the SSD only and removes a cache of another system, after asking the user to authenticate
    /// (`org.tandemcache.Tandem1.remove`). The disk stays in use. A job that is cancelled keeps the cache. If the service is
    /// killed, the next service takes the job up. Before a partition table is changed
    /// (`org.tandemcache.Tandem1.move-partition`), a copy of it is kept in [`crate::TABLES_FOLDER`].
    ///
    /// # Errors
    /// As [`Self::create`]; those of [`Self::plan_remove_other`].
    #[zbus(allow_interactive_auth)]
    fn remove_other(&self, plan_id: &str, digest: &str) -> zbus::Result<OwnedObjectPath>;

    /// Has a cache of another system write everything back, after asking the user to authenticate
    /// (`org.tandemcache.Tandem1.tune`). The cache stays, and is set as before at the end. `id`: [`OtherCache::id`].
    ///
    /// # Errors
    /// `WrongState` if there is no such cache; `OtherNotRemovable`.
    #[zbus(allow_interactive_auth)]
    fn write_back_other(&self, id: &str) -> zbus::Result<OwnedObjectPath>;

    /// The caches on SSDs that are there and of which this system has no record.
    #[zbus(property)]
    fn found_caches(&self) -> zbus::Result<Vec<FoundCache>>;

    /// Makes a record of the cache with this UUID on this SSD ([`Self::found_caches`]) after asking the user to authenticate
    /// (`org.tandemcache.Tandem1.take-over`). The service then puts the cache over the disk that the SSD names, in
    /// write-through. If data is on the SSD only, the module refuses a disk that was changed since, as far as it can tell.
    ///
    /// # Errors
    /// `WrongState` if there is no such cache; `DeviceGone` if its disk is not there; `OriginInUse` if data may be on the
    /// SSD only and the disk is mounted; `Indistinguishable` if two SSDs have the cache; `Busy`, `NotAuthorized`,
    /// `AuthorityUnavailable`.
    #[zbus(allow_interactive_auth)]
    fn take_over(&self, ssd: &OwnedObjectPath, uuid: &str) -> zbus::Result<()>;

    /// Gives up what the cache with this UUID on this SSD ([`Self::found_caches`]) holds, after asking the user to authenticate
    /// (`org.tandemcache.Tandem1.discard`). The SSD is empty afterwards.
    ///
    /// # Errors
    /// `WrongState` if there is no such cache; `SsdInUse`, `Busy`, `NotAuthorized`, `AuthorityUnavailable`; `StepFailed`.
    #[zbus(allow_interactive_auth)]
    fn discard_found(&self, ssd: &OwnedObjectPath, uuid: &str) -> zbus::Result<()>;

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

    /// Whether the running kernel has `dm-cache`, so that [`Target::DmCache`] can be asked for.
    #[zbus(property(emits_changed_signal = "const"), name = "HasDmCache")]
    fn has_dm_cache(&self) -> zbus::Result<bool>;

    /// Most bytes of memory that caches may take together ([`crate::PlanSpec::memory_bytes`]): half of the computer's memory.
    /// 0: the kernel cannot have a cache in memory.
    #[zbus(property(emits_changed_signal = "const"))]
    fn memory_for_caches(&self) -> zbus::Result<u64>;

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
    /// [`crate::CacheProxy::waits_for_kernel`].
    #[zbus(property)]
    fn kernels_without_module(&self) -> zbus::Result<Vec<String>>;

    /// Release of the running kernel, as `uname -r` gives it.
    #[zbus(property(emits_changed_signal = "const"))]
    fn kernel(&self) -> zbus::Result<String>;

    /// Least size of an SSD or of a partition for a cache, in bytes.
    #[zbus(property(emits_changed_signal = "const"))]
    fn minimum_ssd_bytes(&self) -> zbus::Result<u64>;
}

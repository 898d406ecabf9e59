// SPDX-License-Identifier: GPL-3.0-or-later
//! The simulated machine of tests.

use crate::{CacheState, ModuleProblem, ModuleState, SigningKey, SsdHealth};
use zbus::{OwnedObjectPath, proxy};

/// Changes the simulated machine of `tandem-simulated`, at the object of the manager. The real service has no such
/// interface.
#[proxy(
    interface = "org.tandemcache.Tandem1.Simulation",
    default_service = "org.tandemcache.Tandem1",
    default_path = "/org/tandemcache/Tandem1"
)]
pub trait Simulation {
    /// Plugs in a drive; `kind` is `disk` (rotational, one ext4 partition with files), `ssd` (empty),
    /// `usb` (a stick with a FAT partition), or `usb-disk` (as `disk`, in a USB enclosure). Returns the block objects, whole drive first.
    fn plug(
        &self,
        kind: &str,
        model: &str,
        serial: &str,
        bytes: u64,
    ) -> zbus::Result<Vec<OwnedObjectPath>>;

    /// Plugs in an SSD with a cache of this disk, made by another system. Returns the block object of the SSD.
    /// `dirty_bytes`: so much is on the SSD only.
    fn plug_cache(
        &self,
        disk: &OwnedObjectPath,
        model: &str,
        serial: &str,
        dirty_bytes: u64,
    ) -> zbus::Result<OwnedObjectPath>;

    /// The caches of other systems from now on.
    fn set_other_caches(&self, caches: &[crate::OtherCache]) -> zbus::Result<()>;

    /// Unplugs the drive of this block object.
    fn unplug(&self, block: &OwnedObjectPath) -> zbus::Result<()>;

    /// The next execution of a step of this kind fails ([`crate::Kind::StepFailed`]).
    fn fail_next(&self, step: crate::StepKind) -> zbus::Result<()>;

    /// The programs that keep the file system of this block object busy from now on. With an empty list the file system
    /// is not busy.
    fn set_users(&self, block: &OwnedObjectPath, users: &[crate::FileUser]) -> zbus::Result<()>;

    /// What the drive of this block object says of its health from now on.
    fn set_health(&self, block: &OwnedObjectPath, health: &SsdHealth) -> zbus::Result<()>;

    /// Replaces the file system on this block object by another one with the same type, size and label, and with this
    /// UUID.
    fn format(&self, block: &OwnedObjectPath, uuid: &str) -> zbus::Result<()>;

    /// Lets this block object, a partition, grow to this size.
    fn grow(&self, block: &OwnedObjectPath, bytes: u64) -> zbus::Result<()>;

    /// Has fstab name the file systems of this block object so from now on.
    fn set_fstab_name(&self, block: &OwnedObjectPath, name: &str) -> zbus::Result<()>;

    /// Adds an entry for this block object to a file by which the start of the machine finds devices.
    fn add_start_entry(
        &self,
        block: &OwnedObjectPath,
        file: &str,
        entry: &str,
        name: &str,
    ) -> zbus::Result<()>;

    /// Has GRUB start the machine from this block object.
    fn set_grub_disk(&self, block: &OwnedObjectPath) -> zbus::Result<()>;

    /// Whether this block object, a logical volume, has snapshots from now on.
    fn set_snapshots(&self, block: &OwnedObjectPath, snapshots: bool) -> zbus::Result<()>;

    /// Whether this block object is on the network from now on.
    fn set_network(&self, block: &OwnedObjectPath, network: bool) -> zbus::Result<()>;

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

    /// How often the service has asked the machine something so far, and the most questions that were open at a time since
    /// the last call. The status of a cache does not count.
    fn questions(&self) -> zbus::Result<(u64, u32)>;

    /// How long the machine takes for each such question from now on, in milliseconds (0 at first).
    fn set_question_time(&self, milliseconds: u32) -> zbus::Result<()>;

    /// Time between two samples of a watched cache from now on, in milliseconds (1000 at first).
    fn set_sample_period(&self, milliseconds: u32) -> zbus::Result<()>;

    /// Bytes of memory that programs can have from now on; the computer has 16 GiB.
    fn set_memory_available(&self, bytes: u64) -> zbus::Result<()>;

    /// Whether authorisation is granted from now on (at first it is).
    fn set_authorized(&self, authorized: bool) -> zbus::Result<()>;

    /// Lets this much time pass for the counters of all caches at once, to have a history to show, and for the disks that
    /// are watched.
    fn advance(&self, seconds: u32) -> zbus::Result<()>;

    /// Unplugs the drive of this block object and plugs the drive in again with the same content.
    fn replug(&self, block: &OwnedObjectPath) -> zbus::Result<()>;

    /// Moves the drive of this block object into a USB enclosure with this serial number.
    fn rehouse(&self, block: &OwnedObjectPath, serial: &str) -> zbus::Result<()>;

    /// Switches the machine off and on again. The service keeps running.
    fn restart(&self) -> zbus::Result<()>;

    /// A program other than the service mounts this block object.
    fn mount(&self, block: &OwnedObjectPath, point: &str) -> zbus::Result<()>;

    /// A program other than the service unmounts this block object.
    fn unmount(&self, block: &OwnedObjectPath) -> zbus::Result<()>;

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

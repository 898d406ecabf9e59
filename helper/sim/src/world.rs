// SPDX-License-Identifier: GPL-3.0-or-later
//! The state of the simulated machine. One lock guards the state, and no code holds the lock across an await.

use super::catalogue;
use super::counters::Load;
use super::questions::Questions;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tandem_api::{
    CacheState, Failure, FileUser, Kind, ModuleProblem, ModuleState, OtherCache, OtherMode,
    SigningKey, SsdHealth, StepKind, Target,
};
use tandem_helper::host::reads::Work;
use tandem_helper::model::action::{MountDevice, Pair};
use tandem_helper::model::facts::{Ident, Mount, Mounter, StartEntry, StartTable};
use tokio::sync::{Notify, watch};

/// A removal that another system is at.
#[derive(Debug)]
pub struct OtherRun {
    pub begun: Instant,
    /// Bytes that were on the SSD only then.
    pub bytes: u64,
    /// The mode before.
    pub mode: OtherMode,
    /// The system fails.
    pub fails: bool,
    pub stopped: bool,
}

/// A drive.
#[derive(Debug, Clone)]
pub struct Drive {
    pub vendor: String,
    pub model: String,
    pub serial: String,
    pub size: u64,
    /// Rotations a minute; 0 for an SSD, -1 if unknown.
    pub rotation: i32,
    pub bus: String,
    pub removable: bool,
    pub health: SsdHealth,
}

/// A block device.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// Serial number of the drive; empty for a volume.
    pub drive: String,
    /// Kernel name of the whole disk, if this is a partition.
    pub whole: Option<String>,
    pub number: u32,
    pub start: u64,
    pub size: u64,
    pub part_type: String,
    pub part_name: String,
    pub table: bool,
    pub usage: String,
    pub kind: String,
    pub label: String,
    pub uuid: String,
    pub blank: bool,
    pub swap: bool,
    /// A program has the device open exclusively, and neither mounts nor volumes show that.
    pub claimed: bool,
    /// This is a logical volume with snapshots.
    pub snapshots: bool,
    /// The device is on the network.
    pub network: bool,
    /// Identity of the disk that the format on this SSD names.
    pub disk_id: String,
    /// The target that serves the cache of the format on this SSD.
    pub target: Target,
    /// Bytes of this SSD that the format is for.
    pub formatted: u64,
    /// Dirty sectors on this SSD while its cache is not assembled.
    pub dirty: u64,
    /// Frames on this SSD with a copy while its cache is not assembled.
    pub warm: u64,
    pub mounts: Vec<Mount>,
    /// Entries of other files than fstab.
    pub other_entries: Vec<StartEntry>,
    pub users: Vec<FileUser>,
    pub diskseq: u64,
    /// Kernel name of the device below a volume, and the kind of volume (`luks`, `tandem`). For memory: the UUID of its cache,
    /// and `memory`.
    pub backing: Option<(String, String)>,
}

impl Block {
    /// The entries that lead to the device. In this machine all those of fstab are mounted.
    pub fn entries(&self) -> Vec<StartEntry> {
        let entry = |mount: &Mount| match &mount.mounter {
            Mounter::Fstab(spec) => Some(StartEntry {
                table: StartTable::Fstab,
                target: mount.point.clone(),
                spec: spec.clone(),
                at_start: true,
                early: false,
            }),
            Mounter::Udisks(_) | Mounter::Other => None,
        };
        let mounted = self.mounts.iter().filter_map(entry);
        mounted.chain(self.other_entries.iter().cloned()).collect()
    }

    /// Whether fstab mounts the device.
    pub fn is_in_fstab(&self) -> bool {
        let fstab = |mount: &Mount| matches!(mount.mounter, Mounter::Fstab(_));
        self.mounts.iter().any(fstab)
    }
}

/// A mapping of ours.
#[derive(Debug)]
pub struct Map {
    pub pair: Pair,
    /// Kernel name of the mapped device.
    pub dm: String,
    /// Number (`major:minor`) of the disk below the mapping.
    pub origin: String,
    /// Number of the SSD.
    pub ssd: String,
    pub attached: bool,
    pub state: CacheState,
    pub reason: String,
    pub load: Load,
}

/// The whole state.
#[derive(Debug)]
pub struct Scene {
    pub boot: String,
    pub module: ModuleState,
    /// Why the kernel has no module that it accepts, if that is not the usual reason.
    pub problem: Option<ModuleProblem>,
    /// The state of the key that signs the module.
    pub key: SigningKey,
    /// Kernels that may start next and have no module.
    pub kernels: Vec<String>,
    pub stall_limit: Duration,
    pub sample_period: Duration,
    pub fail_next: Option<StepKind>,
    pub authorized: bool,
    pub drives: BTreeMap<String, Drive>,
    pub blocks: BTreeMap<String, Block>,
    pub maps: BTreeMap<String, Map>,
    /// The pairs whose disks are held, by the uuids of the caches.
    pub held: BTreeMap<String, Pair>,
    pub next_diskseq: u64,
    /// Bytes a second that each disk accepts during a drain.
    pub drain_rate: u64,
    /// Sectors that were on an SSD only and are lost.
    pub lost: u64,
    /// What each drive has done in speed tests, by its serial number.
    pub work: BTreeMap<String, Work>,
    /// The share of other programs in what the disks do during a speed test, in percent.
    pub other_load: u64,
    /// The caches of other systems.
    pub others: Vec<OtherCache>,
    /// The removals that other systems are at, by the ids of the caches.
    pub removals: BTreeMap<String, OtherRun>,
    /// Bytes of memory that programs can have.
    pub memory_available: u64,
    /// Kernel name of the device from which GRUB starts this machine.
    pub grub_disk: Option<String>,
    /// The devices that were unplugged and may come back: kernel name, device, and the drive if the whole drive was
    /// unplugged.
    pub away: Vec<(String, Block, Option<Drive>)>,
}

/// The simulated machine.
pub struct World {
    scene: Mutex<Scene>,
    pub(super) for_engine: Notify,
    pub(super) for_udisks: Notify,
    /// Number of changes of the state.
    made: AtomicU64,
    /// Number of changes that the UDisks2 objects show; `None` if there are no objects.
    shown: watch::Sender<Option<u64>>,
    pub(super) step_time: watch::Sender<Duration>,
    /// Time that was let pass at once so far.
    pub(super) passed: watch::Sender<Duration>,
    pub(super) questions: Questions,
}

impl Default for World {
    fn default() -> Self {
        Self {
            scene: Mutex::new(catalogue::scene()),
            for_engine: Notify::new(),
            for_udisks: Notify::new(),
            made: AtomicU64::new(0),
            shown: watch::Sender::new(None),
            step_time: watch::Sender::new(Duration::from_millis(400)),
            passed: watch::Sender::new(Duration::ZERO),
            questions: Questions::default(),
        }
    }
}

impl World {
    fn lock(&self) -> MutexGuard<'_, Scene> {
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read<T>(&self, f: impl FnOnce(&Scene) -> T) -> T {
        f(&self.lock())
    }

    /// Changes the state without an event.
    pub(crate) fn read_mut<T>(&self, f: impl FnOnce(&mut Scene) -> T) -> T {
        f(&mut self.lock())
    }

    /// Changes devices, mounts or mappings, and tells the host and UDisks2.
    pub(crate) fn change<T>(&self, f: impl FnOnce(&mut Scene) -> T) -> T {
        let result = f(&mut self.lock());
        self.made.fetch_add(1, Ordering::SeqCst);
        self.for_engine.notify_one();
        self.for_udisks.notify_one();
        result
    }

    pub(super) async fn changed(&self) {
        self.for_engine.notified().await;
    }

    /// Number of the last change.
    pub(super) fn version(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// Notes that the UDisks2 objects show all changes up to this one.
    pub(super) fn tell_shown(&self, version: u64) {
        self.shown.send_replace(Some(version));
    }

    /// Waits until the UDisks2 objects, if there are any, show the last change. The real host also ends a step only
    /// when UDisks2 shows its effect.
    pub(super) async fn synced(&self) {
        let wanted = self.version();
        let mut shown = self.shown.subscribe();
        // The sender lives as long as this object, so this cannot fail.
        let _ = shown
            .wait_for(|shown| shown.is_none_or(|version| version >= wanted))
            .await;
    }
}

/// `major:minor`. A device that is plugged in again gets another number.
pub fn number(block: &Block) -> String {
    format!("{}:{}", block.diskseq, block.number)
}

/// Object path of a block device, as UDisks2 makes it.
pub fn block_path(name: &str) -> String {
    let mut path = String::from("/org/freedesktop/UDisks2/block_devices/");
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            path.push(c);
        } else {
            path.push_str(&format!("_{:02x}", u32::from(c)));
        }
    }
    path
}

/// Object path of a drive.
pub fn drive_path(drive: &Drive) -> String {
    let word = |s: &str| s.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    format!(
        "/org/freedesktop/UDisks2/drives/{}_{}",
        word(&drive.model),
        word(&drive.serial)
    )
}

impl Scene {
    /// Kernel name of the device with this object path.
    pub fn by_object(&self, object: &str) -> Option<String> {
        self.blocks
            .keys()
            .find(|name| block_path(name) == object)
            .cloned()
    }

    /// Kernel name of the recorded device, if the device is still plugged in.
    pub fn locate(&self, ident: &Ident) -> Result<String, Failure> {
        self.blocks
            .iter()
            .find(|(name, block)| {
                let now = self.ident(name, block);
                let same = now.diskseq == ident.diskseq || ident.is_memory();
                same && now.same_hardware(ident)
            })
            .map(|(name, _)| name.clone())
            .ok_or_else(|| Failure::new(Kind::DeviceGone).device(&ident.text))
    }

    pub fn mount_device(&self, device: &MountDevice) -> Option<String> {
        match device {
            MountDevice::Origin(ident) => self.locate(ident).ok(),
            MountDevice::Mapping(pair) => self.mapped(&pair.uuid),
        }
    }

    /// Kernel name of a cache's mapped device.
    pub fn mapped(&self, uuid: &str) -> Option<String> {
        self.maps.get(uuid).map(|map| map.dm.clone())
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! What the service says of caches and jobs, as plain values.

use tandem_api::{
    CacheState, DeviceText, DirtyLimit, DiskCandidate, DiskWatch, Failure, FoundCache, JobKind,
    JudgedDevice, Mode, ModuleProblem, ModuleState, OtherCache, RefusedMode, Sharing, SigningKey,
    SpeedTest, SsdHealth, Step, StepKind, Target,
};

use super::inventory::CacheParts;

/// One cache at one moment, without its counters.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheFacts {
    /// D-Bus object path.
    pub path: String,
    /// 32 hex digits.
    pub uuid: String,
    /// Block paths of its parts; empty where one is missing.
    pub parts: CacheParts,
    /// The disk, as last known.
    pub origin: DeviceText,
    /// The SSD, as last known.
    pub ssd: DeviceText,
    /// The target that serves the cache.
    pub target: Target,
    /// How writes are treated.
    pub mode: Mode,
    /// The user chose write-back, which waits until every kernel that may start next has the module.
    pub waits_for_kernel: bool,
    /// GRUB could not start the computer after its next update, because of this cache.
    pub grub_would_fail: bool,
    /// Snapshots or other disks that change the disk beside the cache.
    pub sharing: Sharing,
    /// Minutes that a shutdown may take to write everything to the disk; 0: it does not do that.
    pub shutdown_minutes: u32,
    /// How much data may be on the SSD only.
    pub dirty_limit: DirtyLimit,
    /// The cache stores nothing new until the person resumes it.
    pub paused: bool,
    /// The report of the SSD about its health.
    pub health: SsdHealth,
    /// Name that the person gave the cache; empty: none.
    pub chosen_name: String,
    /// Modes that are not offered for this cache, and why.
    pub refused_modes: Vec<RefusedMode>,
    /// Whether data may be on the SSD only, as far as the service has it recorded.
    pub may_be_unwritten: bool,
    /// The disks that may belong to it, where no disk is as recorded.
    pub candidates: Vec<DiskCandidate>,
    /// The state of the cache.
    pub state: CacheState,
    /// Why, as a word; may be empty.
    pub reason: String,
    /// Where it is mounted.
    pub mount_points: Vec<String>,
    /// Bytes that the cache can hold.
    pub cache_bytes: u64,
    /// Path of the job that changes the cache now.
    pub job: Option<String>,
    /// The result of the last speed test.
    pub speed: Option<SpeedTest>,
}

impl CacheFacts {
    /// Seconds that a shutdown may take to write everything to the disk; `None` if it cannot or does not do that.
    #[must_use]
    pub fn shutdown_limit(&self) -> Option<u64> {
        let runs = matches!(self.state, CacheState::Active | CacheState::Suspended);
        (runs && self.shutdown_minutes > 0).then(|| u64::from(self.shutdown_minutes) * 60)
    }

    /// Whether data may wait on the SSD, so that the limits of that apply.
    #[must_use]
    pub fn can_write_back(&self) -> bool {
        let chosen = self.mode == Mode::Writeback || self.waits_for_kernel;
        chosen && self.target == Target::Tandem
    }

    /// Whether the samples of this cache are current. Where a device failed or is missing, or the cache is not in use,
    /// the service has only old samples.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.state, CacheState::Active | CacheState::Suspended)
    }

    /// Bytes that may be on the SSD only at most; less if the hard disk is slow.
    #[must_use]
    pub fn most_dirty(&self) -> u64 {
        let most = self.cache_bytes / 4 * 3;
        match self.dirty_limit.bytes {
            0 => most,
            bytes => bytes.min(most),
        }
    }

    /// Whether data may be on the SSD only, when the newest sample counts `dirty` bytes there.
    #[must_use]
    pub fn may_be_unwritten(&self, dirty: u64) -> bool {
        dirty > 0 || self.may_be_unwritten
    }
}

/// One job at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFacts {
    /// D-Bus object path.
    pub path: String,
    /// UUID of the cache that the job creates or changes, 32 hex digits.
    pub cache_uuid: String,
    /// The task of the job.
    pub kind: JobKind,
    /// All its steps.
    pub steps: Vec<Step>,
    /// Step under way, counted from 0.
    pub step_index: usize,
    /// Whether steps are being undone.
    pub undoing: bool,
    /// 0 to 1.
    pub progress: f64,
    /// Bytes a second, 0 if the job moves no data.
    pub rate: u64,
    /// Seconds to the end, 0 if that time is not known.
    pub seconds_left: u64,
    /// Whether the job can still be cancelled.
    pub cancellable: bool,
    /// Whether the job can be paused now.
    pub pausable: bool,
    /// Whether the job waits until it is resumed.
    pub paused: bool,
    /// How the job ended; `None` while it runs.
    pub finished: Option<Result<(), Box<Failure>>>,
}

/// A flush without steps that has just begun.
impl Default for JobFacts {
    fn default() -> Self {
        Self {
            path: String::new(),
            cache_uuid: String::new(),
            kind: JobKind::Flush,
            steps: Vec::new(),
            step_index: 0,
            undoing: false,
            progress: 0.0,
            rate: 0,
            seconds_left: 0,
            cancellable: false,
            pausable: false,
            paused: false,
            finished: None,
        }
    }
}

impl JobFacts {
    /// The disk whose cache a removal or a flush changes, as its steps name it.
    #[must_use]
    pub fn disk(&self) -> Option<&DeviceText> {
        let of_disk = |step: &&Step| step.kind != StepKind::FreeSsd && !step.device.is_none();
        self.steps.iter().find(of_disk).map(|step| &step.device)
    }
}

/// The kernel module of the running kernel, and what the firmware says of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleFacts {
    /// Whether the kernel can run a cache.
    pub state: ModuleState,
    /// Why not.
    pub problem: ModuleProblem,
    /// The end of the build's log, or the name of the missing package; may be empty.
    pub detail: String,
    /// The key that DKMS signs modules with.
    pub key: SigningKey,
    /// Release of the running kernel.
    pub kernel: String,
    /// Whether the running kernel has dm-cache, which serves a cache without the module.
    pub has_dm_cache: bool,
}

impl ModuleFacts {
    /// Whether the kernel can run a cache.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        matches!(self.state, ModuleState::Loaded | ModuleState::Available)
    }
}

/// The service as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceFacts {
    /// The kernel module, for the running kernel.
    pub module: ModuleFacts,
    /// Releases of the kernels that may start next and have no module.
    pub kernels_without_module: Vec<String>,
    /// Least bytes that an SSD must have.
    pub minimum_ssd_bytes: u64,
    /// Most bytes of memory that caches may take together; 0: the kernel cannot have a cache in memory.
    pub memory_for_caches: u64,
    /// Every cache.
    pub caches: Vec<CacheFacts>,
    /// Every job, also those that ended a moment ago.
    pub jobs: Vec<JobFacts>,
    /// Every disk that the service watches to predict what an SSD would do.
    pub watches: Vec<DiskWatch>,
    /// Caches of which this system has no record.
    pub found: Vec<FoundCache>,
    /// Caches that other systems have made.
    pub others: Vec<OtherCache>,
    /// The judgement of the service on each device.
    pub devices: Vec<JudgedDevice>,
}

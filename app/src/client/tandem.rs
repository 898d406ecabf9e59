// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads the service's objects into facts.

use tandem_api::{
    BUS_NAME, CACHE_INTERFACE, Failure, JOB_INTERFACE, MANAGER_INTERFACE, ModuleProblem, ROOT_PATH,
    Sharing, SigningKey, SpeedTest, SsdHealth,
};
use zbus::OwnedObjectPath;

use super::mirror::{Objects, Properties, Source, read};
use crate::model::facts::{CacheFacts, JobFacts, ModuleFacts, ServiceFacts};
use crate::model::inventory::CacheParts;

/// The service on the bus.
pub const SOURCE: Source = Source {
    service: BUS_NAME,
    root: ROOT_PATH,
    interface: Some(MANAGER_INTERFACE),
    always: false,
};

/// All facts of the service; `None` without its manager object.
pub fn service(objects: &Objects) -> Option<ServiceFacts> {
    let manager = objects.get(ROOT_PATH)?.get(MANAGER_INTERFACE)?;
    let of = |interface: &'static str| {
        objects
            .iter()
            .filter_map(move |(path, all)| Some((path, all.get(interface)?)))
    };
    // A service of an older version does not tell the reason.
    let (problem, detail) =
        read(manager, "ModuleProblem").unwrap_or((ModuleProblem::None, String::new()));
    Some(ServiceFacts {
        module: ModuleFacts {
            state: read(manager, "ModuleState")?,
            problem,
            detail,
            key: read(manager, "SigningKey").unwrap_or(SigningKey::Unknown),
            kernel: read(manager, "Kernel").unwrap_or_default(),
            // A service of an older version cannot set such a cache up.
            has_dm_cache: read(manager, "HasDmCache").unwrap_or_default(),
        },
        kernels_without_module: read(manager, "KernelsWithoutModule").unwrap_or_default(),
        minimum_ssd_bytes: read(manager, "MinimumSsdBytes").unwrap_or_default(),
        memory_for_caches: read(manager, "MemoryForCaches").unwrap_or_default(),
        caches: of(CACHE_INTERFACE)
            .filter_map(|(path, values)| cache(path, values))
            .collect(),
        jobs: of(JOB_INTERFACE)
            .filter_map(|(path, values)| job(path, values))
            .collect(),
        watches: read(manager, "Watches").unwrap_or_default(),
        found: read(manager, "FoundCaches").unwrap_or_default(),
        others: read(manager, "OtherCaches").unwrap_or_default(),
        devices: read(manager, "Devices").unwrap_or_default(),
    })
}

/// An object path property; the path `/` stands for no object.
fn object(values: &Properties, name: &str) -> Option<String> {
    let path: OwnedObjectPath = read(values, name)?;
    (path.as_str() != "/").then(|| path.to_string())
}

fn cache(path: &str, values: &Properties) -> Option<CacheFacts> {
    let part = |name| object(values, name).unwrap_or_default();
    Some(CacheFacts {
        path: path.to_owned(),
        uuid: read(values, "Uuid")?,
        parts: CacheParts {
            origin: part("Origin"),
            ssd: part("Ssd"),
            mapped: part("Mapped"),
        },
        origin: read(values, "OriginText")?,
        ssd: read(values, "SsdText")?,
        target: read(values, "Target").unwrap_or_default(),
        mode: read(values, "Mode")?,
        waits_for_kernel: read(values, "WaitsForKernel").unwrap_or_default(),
        grub_would_fail: read(values, "GrubWouldFail").unwrap_or_default(),
        sharing: read(values, "Sharing").unwrap_or(Sharing::Alone),
        shutdown_minutes: read(values, "ShutdownMinutes").unwrap_or_default(),
        dirty_limit: read(values, "DirtyLimit").unwrap_or_default(),
        paused: read(values, "Paused").unwrap_or_default(),
        health: read(values, "SsdHealth").unwrap_or(SsdHealth::unknown()),
        chosen_name: read(values, "ChosenName").unwrap_or_default(),
        refused_modes: read(values, "RefusedModes").unwrap_or_default(),
        // A service without this property may have data on the SSD only.
        may_be_unwritten: read(values, "MayBeUnwritten").unwrap_or(true),
        candidates: read(values, "Candidates").unwrap_or_default(),
        state: read(values, "State")?,
        reason: read(values, "StateReason").unwrap_or_default(),
        mount_points: read(values, "MountPoints").unwrap_or_default(),
        cache_bytes: read(values, "CacheBytes").unwrap_or_default(),
        job: object(values, "Job"),
        speed: read(values, "LastSpeedTest").filter(|test: &SpeedTest| !test.is_none()),
    })
}

fn job(path: &str, values: &Properties) -> Option<JobFacts> {
    let (over, success, failure): (bool, bool, Failure) = read(values, "Finished")?;
    Some(JobFacts {
        path: path.to_owned(),
        cache_uuid: read(values, "CacheUuid").unwrap_or_default(),
        kind: read(values, "Kind")?,
        steps: read(values, "Steps").unwrap_or_default(),
        step_index: read::<u32>(values, "StepIndex").unwrap_or_default() as usize,
        undoing: read(values, "Undoing").unwrap_or_default(),
        progress: read(values, "Progress").unwrap_or_default(),
        rate: read(values, "RateBytes").unwrap_or_default(),
        seconds_left: read(values, "EstimatedSeconds").unwrap_or_default(),
        cancellable: read(values, "Cancellable").unwrap_or_default(),
        pausable: read(values, "Pausable").unwrap_or_default(),
        paused: read(values, "Paused").unwrap_or_default(),
        finished: over.then(|| {
            if success {
                Ok(())
            } else {
                Err(Box::new(failure))
            }
        }),
    })
}

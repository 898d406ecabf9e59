// SPDX-License-Identifier: GPL-3.0-or-later
//! The outcomes that a power cut in a job may have: the tables of data/README.md, by the step that the job had reached.

use anyhow::{Result, bail};
use serde_json::Value;

/// A job that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Another share for a cache in write-back.
    Resize,
    /// A cache in write-through on a share.
    Create,
    /// Of a cache in write-back.
    Remove,
}

impl Job {
    /// In the order in which they are tested.
    pub const ALL: [Self; 3] = [Self::Resize, Self::Create, Self::Remove];

    pub fn word(self) -> &'static str {
        match self {
            Self::Resize => "resize",
            Self::Create => "create",
            Self::Remove => "remove",
        }
    }

    /// Steps of the job's plan.
    pub fn steps(self) -> u64 {
        match self {
            // Drain; then partition and cache get larger, or cache and partition smaller.
            Self::Resize => 3,
            // Load the module, unmount, erase the SSD, create the partition, map, mount.
            Self::Create => 6,
            // Drain, detach, free the SSD, delete the partition, unmount, unmap, mount.
            Self::Remove => 7,
        }
    }

    /// Further moments, which may be within a step.
    pub fn instants(self) -> u64 {
        match self {
            Self::Resize => 6,
            Self::Create | Self::Remove => 2,
        }
    }

    /// The outcomes of a job that was cut at an unknown moment.
    pub fn outcomes(self) -> &'static [Outcome] {
        use Outcome::{Detached, New, Old, Plain};
        match self {
            Self::Resize => &[Old, New],
            Self::Create => &[New, Plain],
            Self::Remove => &[Old, Detached, Plain],
        }
    }
}

/// The state of the cache after the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The plain disk, and an SSD without a partition.
    Plain,
    /// The cache has its old share.
    Old,
    /// The cache has its new share.
    New,
    /// The cache is removed, and its mapping passes everything to the disk until the next start.
    Detached,
}

impl Outcome {
    /// By the state that tests/guest/machine/recovered.sh tells, and the share on the SSD. `shares`: the old and the new share.
    pub fn of(state: &str, share: Option<u64>, shares: [Option<u64>; 2]) -> Result<Self> {
        Ok(match (state, share) {
            ("plain", None) => Self::Plain,
            ("detached", None) => Self::Detached,
            ("cached", Some(_)) if share == shares[1] => Self::New,
            ("cached", Some(_)) if share == shares[0] => Self::Old,
            _ => bail!("{state} with a share of {share:?}, before and after the job {shares:?}"),
        })
    }
}

/// How far a frozen job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The job has no record yet.
    NotBegun,
    /// The action of this name is on record. It may be done.
    At(String),
    /// The job has no record any more.
    Ended,
}

/// The state of the devices while the job is frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    progress: Progress,
    /// The cache is on record.
    recorded: bool,
}

impl Seen {
    /// By the records of the job and of the cache, each empty if there is none. `new`: the share after a creation or a
    /// change.
    pub fn new(job: Job, new: u64, intent: &str, record: &str) -> Result<Self> {
        let recorded = !record.is_empty();
        let ended = match job {
            Job::Create => recorded,
            Job::Remove => !recorded,
            Job::Resize => {
                let record: Value = serde_json::from_str(record)?;
                record["pair"]["partition"]["size"] == new
            }
        };
        let progress = match intent {
            "" if ended => Progress::Ended,
            "" => Progress::NotBegun,
            _ => Progress::At(action(&serde_json::from_str(intent)?)?),
        };
        Ok(Self { progress, recorded })
    }

    /// Whether data is being written back.
    pub fn drains(&self) -> bool {
        self.progress == Progress::At("Drain".to_owned())
    }

    /// The outcomes after the start and the recovery.
    pub fn allowed(&self, job: Job) -> &'static [Outcome] {
        use Outcome::{Detached, New, Old, Plain};
        let at = match (&self.progress, job) {
            (Progress::At(at), _) => at.as_str(),
            (Progress::NotBegun, Job::Create) | (Progress::Ended, Job::Remove) => return &[Plain],
            (Progress::NotBegun, _) => return &[Old],
            (Progress::Ended, _) => return &[New],
        };
        match (job, at) {
            // The start assembles the cache, whatever its size, and the service goes on with the job.
            (Job::Resize, _) => &[New],
            (Job::Create, "Mount") if self.recorded => &[New, Plain],
            (Job::Create, _) => &[Plain],
            // The start assembles the cache to drain it, and then the file system is in use.
            (Job::Remove, "Drain") => &[Detached],
            (Job::Remove, _) => &[Plain],
        }
    }

    /// Whether the start assembles a cache; none if both are right.
    pub fn assembled(&self, job: Job) -> Option<bool> {
        let at = match (&self.progress, job) {
            (Progress::At(at), _) => at.as_str(),
            (Progress::NotBegun, Job::Create) | (Progress::Ended, Job::Remove) => {
                return Some(false);
            }
            (Progress::NotBegun | Progress::Ended, _) => return Some(true),
        };
        match (job, at) {
            (Job::Resize, _) => Some(true),
            (Job::Create, "Mount") if self.recorded => None,
            (Job::Create, _) => Some(false),
            (Job::Remove, "Drain") => Some(true),
            (Job::Remove, _) => Some(false),
        }
    }
}

/// The name of the action that a job is at.
fn action(intent: &Value) -> Result<String> {
    let done = intent["done"].as_u64();
    let done = done.and_then(|done| usize::try_from(done).ok());
    match done.and_then(|done| intent["actions"].get(done)) {
        // An action without devices is its name.
        Some(Value::String(name)) => Ok(name.clone()),
        Some(Value::Object(action)) if action.len() == 1 => {
            Ok(action.keys().cloned().collect::<String>())
        }
        _ => bail!("the job has no action {done:?}: {intent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_a_job_tells_its_action() {
        let intent = r#"{"done":1,"actions":["LoadModule",{"Map":{}},{"EnableWriteback":{}}]}"#;
        let seen = Seen::new(Job::Create, 64, intent, "").unwrap();
        assert_eq!(seen.progress, Progress::At("Map".to_owned()));
        assert_eq!(seen.allowed(Job::Create), [Outcome::Plain]);
        let beyond = r#"{"done":3,"actions":["LoadModule"]}"#;
        assert!(Seen::new(Job::Create, 64, beyond, "").is_err());
    }

    #[test]
    fn without_a_record_of_the_job_the_cache_tells_whether_it_has_ended() {
        let record = r#"{"pair":{"partition":{"size":64}}}"#;
        let progress = |job, new, record| Seen::new(job, new, "", record).unwrap().progress;
        assert_eq!(progress(Job::Resize, 64, record), Progress::Ended);
        assert_eq!(progress(Job::Resize, 96, record), Progress::NotBegun);
        assert_eq!(progress(Job::Create, 64, ""), Progress::NotBegun);
        assert_eq!(progress(Job::Remove, 0, record), Progress::NotBegun);
    }
}

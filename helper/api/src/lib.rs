// SPDX-License-Identifier: GPL-3.0-or-later
//! The typed D-Bus contract between the Tandem service and its clients.
//!
//! One service, [`BUS_NAME`], on the system bus (or wherever `DBUS_SYSTEM_BUS_ADDRESS` points),
//! with an `org.freedesktop.DBus.ObjectManager` at [`ROOT_PATH`] and three kinds of object:
//!
//! | path | interface | proxy |
//! |---|---|---|
//! | [`ROOT_PATH`] | `org.tandemcache.Tandem1.Manager` | [`ManagerProxy`] |
//! | `ROOT_PATH/caches/<32 hex uuid>` | `org.tandemcache.Tandem1.Cache` | [`CacheProxy`] |
//! | `ROOT_PATH/jobs/<n>` | `org.tandemcache.Tandem1.Job` | [`JobProxy`] |
//!
//! The bus starts the service on the first call. The service stays while a cache exists or a disk is watched. Otherwise
//! the service leaves the bus some time after the last call; the signal `NameOwnerChanged` of the bus tells that.
//!
//! # Rules of the contract
//! * A device is named by the object path of its UDisks2 block object, never by a file path.
//! * A change takes two calls. The first asks for a plan, changes nothing and needs no authorisation. The second
//!   executes the plan: it names the plan and repeats the digest of the plan. The client never sends steps, so the
//!   service does exactly the steps that the client has shown.
//! * An enum is sent as the lower-case word of its `Display`. A size is in bytes unless the name says sectors (always
//!   512 bytes). A time is in microseconds of `CLOCK_BOOTTIME` unless the name says otherwise.
//! * A failure is sent as a [`Failure`]: in the body of a D-Bus error, behind a text for logs, and as an argument of
//!   the signal at the end of a job. A client makes its words from the [`Kind`] and the fields; the texts in a failure
//!   are for logs and for a "details" view only.
//! * A method call may take as long as a person needs to answer an authentication dialog: a client gives `Create` and
//!   `Remove` no short time limit.
//! * A connection of zbus has a queue of 64 messages: a signal stream that is neither drained nor
//!   dropped makes calls hang.
//!
//! Without the feature `bus` only the values are there, for programs that read the records of the service and never talk
//! on the bus.
//!
//! [`distribution`] has what all of these programs have to know of a Linux distribution.

mod advice;
#[cfg(feature = "bus")]
mod bus;
mod device;
mod dirty_limit;
pub mod distribution;
mod failure;
mod found;
mod health;
mod history;
mod judged;
mod latency;
mod name;
mod name_change;
mod object;
mod other;
mod other_history;
mod plan;
#[cfg(feature = "bus")]
mod proxy;
mod sample;
mod size;
mod speed;
mod state;
mod text;
#[cfg(feature = "bus")]
pub mod udisks;
mod words;

pub use advice::{AdvicePoint, DiskWatch, Verdict, WatchState};
#[cfg(feature = "bus")]
pub use bus::managed_objects;
pub use device::{DeviceText, FileUser, PartUse, SsdPart};
pub use dirty_limit::DirtyLimit;
pub use failure::{DataState, Failure, Kind};
pub use found::{DiskCandidate, DiskMark, FoundCache, Sharing};
pub use health::{Lifetime, SelfReport, SsdHealth};
pub use history::{LongHistory, Period, Span, SsdWritten};
pub use judged::{JudgedDevice, Objection};
pub use latency::{Bucket, Latency};
pub use name::{MAX_NAME_CHARS, checked_name};
pub use name_change::NameChange;
pub use object::OwnedObjectPath;
pub use other::{OtherCache, OtherKind, OtherMode, OtherState, TABLES_FOLDER};
pub use other_history::OtherPeriod;
pub use plan::{PlanReply, PlanSpec, Step, StepKind, Warning, WarningKind};
#[cfg(feature = "bus")]
pub use proxy::*;
pub use sample::{Counter, Direction, Sample, Traffic};
pub use size::{SizeText, parse_size};
pub use speed::{SpeedTest, TimedReads, Trust};
pub use state::{
    CacheState, JobKind, Mode, ModeRefusal, ModuleProblem, ModuleState, RefusedMode, SigningKey,
    Target,
};
pub use text::plain;
pub use words::UnknownWord;

/// Well-known name of the service.
pub const BUS_NAME: &str = "org.tandemcache.Tandem1";
/// Path of the manager object and root of all others.
pub const ROOT_PATH: &str = "/org/tandemcache/Tandem1";
/// Name of the manager interface.
pub const MANAGER_INTERFACE: &str = "org.tandemcache.Tandem1.Manager";
/// Name of the cache interface.
pub const CACHE_INTERFACE: &str = "org.tandemcache.Tandem1.Cache";
/// Name of the job interface.
pub const JOB_INTERFACE: &str = "org.tandemcache.Tandem1.Job";
/// Prefix of the D-Bus error names; the [`Kind`] in CamelCase follows.
pub const ERROR_PREFIX: &str = "org.tandemcache.Tandem1.Error";
/// Bytes of a sector, the unit of all counters whose name says sectors.
pub const SECTOR_BYTES: u64 = 512;

// SPDX-License-Identifier: GPL-3.0-or-later
//! The typed D-Bus contract between the Tandem service and everyone who talks to it.
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
//! The service is started by the bus on the first call. It stays while a cache exists and leaves
//! when there is none and nobody has called it for a while; `NameOwnerChanged` tells.
//!
//! # Rules of the contract
//! * Devices are named by the object path of their UDisks2 block object, never by a file path.
//! * A change is made in two calls: a plan, which changes nothing and needs no authorisation, and
//!   its execution, which names the plan and repeats its digest. The steps never come from the
//!   client, so nothing can be slipped in between what was shown and what is done.
//! * Enums travel as the lower-case words that their `Display` gives, sizes as bytes unless the
//!   name says sectors (always 512 bytes), times as microseconds of `CLOCK_BOOTTIME` unless the name
//!   says otherwise.
//! * A failure is a [`Failure`], as the body of a D-Bus error (behind a text for logs) and as the
//!   argument of a job's end. Clients word it from its [`Kind`] and its fields; the texts in it are
//!   for logs and for a "details" view only.
//! * Method calls may take as long as a person takes to answer an authentication dialog: give
//!   `Create` and `Remove` no short time limit.
//! * A connection of zbus has a queue of 64 messages: a signal stream that is neither drained nor
//!   dropped makes calls hang.

mod device;
mod failure;
mod history;
mod latency;
mod plan;
mod proxy;
mod sample;
mod size;
mod state;
pub mod udisks;
mod words;

pub use device::{DeviceText, FileUser, PartUse, SsdPart};
pub use failure::{DataState, Failure, Kind};
pub use history::{LongHistory, Period, Span};
pub use latency::{Bucket, Latency};
pub use plan::{PlanReply, PlanSpec, Step, StepKind, Warning, WarningKind};
pub use proxy::*;
pub use sample::{Counter, Direction, Sample, Traffic};
pub use size::{SizeText, parse_size};
pub use state::{
    CacheState, JobKind, Mode, ModeRefusal, ModuleProblem, ModuleState, RefusedMode, SigningKey,
};
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

/// All objects of a service on the bus with their properties. `root`: path of the service's object manager.
///
/// # Errors
/// If the service does not answer.
pub async fn managed_objects(
    connection: &zbus::Connection,
    service: &'static str,
    root: &'static str,
) -> zbus::Result<zbus::fdo::ManagedObjects> {
    let manager = zbus::fdo::ObjectManagerProxy::builder(connection)
        .destination(service)
        .path(root)
        .build()
        .await?;
    Ok(manager.get_managed_objects().await?)
}

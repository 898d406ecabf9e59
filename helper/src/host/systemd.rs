// SPDX-License-Identifier: GPL-3.0-or-later
//! Starts and stops units of systemd: mount units, the unit that loads the module, and units for single programs.

pub(crate) mod program;

use crate::machine::mounts::table;
use crate::machine::mounts::units::mount_unit;
use crate::model::facts::{Mount, Mounter};
use futures_util::StreamExt;
use std::num::NonZeroUsize;
use std::time::Duration;
use tandem_api::{Failure, Kind};
use zbus::{Connection, MatchRule, MessageStream, OwnedObjectPath, Variant, proxy};

/// Time limit for a unit. fsck before a mount can take long, but a unit that hangs must not block the service for ever.
pub const LIMIT: Duration = Duration::from_secs(600);
/// Attempts to start a transient unit: systemd soon forgets an ended unit of the same name.
const TRIES: u32 = 25;
/// Signals that may wait while a unit's job is asked for.
const QUEUE: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
const PAUSE: Duration = Duration::from_millis(200);

#[proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
trait Systemd {
    fn subscribe(&self) -> zbus::Result<()>;
    fn start_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    fn stop_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    fn get_unit(&self, name: &str) -> zbus::Result<OwnedObjectPath>;
    fn reload(&self) -> zbus::Result<()>;
    fn reset_failed_unit(&self, name: &str) -> zbus::Result<()>;
    fn kill_unit(&self, name: &str, whom: &str, signal: i32) -> zbus::Result<()>;
    fn start_transient_unit(
        &self,
        name: &str,
        mode: &str,
        properties: &[(&str, Variant<'_>)],
        auxiliary: &[(&str, Vec<(&str, Variant<'_>)>)],
    ) -> zbus::Result<OwnedObjectPath>;
}

fn unavailable(e: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::ServiceUnavailable)
        .name("systemd")
        .detail(e)
}

/// What systemd answers to the start of a unit that its administrator has masked.
const MASKED: &str = "org.freedesktop.systemd1.UnitMasked";
/// The program that mounts where systemd has no unit for it.
const MOUNT: &str = "/bin/mount";

/// Name of the automount unit of a mount point.
fn automount_unit(point: &str) -> String {
    with_ending(&mount_unit(point), ".automount")
}

/// The name of a mount unit with another ending than `.mount`.
fn with_ending(unit: &str, ending: &str) -> String {
    format!("{}{ending}", unit.strip_suffix(".mount").unwrap_or(unit))
}

/// A request for a unit.
enum Request<'a> {
    Start(&'a str),
    Stop(&'a str),
    Transient(&'a str, &'a [(&'a str, Variant<'a>)]),
}

/// Sends a request, waits for its job, and returns the result of the job: `done`, `failed`, `dependency`, ...
async fn ask(
    connection: &Connection,
    request: Request<'_>,
    limit: Duration,
) -> zbus::Result<String> {
    let systemd = SystemdProxy::new(connection).await?;
    // Once for each connection: systemd refuses a second subscription.
    match systemd.subscribe().await {
        Err(zbus::Error::MethodError(name, ..))
            if name.as_str() == "org.freedesktop.systemd1.AlreadySubscribed" => {}
        other => other?,
    }
    // The subscription comes before the call: a short job may end before its path arrives. The queue is long: no signal
    // is taken from it until systemd answers, and many jobs end at boot.
    let rule = MatchRule::builder()
        .msg_type(zbus::message::Type::Signal)
        .sender("org.freedesktop.systemd1")
        .path("/org/freedesktop/systemd1")
        .interface("org.freedesktop.systemd1.Manager")
        .member("JobRemoved")
        .build()?;
    let mut removed = MessageStream::for_match_rule(rule, connection, Some(QUEUE)).await?;
    let job = match &request {
        Request::Start(name) => systemd.start_unit(name, "replace").await?,
        Request::Stop(name) => systemd.stop_unit(name, "replace").await?,
        Request::Transient(name, properties) => {
            systemd
                .start_transient_unit(name, "replace", properties, &[])
                .await?
        }
    };
    let ended = async {
        while let Some(signal) = removed.next().await {
            let signal = signal?;
            let body = signal.body();
            let (_, ended, _, result): (u32, OwnedObjectPath, String, String) =
                body.deserialize()?;
            if ended == job {
                return Ok(result);
            }
        }
        Err(zbus::Error::Failure("connection closed".to_owned()))
    };
    tokio::time::timeout(limit, ended)
        .await
        .unwrap_or_else(|_| {
            Err(zbus::Error::Failure(
                "the unit's job does not end".to_owned(),
            ))
        })
}

/// Units that systemd would stop together with a mount and would not start again.
pub async fn dependents(connection: &Connection, point: &str) -> zbus::Result<Vec<String>> {
    let systemd = SystemdProxy::new(connection).await?;
    let unit = unit(connection, systemd.get_unit(&mount_unit(point)).await?).await?;
    let mut names = Vec::new();
    for property in ["RequiredBy", "BoundBy", "ConsistsOf"] {
        names.extend(
            unit.get_property::<Vec<String>>(property)
                .await
                .unwrap_or_default(),
        );
    }
    let mut active = Vec::new();
    for name in names {
        // Targets only group other units, and systemd does not stop the target of all mounts.
        if name.ends_with(".target") || active.contains(&name) {
            continue;
        }
        if let Ok(path) = systemd.get_unit(&name).await
            && let Ok(state) = self::unit(connection, path)
                .await?
                .get_property::<String>("ActiveState")
                .await
            && matches!(state.as_str(), "active" | "activating" | "reloading")
        {
            active.push(name);
        }
    }
    Ok(active)
}

async fn unit(
    connection: &Connection,
    path: OwnedObjectPath,
) -> zbus::Result<zbus::Proxy<'static>> {
    zbus::proxy::Builder::new(connection)
        .destination("org.freedesktop.systemd1")
        .path(path)
        .interface("org.freedesktop.systemd1.Unit")
        .cache_properties(zbus::proxy::CacheProperties::No)
        .build()
        .await
}

/// Whether a unit has been active since the machine was started. systemd remembers this while another unit requires
/// this unit; that is so for each mount of the start.
///
/// # Errors
/// `ServiceUnavailable`, also if systemd does not know the unit.
pub async fn was_active(connection: &Connection, name: &str) -> Result<bool, Failure> {
    let asked = async {
        let systemd = SystemdProxy::new(connection).await?;
        let unit = unit(connection, systemd.get_unit(name).await?).await?;
        unit.get_property::<u64>("ActiveEnterTimestampMonotonic")
            .await
    };
    // Microseconds; 0 is never.
    asked.await.map(|at| at > 0).map_err(unavailable)
}

/// Whether a unit is active; false if systemd does not know the unit.
async fn is_active(connection: &Connection, name: &str) -> bool {
    let asked = async {
        let systemd = SystemdProxy::new(connection).await?;
        let unit = unit(connection, systemd.get_unit(name).await?).await?;
        unit.get_property::<String>("ActiveState").await
    };
    asked.await.is_ok_and(|state| state == "active")
}

fn done(what: &str, unit: &str, result: &str) -> Result<(), Failure> {
    match result {
        "done" => Ok(()),
        result => {
            Err(Failure::new(Kind::StepFailed).detail(format_args!("{what} {unit}: {result}")))
        }
    }
}

/// Starts a unit.
///
/// # Errors
/// `StepFailed` with systemd's result, `ServiceUnavailable`.
pub async fn start(connection: &Connection, unit: &str) -> Result<(), Failure> {
    start_within(connection, unit, LIMIT).await
}

/// Starts a unit that has a time limit of its own. `limit`: longer than that.
///
/// # Errors
/// As [`start`].
pub async fn start_within(
    connection: &Connection,
    unit: &str,
    limit: Duration,
) -> Result<(), Failure> {
    let result = ask(connection, Request::Start(unit), limit).await;
    done("start", unit, &result.map_err(unavailable)?)
}

/// Has systemd make its mount units from fstab anew.
///
/// # Errors
/// `ServiceUnavailable`.
pub async fn reload(connection: &Connection) -> Result<(), Failure> {
    let systemd = SystemdProxy::new(connection).await.map_err(unavailable)?;
    systemd.reload().await.map_err(unavailable)
}

/// Unmounts a mount point, and stops its automount unit, so that no access mounts it again.
///
/// # Errors
/// `StepFailed` with systemd's result, mostly because the file system is busy; `ServiceUnavailable`.
pub async fn unmount(connection: &Connection, point: &str) -> Result<(), Failure> {
    let unit = mount_unit(point);
    let result = ask(connection, Request::Stop(&unit), LIMIT).await;
    done("stop", &unit, &result.map_err(unavailable)?)?;
    // After the file system: stopped first, the automount would take the file system away from programs that use it.
    let automount = automount_unit(point);
    if is_active(connection, &automount).await {
        let result = ask(connection, Request::Stop(&automount), LIMIT).await;
        done("stop", &automount, &result.map_err(unavailable)?)?;
    }
    Ok(())
}

/// Mounts `node` as `mount` describes: by the unit that systemd made of fstab, else by a transient unit with the same
/// place, type and options. Where an administrator has masked the unit of fstab, mount(8) does it.
///
/// # Errors
/// `StepFailed` with systemd's result, `ServiceUnavailable`.
pub async fn mount(connection: &Connection, node: &str, mount: &Mount) -> Result<(), Failure> {
    let unit = mount_unit(&mount.point);
    if let Mounter::Fstab(_) = mount.mounter {
        let automounts = table::automounts(&mount.point).unwrap_or_else(|e| {
            tracing::warn!("fstab cannot be read: {e}");
            false
        });
        return mount_by_fstab(connection, node, mount, automounts).await;
    }
    let options = options(mount);
    let properties = [
        ("What", Variant::new(node)),
        ("Where", Variant::new(mount.point.as_str())),
        ("Type", Variant::new(fstype(&mount.fstype))),
        ("Options", Variant::new(options.as_str())),
        ("Description", Variant::new("Mounted as before by Tandem")),
    ];
    start_transient(connection, &unit, &properties).await
}

/// Starts a transient unit. An ended unit may keep its name for a moment, so this function repeats the start.
async fn start_transient(
    connection: &Connection,
    unit: &str,
    properties: &[(&str, Variant<'_>)],
) -> Result<(), Failure> {
    let mut last = String::new();
    for _ in 0..TRIES {
        match ask(connection, Request::Transient(unit, properties), LIMIT).await {
            Ok(result) if result == "done" => return Ok(()),
            Ok(result) => last = result,
            Err(e) => last = e.to_string(),
        }
        if let Ok(systemd) = SystemdProxy::new(connection).await {
            let _ = systemd.reset_failed_unit(unit).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Failure::new(Kind::StepFailed).detail(format_args!("mount {unit}: {last}")))
}

/// `automounts`: systemd mounts at the first access. systemd starts no automount where a file system is mounted
/// already.
async fn mount_by_fstab(
    connection: &Connection,
    node: &str,
    mount: &Mount,
    automounts: bool,
) -> Result<(), Failure> {
    let (unit, automount) = (mount_unit(&mount.point), automount_unit(&mount.point));
    if automounts && let Err(e) = start(connection, &automount).await {
        tracing::warn!(
            "{} is mounted for this time only: {}",
            mount.point,
            e.detail
        );
    }
    match ask(connection, Request::Start(&unit), LIMIT).await {
        Err(zbus::Error::MethodError(name, ..)) if name.as_str() == MASKED => {
            mount_by_program(connection, node, mount).await
        }
        result => done("start", &unit, &result.map_err(unavailable)?),
    }
}

/// Runs mount(8) in a transient service, because the sandbox of this service allows no mounts.
async fn mount_by_program(
    connection: &Connection,
    node: &str,
    mount: &Mount,
) -> Result<(), Failure> {
    let (kind, options) = (fstype(&mount.fstype), options(mount));
    let arguments = [
        MOUNT,
        "--types",
        kind,
        "--options",
        &options,
        "--source",
        node,
        "--target",
        &mount.point,
    ];
    let arguments = arguments.map(literal).to_vec();
    let unit = with_ending(&mount_unit(&mount.point), "-tandem.service");
    let properties = [
        ("Type", Variant::new("oneshot")),
        (
            "ExecStart",
            Variant::new(vec![(MOUNT.to_owned(), arguments, false)]),
        ),
        // A failed unit must not block its name for the next attempt.
        ("CollectMode", Variant::new("inactive-or-failed")),
        ("Description", Variant::new("Mounted as before by Tandem")),
    ];
    start_transient(connection, &unit, &properties).await
}

/// An argument of `ExecStart` as it is: systemd would put the value of a variable in the place of `$NAME` and
/// `${NAME}`.
fn literal(argument: &str) -> String {
    argument.replace('$', "$$")
}

/// The type for mount(8): the kernel's name of a FUSE mount says nothing of the program.
fn fstype(kernel: &str) -> &str {
    match kernel {
        "fuseblk" => "auto",
        other => other,
    }
}

/// The options for mount(8): those that only report what the kernel chose are left out.
fn options(mount: &Mount) -> String {
    let reported = |option: &&str| {
        let name = option.split('=').next().unwrap_or_default();
        let fuse = mount.fstype == "fuseblk" && matches!(name, "user_id" | "group_id" | "blksize");
        let btrfs = mount.fstype == "btrfs" && name == "subvolid";
        fuse || btrfs || name == "seclabel"
    };
    let mut options: Vec<&str> = mount.options.split(',').filter(|o| !reported(o)).collect();
    if let Mounter::Udisks(_) = mount.mounter {
        options.push("uhelper=udisks2");
    }
    options.join(",")
}

#[cfg(test)]
mod tests;

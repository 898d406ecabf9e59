// SPDX-License-Identifier: GPL-3.0-or-later
//! Units of systemd: mount units, and the one that loads the module.

use crate::facts::{Mount, Mounter};
use futures_util::StreamExt;
use std::num::NonZeroUsize;
use std::time::Duration;
use tandem_api::{Failure, Kind};
use zbus::{Connection, MatchRule, MessageStream, OwnedObjectPath, Variant, proxy};

/// fsck before a mount can take long; a unit that hangs must not hang us for ever.
const LIMIT: Duration = Duration::from_secs(600);
/// A unit of the same name that has just gone is forgotten soon.
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
    fn reset_failed_unit(&self, name: &str) -> zbus::Result<()>;
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

/// Name of the mount unit of a mount point, as `systemd-escape --path --suffix=mount` gives it.
pub fn mount_unit(point: &str) -> String {
    let trimmed = point.trim_matches('/');
    if trimmed.is_empty() {
        return "-.mount".to_owned();
    }
    let mut name = String::new();
    for (at, byte) in trimmed.bytes().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if at == 0 => name.push_str("\\x2e"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' => name.push(byte.into()),
            _ => name.push_str(&format!("\\x{byte:02x}")),
        }
    }
    name + ".mount"
}

/// What is asked of a unit.
enum Request<'a> {
    Start(&'a str),
    Stop(&'a str),
    Transient(&'a str, Vec<(&'a str, Variant<'a>)>),
}

/// Asks, waits for the job to end, and returns its result: `done`, `failed`, `dependency`, ...
async fn ask(connection: &Connection, request: Request<'_>) -> zbus::Result<String> {
    let systemd = SystemdProxy::new(connection).await?;
    // Once for each connection; systemd minds being asked again.
    match systemd.subscribe().await {
        Err(zbus::Error::MethodError(name, ..))
            if name.as_str() == "org.freedesktop.systemd1.AlreadySubscribed" => {}
        other => other?,
    }
    // Before the call: a short job may be over before its path arrives here.
    // The queue is long: while systemd answers, nobody takes from it, and at boot many jobs end.
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
    tokio::time::timeout(LIMIT, ended)
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
        // Targets only gather others, and the one of all mounts stops for nobody.
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

/// Whether a unit has been active since the machine was started. systemd knows as long as another unit asks for
/// this one, as it does for each mount of the start.
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

/// Starts a unit.
///
/// # Errors
/// `StepFailed` with systemd's result, `ServiceUnavailable`.
pub async fn start(connection: &Connection, unit: &str) -> Result<(), Failure> {
    match ask(connection, Request::Start(unit))
        .await
        .map_err(unavailable)?
        .as_str()
    {
        "done" => Ok(()),
        result => {
            Err(Failure::new(Kind::StepFailed).detail(format_args!("start {unit}: {result}")))
        }
    }
}

/// Unmounts a mount point.
///
/// # Errors
/// `StepFailed` with systemd's result, mostly because the file system is busy; `ServiceUnavailable`.
pub async fn unmount(connection: &Connection, point: &str) -> Result<(), Failure> {
    let unit = mount_unit(point);
    match ask(connection, Request::Stop(&unit))
        .await
        .map_err(unavailable)?
        .as_str()
    {
        "done" => Ok(()),
        result => Err(Failure::new(Kind::StepFailed).detail(format_args!("stop {unit}: {result}"))),
    }
}

/// Mounts `node` as `mount` describes: by the unit that fstab gave rise to, else by a transient unit
/// with the same place, type and options.
///
/// # Errors
/// `StepFailed` with systemd's result, `ServiceUnavailable`.
pub async fn mount(connection: &Connection, node: &str, mount: &Mount) -> Result<(), Failure> {
    let unit = mount_unit(&mount.point);
    if let Mounter::Fstab(_) = mount.mounter {
        return start(connection, &unit).await;
    }
    let options = options(mount);
    let mut last = String::new();
    for _ in 0..TRIES {
        let properties = vec![
            ("What", Variant::new(node)),
            ("Where", Variant::new(mount.point.as_str())),
            ("Type", Variant::new(fstype(&mount.fstype))),
            ("Options", Variant::new(options.as_str())),
            ("Description", Variant::new("Mounted as before by Tandem")),
        ];
        match ask(connection, Request::Transient(&unit, properties)).await {
            Ok(result) if result == "done" => return Ok(()),
            Ok(result) => last = result,
            Err(e) => last = e.to_string(),
        }
        if let Ok(systemd) = SystemdProxy::new(connection).await {
            let _ = systemd.reset_failed_unit(&unit).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Failure::new(Kind::StepFailed).detail(format_args!("mount {unit}: {last}")))
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
mod tests {
    use super::*;

    #[test]
    fn unit_names_are_those_of_systemd_escape() {
        for (point, unit) in [
            ("/", "-.mount"),
            ("/media/anna/My Disk", "media-anna-My\\x20Disk.mount"),
            ("/srv/a-b/", "srv-a\\x2db.mount"),
            ("/.x/ä", "\\x2ex-\\xc3\\xa4.mount"),
        ] {
            assert_eq!(mount_unit(point), unit);
        }
    }

    #[test]
    fn options_are_those_that_mount_takes() {
        let mount = |fstype: &str, options: &str, mounter| Mount {
            point: "/x".into(),
            root: "/".into(),
            fstype: fstype.into(),
            options: options.into(),
            mounter,
        };
        let other = |t: &str, o: &str| options(&mount(t, o, Mounter::Other));
        assert_eq!(other("ext4", "rw,nodev,stripe=4"), "rw,nodev,stripe=4");
        assert_eq!(other("btrfs", "rw,subvolid=5,subvol=/a"), "rw,subvol=/a");
        assert_eq!(
            other("fuseblk", "rw,user_id=0,allow_other,blksize=512"),
            "rw,allow_other"
        );
        assert_eq!(
            options(&mount("ext4", "rw", Mounter::Udisks(1))),
            "rw,uhelper=udisks2"
        );
    }
}

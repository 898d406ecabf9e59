// SPDX-License-Identifier: GPL-3.0-or-later
//! Requests to a systemd that is a test's own.

use super::*;
use std::sync::{Arc, Mutex};
use tandem_stage::bus;
use zbus::object_server::SignalEmitter;
use zbus::{OwnedVariant, interface};

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
    let automount = automount_unit("/srv/a.mount");
    assert_eq!(automount, "srv-a.mount.automount");
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

/// A systemd that notes down what is asked of it.
#[derive(Default)]
struct Systemd {
    asked: Arc<Mutex<Vec<String>>>,
    /// Units that an administrator has masked.
    masked: &'static [&'static str],
    jobs: u32,
    /// Starts of transient units that are still refused, because the unit before them is not gone yet.
    refused: u32,
}

impl Systemd {
    async fn job(
        &mut self,
        asked: String,
        emitter: &SignalEmitter<'_>,
    ) -> zbus::fdo::Result<OwnedObjectPath> {
        self.asked.lock().unwrap().push(asked);
        self.jobs += 1;
        let path = format!("/org/freedesktop/systemd1/job/{}", self.jobs);
        let path = OwnedObjectPath::try_from(path).unwrap();
        Self::job_removed(emitter, self.jobs, path.clone(), "", "done").await?;
        Ok(path)
    }
}

#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.freedesktop.systemd1")]
enum Refusal {
    #[zbus(error)]
    ZBus(zbus::Error),
    UnitMasked(String),
}

impl From<zbus::fdo::Error> for Refusal {
    fn from(error: zbus::fdo::Error) -> Self {
        Self::ZBus(error.into())
    }
}

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl Systemd {
    fn subscribe(&self) {}

    async fn start_unit(
        &mut self,
        name: String,
        _mode: String,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
    ) -> Result<OwnedObjectPath, Refusal> {
        if self.masked.contains(&name.as_str()) {
            return Err(Refusal::UnitMasked(name));
        }
        Ok(self.job(format!("start {name}"), &emitter).await?)
    }

    async fn stop_unit(
        &mut self,
        name: String,
        _mode: String,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
    ) -> zbus::fdo::Result<OwnedObjectPath> {
        self.job(format!("stop {name}"), &emitter).await
    }

    /// All units are active.
    fn get_unit(&self, _name: String) -> OwnedObjectPath {
        OwnedObjectPath::try_from("/unit").unwrap()
    }

    async fn start_transient_unit(
        &mut self,
        name: String,
        _mode: String,
        properties: Vec<(String, OwnedVariant)>,
        _auxiliary: Vec<(String, Vec<(String, OwnedVariant)>)>,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
    ) -> zbus::fdo::Result<OwnedObjectPath> {
        if self.refused > 0 {
            self.refused -= 1;
            return Err(zbus::fdo::Error::Failed("the unit exists".to_owned()));
        }
        let run = properties.into_iter().find(|(name, _)| name == "ExecStart");
        type Programs = Vec<(String, Vec<String>, bool)>;
        let run = run.map(|(_, run)| Programs::try_from(run).unwrap().remove(0).1);
        let run = run.unwrap_or_default().join(" ");
        self.job(format!("{name}: {run}"), &emitter).await
    }

    #[zbus(signal)]
    async fn job_removed(
        emitter: &SignalEmitter<'_>,
        id: u32,
        job: OwnedObjectPath,
        unit: &str,
        result: &str,
    ) -> zbus::Result<()>;
}

struct Unit;

#[interface(name = "org.freedesktop.systemd1.Unit")]
impl Unit {
    #[zbus(property)]
    fn active_state(&self) -> String {
        "active".to_owned()
    }
}

/// What is asked of systemd by `f`.
async fn asked(
    masked: &'static [&'static str],
    f: impl AsyncFnOnce(&Connection) -> Result<(), Failure>,
) -> Vec<String> {
    let systemd = Systemd {
        masked,
        ..Systemd::default()
    };
    asked_of(systemd, f).await
}

async fn asked_of(
    systemd: Systemd,
    f: impl AsyncFnOnce(&Connection) -> Result<(), Failure>,
) -> Vec<String> {
    let (_bus, address) = bus::start();
    let asked = systemd.asked.clone();
    let builder = || zbus::connection::Builder::address(address.as_str());
    let _server = builder()
        .name("org.freedesktop.systemd1")
        .serve_at("/org/freedesktop/systemd1", systemd)
        .serve_at("/unit", Unit)
        .build()
        .await
        .unwrap();
    f(&builder().build().await.unwrap()).await.unwrap();
    let asked = asked.lock().unwrap();
    asked.clone()
}

fn by_fstab() -> Mount {
    Mount {
        point: "/srv/a-b".into(),
        root: "/".into(),
        fstype: "ext4".into(),
        options: "rw,nodev".into(),
        mounter: Mounter::Fstab("LABEL=My Disk".into()),
    }
}

#[tokio::test]
async fn an_automount_is_stopped_behind_its_file_system_and_started_before_it() {
    let done = asked(&[], async |bus| {
        unmount(bus, "/srv/a-b").await?;
        mount_by_fstab(bus, "/dev/dm-0", &by_fstab(), true).await?;
        mount_by_fstab(bus, "/dev/dm-0", &by_fstab(), false).await
    });
    let (unit, automount) = ("srv-a\\x2db.mount", "srv-a\\x2db.automount");
    let all = [
        format!("stop {unit}"),
        format!("stop {automount}"),
        format!("start {automount}"),
        format!("start {unit}"),
        format!("start {unit}"),
    ];
    assert_eq!(done.await, all);
}

#[tokio::test]
async fn what_is_mounted_beside_a_masked_unit_is_mounted_again_by_mount() {
    let done = asked(&["srv-a\\x2db.mount"], async |bus| {
        mount_by_fstab(bus, "/dev/dm-0", &by_fstab(), false).await
    });
    let run = "/bin/mount --types ext4 --options rw,nodev --source /dev/dm-0 --target /srv/a-b";
    assert_eq!(done.await, [format!("srv-a\\x2db-tandem.service: {run}")]);
}

#[tokio::test]
async fn a_mount_by_mount_is_tried_again_and_its_place_is_taken_as_it_is() {
    let systemd = Systemd {
        masked: &["srv-\\x24\\x7bHOME\\x7d.mount"],
        refused: 2,
        ..Systemd::default()
    };
    let mount = Mount {
        point: "/srv/${HOME}".into(),
        ..by_fstab()
    };
    let done = asked_of(systemd, async |bus| {
        mount_by_fstab(bus, "/dev/dm-0", &mount, false).await
    });
    let done = done.await;
    assert_eq!(done.len(), 1, "{done:?}");
    // systemd makes one `$` of two.
    assert!(done[0].ends_with("--target /srv/$${HOME}"), "{done:?}");
}

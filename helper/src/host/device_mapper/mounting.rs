// SPDX-License-Identifier: GPL-3.0-or-later
//! Mounts and unmounts the file systems of disks and caches, and finds the users of a busy file system.

use super::guards::{DeviceNode, mounts};
use super::{CHANGE_TIMEOUT, DeviceMapper, blocking, shown, step};
use crate::host::systemd;
use crate::machine::blocks::has_left;
use crate::machine::mounts::held;
use crate::machine::mounts::table::Mounts;
use crate::machine::mounts::{moved, users};
use crate::machine::wipe;
use crate::model::action::{MountDevice, Pair};
use crate::model::facts::{Mount, Mounter};
use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::time::Duration;
use tandem_api::udisks::UDISKS;
use tandem_api::{Failure, FileUser, Kind};
use zbus::{OwnedObjectPath, Variant};

/// How long the search for users may take.
const SEARCH: Duration = Duration::from_secs(10);

/// Records whose mount was moved. Without the record the user needs a password to unmount.
async fn note_moved(place: &DeviceNode, mount: &Mount) {
    let (number, mount) = (place.number.clone(), mount.clone());
    let point = mount.point.clone();
    if let Ok(Err(e)) = blocking(move || moved::record(&number, &mount)).await {
        tracing::warn!("the user of {point} needs a password to unmount it: {e}");
    }
}

impl DeviceMapper {
    /// Unmounts the file system of a device. A file system that is not mounted is no error.
    pub(super) async fn unmount(&self, device: &MountDevice, mount: &Mount) -> Result<(), Failure> {
        let Some(place) = self.mount_place(device).await? else {
            return Ok(());
        };
        if !place.mounted_at(&mount.point)? {
            return Ok(());
        }
        let mut result = match mount.mounter {
            Mounter::Udisks(_) => self.udisks(&place.object, "Filesystem", "Unmount").await,
            Mounter::Fstab(_) | Mounter::Other => {
                systemd::unmount(&self.connection, &mount.point).await
            }
        };
        if result.is_err()
            && matches!(mount.mounter, Mounter::Udisks(_))
            && place.mounted_at(&mount.point)?
        {
            result = systemd::unmount(&self.connection, &mount.point).await;
        }
        if shown(
            || Ok(!place.mounted_at(&mount.point)?),
            Duration::from_secs(2),
        )
        .await?
        {
            return Ok(());
        }
        let users = self.users_of(&place, std::slice::from_ref(mount)).await;
        let failure = result.err().unwrap_or_else(|| step("still mounted"));
        if users.is_empty() {
            return Err(failure);
        }
        Err(Failure::new(Kind::FilesystemBusy)
            .device(&match device {
                MountDevice::Origin(ident) => ident.text.clone(),
                MountDevice::Mapping(pair) => pair.origin.text.clone(),
            })
            .mount_points(vec![mount.point.clone()])
            .users(users)
            .detail(failure.detail))
    }

    /// Mounts the file system of a device as it was. A file system that is mounted there already is no error, nor one that
    /// a user has unmounted since.
    pub(super) async fn mount(&self, device: &MountDevice, mount: &Mount) -> Result<(), Failure> {
        let Some(place) = self.mount_place(device).await? else {
            return Err(match device {
                MountDevice::Origin(ident) if has_left(ident) => {
                    Failure::new(Kind::DeviceGone).device(&ident.text)
                }
                _ => step("no such device"),
            });
        };
        if place.mounted_at(&mount.point)? {
            note_moved(&place, mount).await;
            return Ok(());
        }
        let taken = mounts()?;
        if taken.covered(&mount.point) {
            // Another program made this mount.
            return Err(step(&format!(
                "something else is mounted at {}",
                mount.point
            )));
        }
        let mut mounting = pin!(systemd::mount(&self.connection, &place.node, mount));
        let mut retry_after = CHANGE_TIMEOUT;
        loop {
            match tokio::time::timeout(retry_after, &mut mounting).await {
                Ok(mounted) => break mounted?,
                Err(_) => {
                    // udev misses the close of a device during its own probe; then systemd waits for a device that is
                    // already there. A check of the file system takes long, too.
                    tracing::warn!("still waiting for {} to be mounted", mount.point);
                    let node = place.node.clone();
                    if let Ok(Err(e)) = blocking(move || wipe::trigger_udev(&node)).await {
                        tracing::warn!("cannot have {} looked at again: {e}", place.node);
                    }
                    retry_after *= 2;
                }
            }
        }
        if place.mounted_at(&mount.point)? {
            note_moved(&place, mount).await;
            return Ok(());
        }
        let now = mounts()?;
        if !now.covered(&mount.point) {
            tracing::info!("{} was unmounted at once", mount.point);
            return Ok(());
        }
        // The unit mounted the file system from another device. No mount is better than a mount that bypasses the
        // cache.
        if let Err(e) = systemd::unmount(&self.connection, &mount.point).await {
            tracing::error!("mounted from another device, and: {e}");
        }
        Err(step(&format!(
            "{} was not mounted from {}",
            mount.point, place.node
        )))
    }

    /// Mounts what the start of the machine left out because this cache's SSD was not there. A unit that was active
    /// since stays as it is: a user may have unmounted it on purpose. A mount that would cover another one stays left
    /// out: programs would write to other folders than after the next start.
    pub(super) async fn mount_left(&self, pair: &Pair) {
        let mounts = Mounts::read().ok();
        for (unit, point) in held::left_out(pair) {
            if let Some(covered) = mounts.as_ref().and_then(|all| all.inside(&point)) {
                tracing::warn!("{unit} stays unmounted, because {covered} is mounted below it");
                continue;
            }
            match systemd::was_active(&self.connection, &unit).await {
                Ok(false) => {}
                Ok(true) => continue,
                Err(e) => {
                    tracing::warn!("{unit} stays unmounted, being unknown: {e}");
                    continue;
                }
            }
            tracing::info!("{unit} was left out at the start and is mounted now");
            if let Err(e) = systemd::start(&self.connection, &unit).await {
                tracing::warn!("{unit} stays unmounted: {e}");
            }
        }
    }

    /// Calls a method that takes nothing but options.
    async fn udisks(
        &self,
        object: &OwnedObjectPath,
        interface: &str,
        method: &str,
    ) -> Result<(), Failure> {
        let options = HashMap::from([("auth.no_user_interaction", Variant::new(true))]);
        let interface = format!("{UDISKS}.{interface}");
        self.connection
            .call_method(
                Some(UDISKS),
                object,
                Some(interface.as_str()),
                method,
                &(options,),
            )
            .await
            .map(drop)
            .map_err(|e| step(&e.to_string()))
    }

    pub(in crate::host) async fn users_of(
        &self,
        place: &DeviceNode,
        mounts: &[Mount],
    ) -> Vec<FileUser> {
        let points: Vec<String> = mounts.iter().map(|m| m.point.clone()).collect();
        let (number, nodes) = (place.number.clone(), place.nodes.clone());
        let searches = self.searches.clone();
        let search = async move {
            let permit = searches.acquire_owned().await.ok()?;
            let search = tokio::task::spawn_blocking(move || {
                // The permit goes with the thread, not with the time limit below.
                let _permit = permit;
                let mut found = users::files(&points);
                found.extend(users::of(users::Wanted {
                    numbers: BTreeSet::from([number]),
                    nodes: &nodes,
                    points,
                }));
                found
            });
            search.await.ok()
        };
        // A machine may have very many processes.
        let found = tokio::time::timeout(SEARCH, search).await;
        let mut users = found.ok().flatten().unwrap_or_default();
        for mount in mounts {
            let units = systemd::dependents(&self.connection, &mount.point)
                .await
                .unwrap_or_default();
            let known = |unit: &str| users.iter().any(|u: &FileUser| u.command == unit);
            let units: Vec<_> = units.into_iter().filter(|unit| !known(unit)).collect();
            users.extend(units.into_iter().map(|command| FileUser {
                pid: 0,
                command,
                uid: 0,
                user: "systemd".to_owned(),
            }));
        }
        users
    }
}

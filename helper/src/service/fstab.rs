// SPDX-License-Identifier: GPL-3.0-or-later
//! How fstab names a disk that is to have a cache.

use super::Service;
use crate::auth::{self, Permission};
use crate::facts::Device;
use crate::{fstab, plan};
use tandem_api::{DeviceText, Failure, FstabChange, Kind};
use zbus::OwnedObjectPath;
use zbus::message::Header;

impl Service {
    /// `Manager.FstabChanges`.
    pub(crate) async fn fstab_changes(
        &self,
        header: &Header<'_>,
        disk: &OwnedObjectPath,
    ) -> Result<Vec<FstabChange>, Failure> {
        let _call = self.call();
        let _slot = self.queue_slot(header).await?;
        Ok(self.needed_in_fstab(disk).await?.1)
    }

    /// `Manager.ChangeFstab`.
    pub(crate) async fn change_fstab(
        &self,
        header: &Header<'_>,
        disk: &OwnedObjectPath,
        changes: &[FstabChange],
    ) -> Result<String, Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        let (device, _) = self.needed_in_fstab(disk).await?;
        let (text, nothing) = (&device.ident.text, DeviceText::none());
        auth::check(
            &self.connection,
            header,
            Permission::ChangeFstab,
            text,
            &nothing,
        )
        .await?;
        // The user may have taken minutes.
        let (now, needed) = self.needed_in_fstab(disk).await?;
        let same = now.ident.same_device(&device.ident) && needed == changes;
        if !same || changes.is_empty() {
            return Err(Failure::new(Kind::PlanUnknown).device(text));
        }
        self.engine.change_fstab(changes).await
    }

    async fn needed_in_fstab(
        &self,
        disk: &OwnedObjectPath,
    ) -> Result<(Device, Vec<FstabChange>), Failure> {
        let facts = self.engine.facts().await?;
        let device = plan::find(&facts, disk)?;
        let needed = fstab::needed(device, &facts)?;
        Ok((device.clone(), needed))
    }
}

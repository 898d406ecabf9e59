// SPDX-License-Identifier: GPL-3.0-or-later
//! How the start of the machine finds a disk that is to have a cache.

use super::Service;
use crate::decide::plan;
use crate::machine::names;
use crate::model::facts::Device;
use crate::service::auth::{self, Permission};
use tandem_api::{DeviceText, Failure, Kind, NameChange};
use zbus::OwnedObjectPath;
use zbus::message::Header;

impl Service {
    /// `Manager.NameChanges`.
    pub(crate) async fn name_changes(
        &self,
        header: &Header<'_>,
        disk: &OwnedObjectPath,
    ) -> Result<Vec<NameChange>, Failure> {
        let _call = self.call();
        let _slot = self.queue_slot(header).await?;
        Ok(self.needed_names(disk).await?.1)
    }

    /// `Manager.ChangeNames`.
    pub(crate) async fn change_names(
        &self,
        header: &Header<'_>,
        disk: &OwnedObjectPath,
        changes: &[NameChange],
    ) -> Result<String, Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        let (device, facts) = self.shown_device(header, disk).await?;
        names::needed(&device, &facts)?;
        let (text, nothing) = (&device.ident.text, DeviceText::none());
        auth::check(
            &self.connection,
            header,
            Permission::ChangeNames,
            text,
            &nothing,
        )
        .await?;
        // The user may have taken minutes.
        let (now, needed) = self.needed_names(disk).await?;
        let same = now.ident.same_device(&device.ident) && needed == changes;
        if !same || changes.is_empty() {
            return Err(Failure::new(Kind::PlanUnknown).device(text));
        }
        self.host.change_names(changes).await
    }

    async fn needed_names(
        &self,
        disk: &OwnedObjectPath,
    ) -> Result<(Device, Vec<NameChange>), Failure> {
        let facts = self.host.facts().await?;
        let device = plan::find(&facts, disk)?;
        let needed = names::needed(device, &facts)?;
        Ok((device.clone(), needed))
    }
}

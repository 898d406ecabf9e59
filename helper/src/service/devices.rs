// SPDX-License-Identifier: GPL-3.0-or-later
//! The devices, as the last refresh has found them, with what can be done with each.

use super::Service;
use crate::decide::plan;
use crate::model::facts::{Device, Facts};
use std::sync::Arc;
use std::time::Duration;
use tandem_api::{Failure, JudgedDevice, Kind, SsdHealth};
use zbus::OwnedObjectPath;
use zbus::message::Header;

/// Time limit for the list of devices: far longer than a listing takes.
const FACTS_TIMEOUT: Duration = Duration::from_secs(30);

impl Service {
    /// `Manager.Devices`.
    pub(crate) fn judged_devices(&self) -> Vec<JudgedDevice> {
        self.inner().judged.clone()
    }

    /// Shows what can be done with each device.
    pub(super) async fn show_judged(&self, facts: &Facts) {
        let parts = self.part_objects(facts);
        let now = plan::judge(facts, &parts);
        let before = std::mem::replace(&mut self.inner().judged, now.clone());
        if before == now {
            return;
        }
        self.tell(
            "what can be done with the devices",
            async |manager, emitter| manager.devices_changed(emitter).await,
        )
        .await;
    }

    /// The devices, for a caller that holds `refreshing`: UDisks2 may never answer.
    pub(super) async fn facts_in_time(&self) -> Result<Facts, Failure> {
        let facts = tokio::time::timeout(FACTS_TIMEOUT, self.host.facts()).await;
        facts.map_err(|_| Failure::new(Kind::Internal).detail("no answer"))?
    }

    /// A device by its object path, as the last refresh has found it: a caller is authorised for this device before the
    /// service does any work. A device that is new is searched in the queue of the caller.
    pub(super) async fn shown_device(
        &self,
        header: &Header<'_>,
        object: &OwnedObjectPath,
    ) -> Result<(Device, Arc<Facts>), Failure> {
        let known = self.inner().devices.clone();
        if let Ok(device) = plan::find(&known, object) {
            return Ok((device.clone(), known));
        }
        let _slot = self.queue_slot(header).await?;
        let now = Arc::new(self.host.facts().await?);
        Ok((plan::find(&now, object)?.clone(), now))
    }

    /// The health of an SSD. Its wear is asked for only after UDisks2 has read the drive again.
    pub(super) async fn health(&self, ssd: &Device) -> SsdHealth {
        let health = ssd.health;
        let Some(drive) = ssd.drive.clone().filter(|_| health.read_at > 0) else {
            return health;
        };
        let known = self.inner().worn.get(&drive).copied();
        let used_percent = match known {
            Some((read_at, used)) if read_at == health.read_at => used,
            _ => {
                // The next report of the drive is the next occasion: a drive that does not answer takes long.
                let used = match self.host.used_percent(ssd).await {
                    Ok(used) => used.unwrap_or(-1),
                    Err(e) => {
                        tracing::warn!("the wear of {} is not known: {e}", ssd.ident.text.name);
                        known.map_or(-1, |(_, used)| used)
                    }
                };
                self.inner().worn.insert(drive, (health.read_at, used));
                used
            }
        };
        SsdHealth {
            used_percent,
            ..health
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The content of an SSD: its format is written, and wiped.

use super::guards::{free_to_map, unclaimed_content};
use super::{DeviceMapper, blocking, failed, step};
use crate::machine::dm::control::{Control, explain};
use crate::machine::loaded::LoadedDevices;
use crate::machine::superblock;
use crate::machine::wipe;
use crate::model::action::Pair;
use crate::model::facts::Ident;
use std::fs::File;
use tandem_api::{Failure, Kind, SECTOR_BYTES};

impl DeviceMapper {
    /// Writes the format of a cache to its SSD, unless the SSD has it. The disk is in use, and is not touched.
    pub(super) async fn prepare(&self, pair: &Pair) -> Result<(), Failure> {
        let ssd = self.locate(&pair.ssd).await?;
        let gone = || Failure::new(Kind::DeviceGone).device(&pair.ssd.text);
        let number = crate::machine::blocks::number(&ssd.ident.text.name).ok_or_else(gone)?;
        let node = ssd.ident.node();
        let carried = blocking(move || superblock::read(&File::open(node)?)).await?;
        let carried = carried.map_err(|e| step(&e.to_string()))?;
        if carried.is_some_and(|carried| carried.uuid == pair.uuid) {
            return Ok(());
        }
        free_to_map(&ssd, pair)?;
        let (copy, ident) = (pair.clone(), ssd.ident.clone());
        let sectors = pair.origin.text.size / SECTOR_BYTES;
        let prepared = blocking(move || {
            let devices = LoadedDevices::ssd(number.clone(), ident);
            Control::open()?.prepare(&copy, &number, sectors, |ours| devices.check(ours))
        })
        .await?;
        prepared.map_err(|e| explain(&e, pair))?;
        self.look_again(pair).await;
        Ok(())
    }

    pub(super) async fn erase(&self, ident: &Ident) -> Result<(), Failure> {
        let device = self.locate(ident).await?;
        let ident = device.ident.clone();
        blocking(move || wipe::erase(&ident))
            .await?
            .map_err(|e| step(&e.to_string()))?;
        Ok(())
    }

    pub(super) async fn free(&self, pair: &Pair) -> Result<(), Failure> {
        if pair.ssd.is_memory() {
            return self.give_back_memory(pair).await;
        }
        // An SSD that is gone is free.
        let device = match self.locate(&pair.ssd).await {
            Err(e) if e.kind == Kind::DeviceGone => return Ok(()),
            other => other?,
        };
        if unclaimed_content(&device).is_err() {
            // Another program has put other content on it since then.
            return Ok(());
        }
        let (ident, uuid) = (device.ident.clone(), pair.uuid.clone());
        blocking(move || {
            let control = Control::open()?;
            control.end_preparation(&uuid)?;
            control.remove_parts(&uuid)?;
            Ok(wipe::free(&ident, &uuid))
        })
        .await?
        .map_err(failed)?
        .map_err(|e| step(&e.to_string()))?;
        Ok(())
    }
}

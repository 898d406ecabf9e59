// SPDX-License-Identifier: GPL-3.0-or-later
//! Mappings over a disk: made, held, and removed.

use super::guards::{DeviceNode, LoadedDevices, free_to_map, unclaimed_content};
use super::{CHANGE_TIMEOUT, DeviceMapper, PAUSE, blocking, failed, step};
use crate::action::{MountDevice, Pair};
use crate::dm::control::{Control, DmFailure, explain};
use crate::dm::table::{Linear, Tandem};
use crate::engine::Engine;
use crate::facts::{Device, Ident};
use crate::superblock;
use std::fs::File;
use tandem_api::{Failure, Kind, Mode, SECTOR_BYTES};

impl DeviceMapper {
    pub(super) async fn map(&self, pair: &Pair, new: bool) -> Result<(), Failure> {
        let origin = self.locate(&pair.origin).await?;
        let ssd = self.locate(&pair.ssd).await?;
        let live = self.live_mappings().await?;
        let live = live.iter().find(|live| live.uuid == pair.uuid);
        // The mapping is in use and gets its SSD under the mounted file system.
        let detached = new && live.is_some_and(|live| !live.attached);
        let live = live.filter(|live| live.attached);
        let ssd_number = crate::machine::number(&ssd.ident.text.name);
        let back = live.is_some_and(|live| ssd_number.as_ref() != Some(&live.ssd));
        if back || live.is_none() {
            if !back {
                free_to_map(&origin, pair)?;
            }
            free_to_map(&ssd, pair)?;
            // For a new format the SSD must be empty; the module checks that itself.
            if !new {
                unclaimed_content(&ssd)?;
            }
        }
        let gone = |ident: &Ident| Failure::new(Kind::DeviceGone).device(&ident.text);
        let table = Tandem {
            origin: crate::machine::number(&origin.ident.text.name)
                .ok_or_else(|| gone(&pair.origin))?,
            ssd: ssd_number.ok_or_else(|| gone(&pair.ssd))?,
            // A new cache gets write-back as its last step.
            mode: if new && pair.mode == Mode::Writeback {
                Mode::Writethrough
            } else {
                pair.mode
            },
            uuid: pair.uuid.clone(),
            origin_id: pair.origin_id.clone(),
            new,
            start_cold: pair.copies_stale && !new,
            lost_generation: if new { 0 } else { pair.lost_generation },
            dirty_limit: pair.dirty_limit,
        };
        let devices = LoadedDevices::new(&table, &origin.ident, &ssd.ident);
        let (copy, size) = (pair.clone(), origin.ident.text.size / SECTOR_BYTES);
        let node = ssd.ident.node();
        let mapped = blocking(move || {
            let control = Control::open()?;
            let sectors = match new {
                true => size,
                false => known_sectors(&node, &copy.uuid).unwrap_or(size),
            };
            let check = |ours: &str| devices.check(ours);
            match back || detached {
                true => control.rejoin(&copy, &table, sectors, check),
                false => control.map_and_grow(&copy, &table, [sectors, size], check),
            }
        })
        .await?;
        if let Err(e) = mapped {
            return Err(self
                .in_use(&origin, &e)
                .await
                .unwrap_or_else(|| explain(&e, pair)));
        }
        self.listen();
        self.look_again(pair).await;
        let uuid = MountDevice::Mapping(Box::new(pair.clone()));
        let begun = tokio::time::Instant::now();
        while self.mount_place(&uuid).await?.is_none() {
            if begun.elapsed() > CHANGE_TIMEOUT {
                self.remove_mapping(pair, &origin).await?.map_err(failed)?;
                return Err(step("UDisks2 does not show the mapping"));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// The users of a disk that the kernel reports as in use although it is not mounted: mostly a mount namespace
    /// that keeps a mount.
    async fn in_use(&self, disk: &Device, error: &DmFailure) -> Option<Failure> {
        (error.errno == Some(rustix::io::Errno::BUSY)).then_some(())?;
        let ident = &disk.ident;
        let place = DeviceNode::of(&ident.text.name, ident.node(), disk.object())?;
        let users = self.users_of(&place, &[]).await;
        let busy = Failure::new(Kind::FilesystemBusy).device(&ident.text);
        (!users.is_empty()).then(|| busy.users(users).detail(error))
    }

    pub(super) async fn detach(&self, pair: &Pair) -> Result<(), Failure> {
        let origin = self.locate(&pair.origin).await?;
        let disk_alone = disk_alone(&origin);
        let uuid = pair.uuid.clone();
        blocking(move || Control::open()?.pass_through(&uuid, &disk_alone))
            .await?
            .map_err(failed)
    }

    /// Removes the mapping over a disk. The disk is held from then on if it lacks data.
    async fn remove_mapping(
        &self,
        pair: &Pair,
        disk: &Device,
    ) -> Result<Result<(), DmFailure>, Failure> {
        let (copy, table) = (pair.clone(), disk_alone(disk));
        blocking(move || Control::open()?.disassemble(&copy, &table)).await
    }

    /// Holds the devices that may be the disk of the pair and are not in use.
    pub(super) async fn hold(&self, pair: &Pair) -> Result<(), Failure> {
        let facts = self.facts().await?;
        let disks: Vec<_> = facts.to_be_held(&pair.origin).collect();
        if disks.is_empty() {
            return Err(Failure::new(Kind::DeviceGone).device(&pair.origin.text));
        }
        let recorded = facts.same_hardware(&pair.origin);
        let needed = recorded.map_or(disks.len(), |_| 1);
        let tables: Vec<_> = disks.into_iter().map(disk_alone).collect();
        let copy = pair.clone();
        blocking(move || Control::open()?.hold(&copy, &tables, needed))
            .await?
            .map_err(failed)
    }

    pub(super) async fn disassemble(&self, pair: &Pair) -> Result<(), Failure> {
        let result = match self.locate(&pair.origin).await {
            Ok(disk) => self.remove_mapping(pair, &disk).await?,
            // A disk that is gone needs no hold.
            Err(e) if e.kind == Kind::DeviceGone => return self.unmap(pair).await,
            Err(e) => return Err(e),
        };
        self.unmapped(pair, result).await
    }

    pub(super) async fn unmap(&self, pair: &Pair) -> Result<(), Failure> {
        let uuid = pair.uuid.clone();
        let result = blocking(move || Control::open()?.unmap(&uuid)).await?;
        self.unmapped(pair, result).await
    }

    /// After an attempt to remove a mapping: names its users if it is in use. After a success, makes all programs
    /// notice that the mapping is gone.
    async fn unmapped(&self, pair: &Pair, result: Result<(), DmFailure>) -> Result<(), Failure> {
        if let Err(e) = &result
            && e.errno == Some(rustix::io::Errno::BUSY)
        {
            let place = self
                .mount_place(&MountDevice::Mapping(Box::new(pair.clone())))
                .await?;
            let users = match place {
                Some(place) => self.users_of(&place, &[]).await,
                None => Vec::new(),
            };
            return Err(Failure::new(Kind::FilesystemBusy)
                .device(&pair.origin.text)
                .users(users)
                .detail(e));
        }
        result.map_err(failed)?;
        self.look_again(pair).await;
        Ok(())
    }
}

/// The length of the disk that the module takes, as the SSD knows it; none if the SSD cannot be read.
fn known_sectors(ssd: &str, uuid: &str) -> Option<u64> {
    let carried = File::open(ssd).and_then(|file| superblock::read(&file));
    let carried = carried.ok().flatten();
    carried
        .filter(|carried| carried.uuid == uuid)
        .map(|carried| carried.origin_sectors)
}

/// The table that passes everything to a disk.
fn disk_alone(disk: &Device) -> Linear {
    Linear {
        device: disk.number.clone(),
        sectors: disk.ident.text.size / SECTOR_BYTES,
    }
}

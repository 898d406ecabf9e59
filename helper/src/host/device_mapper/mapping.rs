// SPDX-License-Identifier: GPL-3.0-or-later
//! Mappings over a disk: made, held, and removed.

use super::guards::{DeviceNode, free_to_map, unclaimed_content};
use super::{CHANGE_TIMEOUT, DeviceMapper, PAUSE, blocking, failed, step};
use crate::host::initramfs;
use crate::host::module;
use crate::host::traits::{Disks, Mappings};
use crate::machine::dm::control::{Control, DmFailure, explain};
use crate::machine::dm::message::{Flush, Message};
use crate::machine::dm::table::{Linear, Tandem};
use crate::machine::loaded::LoadedDevices;
use crate::machine::marks::Marks;
use crate::machine::superblock;
use crate::model::action::{Action, MountDevice, Pair};
use crate::model::facts::{Device, Ident};
use crate::model::live::{LiveMapping, Status};
use async_trait::async_trait;
use std::fs::File;
use std::path::Path;
use std::sync::PoisonError;
use tandem_api::{Failure, Kind, Mode, SECTOR_BYTES, Target};

#[async_trait]
impl Mappings for DeviceMapper {
    async fn apply(&self, action: &Action) -> Result<(), Failure> {
        match action {
            Action::LoadModule => {
                module::load(&self.connection).await?;
                self.listen();
                Ok(())
            }
            Action::Unmount(device, mount) => self.unmount(device, mount).await,
            Action::Mount(device, mount) => self.mount(device, mount).await,
            Action::Erase(ident) => self.erase(ident).await,
            Action::Map(pair) => self.map(pair, true).await,
            Action::Prepare(pair) => self.prepare(pair).await,
            Action::UpdateInitramfs(_) => initramfs::update(&self.connection).await,
            Action::Assemble(pair) => self.map(pair, false).await,
            Action::Detach(pair) => self.detach(pair).await,
            Action::FreeSsd(pair) => self.free(pair).await,
            Action::CreatePartition(pair) => self.create_partition(pair).await,
            Action::DeletePartition(pair) => self.delete_partition(pair).await,
            Action::ResizePartition(pair) => self.resize_partition(pair).await,
            Action::ResizeCache(pair) => self.resize_cache(pair).await,
            Action::Unmap(pair) => self.unmap(pair).await,
            Action::Disassemble(pair) => self.disassemble(pair).await,
            Action::Hold(pair) => self.hold(pair).await,
            Action::EnableWriteback(pair) => {
                self.send_message(&pair.uuid, Message::Mode(Mode::Writeback))
                    .await
            }
            Action::Drain(pair) => {
                self.send_message(&pair.uuid, Message::Flush(Flush::Start))
                    .await
            }
        }
    }

    async fn mount_left_out(&self, pair: &Pair) {
        self.mount_left(pair).await;
    }

    fn hold_at_return(&self, uuid: &str, hold: bool) {
        let marks = Marks::default();
        match hold {
            true if marks.has(uuid) => {}
            true => {
                if let Err(e) = marks.set(uuid) {
                    tracing::error!(
                        uuid,
                        "a disk that comes back is held by the service only: {e}"
                    );
                }
            }
            false => marks.clear(uuid),
        }
    }

    async fn send_message(&self, uuid: &str, message: Message) -> Result<(), Failure> {
        let uuid = uuid.to_owned();
        blocking(move || Control::open()?.send_message(&uuid, message))
            .await?
            .map_err(failed)
    }

    async fn grow(&self, uuid: &str, sectors: u64) -> Result<(), Failure> {
        let uuid = uuid.to_owned();
        blocking(move || Control::open()?.grow(&uuid, sectors))
            .await?
            .map_err(failed)
    }

    async fn live_mappings(&self) -> Result<Vec<LiveMapping>, Failure> {
        // Without device-mapper there are no mappings.
        blocking(|| {
            Control::open()
                .and_then(|c| c.live_mappings())
                .or_else(|e| {
                    if Path::new("/dev/mapper/control").exists() {
                        Err(e)
                    } else {
                        Ok(Vec::new())
                    }
                })
        })
        .await?
        .map_err(failed)
    }

    async fn status(&self, uuid: &str) -> Result<Status, Failure> {
        let asked = uuid.to_owned();
        let read = move || Control::open()?.status_and_sectors(&asked);
        let (mut line, sectors) = blocking(read).await?.map_err(failed)?;
        if let Some(sectors) = sectors {
            let mut traffic = self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
            let traffic = traffic.entry(uuid.to_owned()).or_default();
            traffic.in_sectors(&mut line, sectors);
        }
        if !line.is_complete() {
            return Err(step("the mapping's table is being replaced"));
        }
        Ok(line.status(crate::machine::clock::boottime_us()))
    }
}

impl DeviceMapper {
    pub(super) async fn map(&self, pair: &Pair, new: bool) -> Result<(), Failure> {
        let origin = self.locate(&pair.origin).await?;
        let live = self.live_mappings().await?;
        let live = live.iter().find(|live| live.uuid == pair.uuid);
        // Memory is empty each time, so its format is always new.
        let new = new || pair.ssd.is_memory();
        // The mapping is in use and gets its SSD under the mounted file system.
        let attaches = new || pair.target == Target::DmCache;
        let detached = attaches && live.is_some_and(|live| !live.attached);
        if detached && live.is_some_and(|live| live.origin != origin.number) {
            // The disk was plugged in again under a file system that knows nothing of what has changed on the disk since.
            return Err(Failure::new(Kind::DeviceChanged).device(&origin.ident.text));
        }
        let ssd = match pair.ssd.is_memory() && live.is_none_or(|live| !live.attached) {
            true => self.make_memory(pair).await?,
            false => self.locate(&pair.ssd).await?,
        };
        let live = live.filter(|live| live.attached);
        let ssd_number = crate::machine::blocks::number(&ssd.ident.text.name);
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
            origin: crate::machine::blocks::number(&origin.ident.text.name)
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
            start_cold: pair.starts_cold(&origin.ident) && !new,
            lost_generation: if new { 0 } else { pair.lost_generation },
            dirty_limit: pair.dirty_limit,
        };
        let devices = LoadedDevices::new(&table, &origin.ident, &ssd.ident);
        let (copy, size) = (pair.clone(), origin.ident.text.size / SECTOR_BYTES);
        let node = ssd.ident.node();
        let mapped = blocking(move || {
            let control = Control::open()?;
            let sectors = match new || copy.target == Target::DmCache {
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

    async fn resize_cache(&self, pair: &Pair) -> Result<(), Failure> {
        let (uuid, sectors) = (pair.uuid.clone(), pair.ssd.text.size / SECTOR_BYTES);
        blocking(move || Control::open()?.resize(&uuid, sectors))
            .await?
            .map_err(failed)
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
        let pair = pair.clone();
        blocking(move || Control::open()?.pass_through(&pair, &disk_alone))
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

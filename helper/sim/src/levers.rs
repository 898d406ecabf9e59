// SPDX-License-Identifier: GPL-3.0-or-later
//! The `Simulation` interface, and the authority that the simulated machine asks.

use super::catalogue::drive;
use super::udisks;
use super::world::{Block, World, block_path};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tandem_api::{
    CacheState, Failure, FileUser, Kind, ModuleProblem, ModuleState, OtherCache, ROOT_PATH,
    SECTOR_BYTES, SigningKey, SsdHealth, StepKind,
};
use tandem_helper::model::facts::{Mounter, StartEntry, StartTable};
use zbus::{Connection, OwnedObjectPath, OwnedVariant, interface};

/// Serves the simulated devices, the authority and the levers. The devices and the authority have connections of their
/// own, which the caller keeps; the levers use the connection of the service.
///
/// # Errors
/// If the bus refuses a name or an object.
pub async fn serve(world: &Arc<World>, service: &Connection) -> zbus::Result<[Connection; 2]> {
    let udisks = udisks::serve(world.clone()).await?;
    let authority = zbus::connection::Builder::system()
        .serve_at(
            "/org/freedesktop/PolicyKit1/Authority",
            Authority(world.clone()),
        )
        .name("org.freedesktop.PolicyKit1")
        .build()
        .await?;
    service
        .object_server()
        .at(ROOT_PATH, Simulation(world.clone()))
        .await?;
    Ok([udisks, authority])
}

/// Gives every question the answer that `SetAuthorized` chose.
struct Authority(Arc<World>);

#[interface(name = "org.freedesktop.PolicyKit1.Authority")]
impl Authority {
    fn check_authorization(
        &self,
        _subject: (String, HashMap<String, OwnedVariant>),
        _action_id: String,
        _details: HashMap<String, String>,
        _flags: u32,
        _cancellation_id: String,
    ) -> ((bool, bool, HashMap<String, String>),) {
        ((self.0.read(|s| s.authorized), false, HashMap::new()),)
    }
}

struct Simulation(Arc<World>);

impl Simulation {
    fn name_of(&self, block: &OwnedObjectPath) -> Result<String, Failure> {
        self.0
            .read(|s| s.by_object(block.as_str()))
            .ok_or_else(|| Failure::new(Kind::InvalidArgument).name("block"))
    }
}

#[interface(name = "org.tandemcache.Tandem1.Simulation")]
impl Simulation {
    async fn plug(
        &self,
        kind: &str,
        model: &str,
        serial: &str,
        bytes: u64,
    ) -> Result<Vec<OwnedObjectPath>, Failure> {
        let (rotation, bus) = match kind {
            "disk" => (7200, "ata"),
            "ssd" => (0, "ata"),
            "usb" | "usb-disk" => (-1, "usb"),
            _ => return Err(Failure::new(Kind::InvalidArgument).name("kind")),
        };
        let names = self.0.change(|s| {
            let whole = s.plug(drive("", model, serial, bytes, rotation, bus));
            let room = bytes.saturating_sub(2 << 20);
            let part = match kind {
                "disk" | "usb-disk" => Some(s.part(&whole, room, "0x83", "ext4", "Data")),
                "usb" => Some(s.part(&whole, room, "0xc", "vfat", "STICK")),
                _ => None,
            };
            std::iter::once(whole).chain(part).collect::<Vec<_>>()
        });
        self.0.synced().await;
        Ok(names
            .iter()
            .filter_map(|n| OwnedObjectPath::try_from(block_path(n)).ok())
            .collect())
    }

    async fn plug_cache(
        &self,
        disk: OwnedObjectPath,
        model: &str,
        serial: &str,
        dirty_bytes: u64,
    ) -> Result<OwnedObjectPath, Failure> {
        let disk = self.name_of(&disk)?;
        let name = self.0.change(|s| {
            let below = s.blocks.get(&disk);
            let disk_id = below.map(|block| s.ident(&disk, block).origin_id());
            let bytes = 250_000_000_000;
            let whole = s.plug(drive("", model, serial, bytes, 0, "ata"));
            if let Some(block) = s.blocks.get_mut(&whole) {
                block.blank = false;
                block.usage = "other".into();
                block.kind = "tandem".into();
                block.uuid = "fe".repeat(16);
                block.disk_id = disk_id.unwrap_or_default();
                block.dirty = dirty_bytes / SECTOR_BYTES;
            }
            whole
        });
        self.0.synced().await;
        OwnedObjectPath::try_from(block_path(&name))
            .map_err(|e| Failure::new(Kind::Internal).detail(e))
    }

    fn set_other_caches(&self, caches: Vec<OtherCache>) {
        self.0.change(|s| s.others = caches);
    }

    async fn unplug(&self, block: OwnedObjectPath) -> Result<(), Failure> {
        let name = self.name_of(&block)?;
        self.0.change(|s| {
            let drive = s
                .blocks
                .get(&name)
                .map(|b| b.drive.clone())
                .unwrap_or_default();
            let gone = |b: &Block| b.drive == drive && !drive.is_empty();
            let names: Vec<_> = s
                .blocks
                .iter()
                .filter(|(_, b)| gone(b))
                .map(|(n, _)| n.clone())
                .collect();
            let of = s.drives.remove(&drive);
            for name in names {
                s.away.extend(
                    s.blocks
                        .remove(&name)
                        .map(|block| (name, block, of.clone())),
                );
            }
            for map in s.maps.values_mut() {
                if map.pair.ssd.hardware == format!("/{drive}") {
                    map.lose_ssd();
                }
            }
            s.halt_orphans();
        });
        self.0.synced().await;
        Ok(())
    }

    fn fail_next(&self, step: StepKind) {
        self.0.fail_next(step);
    }

    fn set_users(&self, block: OwnedObjectPath, users: Vec<FileUser>) -> Result<(), Failure> {
        let name = self.name_of(&block)?;
        self.0.change(|s| {
            if let Some(block) = s.blocks.get_mut(&name) {
                block.users = users;
            }
        });
        Ok(())
    }

    async fn set_health(&self, block: OwnedObjectPath, health: SsdHealth) -> Result<(), Failure> {
        let name = self.name_of(&block)?;
        self.0.change(|s| {
            let drive = s.blocks.get(&name).map(|block| block.drive.clone());
            if let Some(drive) = s.drives.get_mut(&drive.unwrap_or_default()) {
                drive.health = health;
            }
        });
        self.0.synced().await;
        Ok(())
    }

    async fn format(&self, block: OwnedObjectPath, uuid: String) -> Result<(), Failure> {
        let name = self.name_of(&block)?;
        self.0.change(|s| {
            if let Some(block) = s.blocks.get_mut(&name) {
                block.uuid = uuid;
            }
        });
        self.0.synced().await;
        Ok(())
    }

    async fn grow(&self, block: OwnedObjectPath, bytes: u64) -> Result<(), Failure> {
        let name = self.name_of(&block)?;
        self.0.change(|s| {
            if let Some(block) = s.blocks.get_mut(&name) {
                block.size = bytes;
            }
        });
        self.0.synced().await;
        Ok(())
    }

    fn set_fstab_name(&self, block: OwnedObjectPath, name: &str) -> Result<(), Failure> {
        let block = self.name_of(&block)?;
        self.0.change(|s| {
            let mounts = s.blocks.get_mut(&block).map(|b| b.mounts.iter_mut());
            for mount in mounts.into_iter().flatten() {
                mount.mounter = Mounter::Fstab(name.to_owned());
            }
        });
        Ok(())
    }

    fn add_start_entry(
        &self,
        block: OwnedObjectPath,
        file: &str,
        entry: &str,
        name: &str,
    ) -> Result<(), Failure> {
        let block = self.name_of(&block)?;
        let tables = [
            StartTable::Crypttab,
            StartTable::Grub,
            StartTable::CommandLine,
        ];
        let table = tables.into_iter().find(|table| table.file() == file);
        let table = table.ok_or_else(|| Failure::new(Kind::InvalidArgument).name("file"))?;
        self.0.change(|s| {
            if let Some(block) = s.blocks.get_mut(&block) {
                block.other_entries.push(StartEntry {
                    table,
                    target: entry.to_owned(),
                    spec: name.to_owned(),
                    at_start: true,
                    early: false,
                });
            }
        });
        Ok(())
    }

    async fn set_grub_disk(&self, block: OwnedObjectPath) -> Result<(), Failure> {
        let name = self.name_of(&block)?;
        self.0.change(|s| s.grub_disk = Some(name));
        self.0.synced().await;
        Ok(())
    }

    async fn set_snapshots(&self, block: OwnedObjectPath, snapshots: bool) -> Result<(), Failure> {
        let name = self.name_of(&block)?;
        self.0.change(|s| {
            if let Some(block) = s.blocks.get_mut(&name) {
                block.snapshots = snapshots;
            }
        });
        self.0.synced().await;
        Ok(())
    }

    async fn set_network(&self, block: OwnedObjectPath, network: bool) -> Result<(), Failure> {
        let name = self.name_of(&block)?;
        self.0.change(|s| {
            if let Some(block) = s.blocks.get_mut(&name) {
                block.network = network;
            }
        });
        self.0.synced().await;
        Ok(())
    }

    fn claim(&self, block: OwnedObjectPath, claimed: bool) -> Result<(), Failure> {
        let name = self.name_of(&block)?;
        self.0.change(|s| {
            if let Some(block) = s.blocks.get_mut(&name) {
                block.claimed = claimed;
            }
        });
        Ok(())
    }

    fn set_module(&self, state: ModuleState) {
        self.0.change(|s| {
            s.module = state;
            s.problem = None;
            if state == ModuleState::Refused && s.key == SigningKey::NotNeeded {
                s.key = SigningKey::NotEnrolled;
            }
        });
    }

    fn set_module_problem(&self, problem: ModuleProblem, key: SigningKey) {
        self.0.read_mut(|s| {
            s.problem = Some(problem);
            s.key = key;
        });
    }

    fn set_kernels_without_module(&self, releases: Vec<String>) {
        self.0.read_mut(|s| s.kernels = releases);
    }

    fn set_step_time(&self, milliseconds: u32) {
        self.0
            .set_step_time(Duration::from_millis(milliseconds.into()));
    }

    fn questions(&self) -> (u64, u32) {
        self.0.questions.count()
    }

    fn set_question_time(&self, milliseconds: u32) {
        self.0.questions.set_time(milliseconds);
    }

    fn set_stall_limit(&self, milliseconds: u32) {
        self.0
            .set_stall_limit(Duration::from_millis(milliseconds.into()));
    }

    fn set_sample_period(&self, milliseconds: u32) {
        let period = Duration::from_millis(milliseconds.into());
        self.0.read_mut(|s| s.sample_period = period);
    }

    fn set_memory_available(&self, bytes: u64) {
        self.0.read_mut(|s| s.memory_available = bytes);
    }

    fn set_authorized(&self, authorized: bool) {
        self.0.read_mut(|s| s.authorized = authorized);
    }

    fn advance(&self, seconds: u32) {
        self.0.advance(Duration::from_secs(seconds.into()));
    }

    async fn replug(&self, block: OwnedObjectPath) -> Result<(), Failure> {
        if let Ok(name) = self.name_of(&block) {
            self.0.pull_out(&name);
            // The service notices that the device is gone.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if !self.0.put_back(block.as_str()) {
            return Err(Failure::new(Kind::InvalidArgument).name("block"));
        }
        self.0.synced().await;
        Ok(())
    }

    async fn rehouse(&self, block: OwnedObjectPath, serial: &str) -> Result<(), Failure> {
        let name = self.name_of(&block)?;
        self.0.change(|s| {
            if let Some(block) = s.blocks.get_mut(&name) {
                let enclosure = drive("", "Enclosure", serial, block.size, -1, "usb");
                block.drive = serial.to_owned();
                s.drives.insert(serial.to_owned(), enclosure);
            }
        });
        self.replug(block).await
    }

    async fn restart(&self) {
        self.0.restart();
        self.0.synced().await;
    }

    async fn mount(&self, block: OwnedObjectPath, point: String) -> Result<(), Failure> {
        let name = self.name_of(&block)?;
        self.0.change(|s| s.mount(&name, &point, Mounter::Other));
        self.0.synced().await;
        Ok(())
    }

    async fn unmount(&self, block: OwnedObjectPath) -> Result<(), Failure> {
        let name = self.name_of(&block)?;
        self.0.change(|s| {
            if let Some(block) = s.blocks.get_mut(&name) {
                block.mounts.clear();
                s.written_by_unmount(&name);
            }
        });
        self.0.synced().await;
        Ok(())
    }

    fn held(&self, block: OwnedObjectPath) -> Result<bool, Failure> {
        let name = self.name_of(&block)?;
        Ok(self.0.read(|s| s.has_holder(&name)))
    }

    fn set_drain_rate(&self, bytes: u64) {
        self.0.set_drain_rate(bytes);
    }

    fn set_other_load(&self, percent: u32) {
        self.0.set_other_load(percent);
    }

    fn lost_bytes(&self) -> u64 {
        self.0.lost_bytes()
    }

    fn set_state(&self, uuid: &str, state: CacheState, reason: &str) -> Result<(), Failure> {
        self.0.change(|s| {
            let map = s
                .maps
                .get_mut(uuid)
                .ok_or_else(|| Failure::new(Kind::InvalidArgument).name("uuid"))?;
            map.set_state(state, reason);
            map.load.dirt.refused = reason == "disk-error";
            Ok(())
        })
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! UDisks2 objects of the simulated machine: the interfaces and properties that a desktop program
//! reads, always showing the [`World`] as it is.

use super::world::{Block, Drive, Scene, World, block_path, drive_path};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use zbus::{Connection, ObjectServer, OwnedObjectPath, OwnedVariant, interface};

const ROOT: &str = "/org/freedesktop/UDisks2";

/// A byte string as UDisks2 sends paths: with a zero at the end.
fn bytes(text: &str) -> Vec<u8> {
    text.bytes().chain([0]).collect()
}

fn path(text: &str) -> OwnedObjectPath {
    OwnedObjectPath::try_from(text.to_owned()).unwrap_or_default()
}

struct ManagerObject;

#[interface(name = "org.freedesktop.UDisks2.Manager")]
impl ManagerObject {
    #[zbus(property)]
    fn version(&self) -> String {
        "2.9.4".to_owned()
    }
}

struct BlockObject {
    world: Arc<World>,
    name: String,
}

impl BlockObject {
    fn get<T: Default>(&self, f: impl FnOnce(&Scene, &Block) -> T) -> T {
        self.world
            .read(|s| s.blocks.get(&self.name).map(|b| f(s, b)))
            .unwrap_or_default()
    }
}

#[interface(name = "org.freedesktop.UDisks2.Block")]
impl BlockObject {
    #[zbus(property)]
    fn device(&self) -> Vec<u8> {
        bytes(&format!("/dev/{}", self.name))
    }

    #[zbus(property)]
    fn preferred_device(&self) -> Vec<u8> {
        let mapper = self.get(|s, _| {
            let map = s.maps.values().find(|map| map.dm == self.name)?;
            Some(format!("/dev/mapper/{}", map.pair.name()))
        });
        bytes(&mapper.unwrap_or_else(|| format!("/dev/{}", self.name)))
    }

    #[zbus(property)]
    fn symlinks(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    #[zbus(property)]
    fn device_number(&self) -> u64 {
        self.get(|_, b| b.diskseq * 256 + u64::from(b.number))
    }

    #[zbus(property)]
    fn id(&self) -> String {
        format!("by-name-{}", self.name)
    }

    #[zbus(property)]
    fn size(&self) -> u64 {
        self.get(|_, b| b.size)
    }

    #[zbus(property)]
    fn read_only(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn drive(&self) -> OwnedObjectPath {
        let drive = self.get(|s, b| s.drives.get(&b.drive).map(drive_path));
        path(drive.as_deref().unwrap_or("/"))
    }

    #[zbus(property)]
    fn id_usage(&self) -> String {
        self.get(|_, b| b.usage.clone())
    }

    #[zbus(property)]
    fn id_type(&self) -> String {
        self.get(|_, b| b.kind.clone())
    }

    #[zbus(property)]
    fn id_version(&self) -> String {
        String::new()
    }

    #[zbus(property)]
    fn id_label(&self) -> String {
        self.get(|_, b| b.label.clone())
    }

    #[zbus(property, name = "IdUUID")]
    fn id_uuid(&self) -> String {
        self.get(|_, b| b.uuid.clone())
    }

    #[zbus(property)]
    fn configuration(&self) -> Vec<(String, HashMap<String, OwnedVariant>)> {
        Vec::new()
    }

    #[zbus(property)]
    fn crypto_backing_device(&self) -> OwnedObjectPath {
        let below = self.get(|_, b| b.backing.clone().filter(|(_, kind)| kind == "luks"));
        below.map_or_else(|| path("/"), |(name, _)| path(&block_path(&name)))
    }

    #[zbus(property, name = "MDRaid")]
    fn md_raid(&self) -> OwnedObjectPath {
        path("/")
    }

    #[zbus(property, name = "MDRaidMember")]
    fn md_raid_member(&self) -> OwnedObjectPath {
        path("/")
    }

    #[zbus(property)]
    fn hint_partitionable(&self) -> bool {
        self.get(|_, b| b.backing.is_none())
    }

    #[zbus(property)]
    fn hint_system(&self) -> bool {
        self.get(|s, b| s.drives.get(&b.drive).is_some_and(|d| d.bus != "usb"))
    }

    #[zbus(property)]
    fn hint_ignore(&self) -> bool {
        let covered = |s: &Scene| {
            s.maps
                .values()
                .any(|m| m.pair.origin.text.name == self.name)
        };
        self.get(|s, b| covered(s) || b.kind == "tandem")
    }

    #[zbus(property)]
    fn hint_auto(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn hint_name(&self) -> String {
        String::new()
    }

    #[zbus(property)]
    fn hint_icon_name(&self) -> String {
        String::new()
    }

    #[zbus(property)]
    fn hint_symbolic_icon_name(&self) -> String {
        String::new()
    }

    #[zbus(property)]
    fn userspace_mount_options(&self) -> Vec<String> {
        Vec::new()
    }
}

struct FilesystemObject(BlockObject);

#[interface(name = "org.freedesktop.UDisks2.Filesystem")]
impl FilesystemObject {
    #[zbus(property)]
    fn mount_points(&self) -> Vec<Vec<u8>> {
        self.0
            .get(|_, b| b.mounts.iter().map(|m| bytes(&m.point)).collect())
    }

    #[zbus(property)]
    fn size(&self) -> u64 {
        self.0.get(|_, b| b.size)
    }
}

struct PartitionObject(BlockObject);

#[interface(name = "org.freedesktop.UDisks2.Partition")]
impl PartitionObject {
    #[zbus(property)]
    fn number(&self) -> u32 {
        self.0.get(|_, b| b.number)
    }

    #[zbus(property, name = "Type")]
    fn type_(&self) -> String {
        self.0.get(|_, b| b.part_type.clone())
    }

    #[zbus(property)]
    fn flags(&self) -> u64 {
        0
    }

    #[zbus(property)]
    fn offset(&self) -> u64 {
        self.0.get(|_, b| b.start)
    }

    #[zbus(property)]
    fn size(&self) -> u64 {
        self.0.get(|_, b| b.size)
    }

    #[zbus(property)]
    fn name(&self) -> String {
        String::new()
    }

    #[zbus(property, name = "UUID")]
    fn uuid(&self) -> String {
        self.0
            .get(|_, b| format!("{:08x}-{:02}", b.start >> 20, b.number))
    }

    #[zbus(property)]
    fn table(&self) -> OwnedObjectPath {
        let whole = self.0.get(|_, b| b.whole.clone());
        path(&block_path(whole.as_deref().unwrap_or_default()))
    }

    #[zbus(property)]
    fn is_container(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn is_contained(&self) -> bool {
        false
    }
}

struct TableObject(BlockObject);

#[interface(name = "org.freedesktop.UDisks2.PartitionTable")]
impl TableObject {
    #[zbus(property)]
    fn partitions(&self) -> Vec<OwnedObjectPath> {
        let name = self.0.name.as_str();
        self.0.get(|s, _| {
            let parts = s
                .blocks
                .iter()
                .filter(|(_, b)| b.whole.as_deref() == Some(name));
            parts.map(|(part, _)| path(&block_path(part))).collect()
        })
    }

    #[zbus(property, name = "Type")]
    fn type_(&self) -> String {
        "gpt".to_owned()
    }
}

struct SwapObject(BlockObject);

#[interface(name = "org.freedesktop.UDisks2.Swapspace")]
impl SwapObject {
    #[zbus(property)]
    fn active(&self) -> bool {
        self.0.get(|_, b| b.swap)
    }
}

struct EncryptedObject(BlockObject);

#[interface(name = "org.freedesktop.UDisks2.Encrypted")]
impl EncryptedObject {
    #[zbus(property)]
    fn cleartext_device(&self) -> OwnedObjectPath {
        let name = self.0.name.as_str();
        let above = self.0.get(|s, _| {
            let over = |b: &Block| matches!(&b.backing, Some((below, _)) if below == name);
            s.blocks
                .iter()
                .find(|(_, b)| over(b))
                .map(|(name, _)| block_path(name))
        });
        path(above.as_deref().unwrap_or("/"))
    }

    #[zbus(property)]
    fn hint_encryption_type(&self) -> String {
        "LUKS2".to_owned()
    }
}

struct DriveObject {
    world: Arc<World>,
    serial: String,
}

impl DriveObject {
    fn get<T: Default>(&self, f: impl FnOnce(&Drive) -> T) -> T {
        self.world
            .read(|s| s.drives.get(&self.serial).map(f))
            .unwrap_or_default()
    }
}

#[interface(name = "org.freedesktop.UDisks2.Drive")]
impl DriveObject {
    #[zbus(property)]
    fn vendor(&self) -> String {
        self.get(|d| d.vendor.clone())
    }

    #[zbus(property)]
    fn model(&self) -> String {
        self.get(|d| d.model.clone())
    }

    #[zbus(property)]
    fn revision(&self) -> String {
        "1.0".to_owned()
    }

    #[zbus(property)]
    fn serial(&self) -> String {
        self.serial.clone()
    }

    #[zbus(property, name = "WWN")]
    fn wwn(&self) -> String {
        String::new()
    }

    #[zbus(property)]
    fn id(&self) -> String {
        self.get(|d| format!("{}-{}", d.model.replace(' ', "-"), d.serial))
    }

    #[zbus(property)]
    fn media(&self) -> String {
        String::new()
    }

    #[zbus(property)]
    fn media_compatibility(&self) -> Vec<String> {
        Vec::new()
    }

    #[zbus(property)]
    fn media_removable(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn media_available(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn size(&self) -> u64 {
        self.get(|d| d.size)
    }

    #[zbus(property)]
    fn rotation_rate(&self) -> i32 {
        self.get(|d| d.rotation)
    }

    #[zbus(property)]
    fn connection_bus(&self) -> String {
        self.get(|d| {
            if d.bus == "usb" {
                "usb".to_owned()
            } else {
                String::new()
            }
        })
    }

    #[zbus(property)]
    fn removable(&self) -> bool {
        self.get(|d| d.removable)
    }

    #[zbus(property)]
    fn ejectable(&self) -> bool {
        self.get(|d| d.removable)
    }

    #[zbus(property)]
    fn can_power_off(&self) -> bool {
        self.get(|d| d.removable)
    }

    #[zbus(property)]
    fn optical(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn optical_blank(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn seat(&self) -> String {
        "seat0".to_owned()
    }

    #[zbus(property)]
    fn sort_key(&self) -> String {
        self.serial.clone()
    }

    #[zbus(property)]
    fn time_detected(&self) -> u64 {
        0
    }

    #[zbus(property)]
    fn configuration(&self) -> HashMap<String, OwnedVariant> {
        HashMap::new()
    }
}

/// What is to be seen of one object: its interfaces, and a picture of what can change.
type Picture = BTreeMap<String, (BTreeSet<&'static str>, String)>;

fn picture(scene: &Scene) -> Picture {
    let mut all = Picture::new();
    for drive in scene.drives.values() {
        all.insert(
            drive_path(drive),
            (BTreeSet::from(["Drive"]), drive.serial.clone()),
        );
    }
    for (name, block) in &scene.blocks {
        let mut set = BTreeSet::from(["Block"]);
        if block.whole.is_some() {
            set.insert("Partition");
        }
        if block.table {
            set.insert("PartitionTable");
        }
        match (block.usage.as_str(), block.kind.as_str()) {
            ("filesystem", _) => set.insert("Filesystem"),
            ("crypto", _) => set.insert("Encrypted"),
            (_, "swap") => set.insert("Swapspace"),
            _ => false,
        };
        all.insert(block_path(name), (set, name.clone()));
    }
    all
}

/// Serves the machine on a connection of its own and keeps the objects true until it closes.
///
/// # Errors
/// If the bus refuses the name or an object.
pub async fn serve(world: Arc<World>) -> zbus::Result<Connection> {
    let connection = zbus::connection::Builder::system()
        .serve_at(ROOT, zbus::fdo::ObjectManager)
        .serve_at(format!("{ROOT}/Manager"), ManagerObject)
        .build()
        .await?;
    let mut shown = Picture::new();
    follow(&connection, &world, &mut shown).await?;
    connection.request_name("org.freedesktop.UDisks2").await?;
    world.tell_shown(0);
    let follower = connection.clone();
    tokio::spawn(async move {
        loop {
            world.for_udisks.notified().await;
            let version = world.version();
            if let Err(e) = follow(&follower, &world, &mut shown).await {
                tracing::error!("simulated UDisks2: {e}");
            }
            world.tell_shown(version);
        }
    });
    Ok(connection)
}

async fn follow(
    connection: &Connection,
    world: &Arc<World>,
    shown: &mut Picture,
) -> zbus::Result<()> {
    let wanted = world.read(picture);
    let server = connection.object_server();
    let none = BTreeSet::new();
    for (path, (set, key)) in shown.iter() {
        let keep = wanted
            .get(path)
            .filter(|(_, k)| k == key)
            .map_or(&none, |(set, _)| set);
        for interface in set.difference(keep) {
            take(server, path, interface).await?;
        }
    }
    for (path, (set, key)) in &wanted {
        let have = shown
            .get(path)
            .filter(|(_, k)| k == key)
            .map_or(&none, |(set, _)| set);
        for interface in set.difference(have) {
            give(server, world, path, interface, key).await?;
        }
        for interface in set.intersection(have) {
            tell(server, path, interface).await?;
        }
    }
    *shown = wanted;
    Ok(())
}

async fn give(
    server: &ObjectServer,
    world: &Arc<World>,
    path: &str,
    interface: &str,
    key: &str,
) -> zbus::Result<()> {
    let block = || BlockObject {
        world: world.clone(),
        name: key.to_owned(),
    };
    match interface {
        "Drive" => {
            server
                .at(
                    path,
                    DriveObject {
                        world: world.clone(),
                        serial: key.to_owned(),
                    },
                )
                .await?;
        }
        "Block" => {
            server.at(path, block()).await?;
        }
        "Filesystem" => {
            server.at(path, FilesystemObject(block())).await?;
        }
        "Partition" => {
            server.at(path, PartitionObject(block())).await?;
        }
        "PartitionTable" => {
            server.at(path, TableObject(block())).await?;
        }
        "Encrypted" => {
            server.at(path, EncryptedObject(block())).await?;
        }
        _ => {
            server.at(path, SwapObject(block())).await?;
        }
    }
    Ok(())
}

async fn take(server: &ObjectServer, path: &str, interface: &str) -> zbus::Result<()> {
    match interface {
        "Drive" => server.remove::<DriveObject, _>(path).await?,
        "Block" => server.remove::<BlockObject, _>(path).await?,
        "Filesystem" => server.remove::<FilesystemObject, _>(path).await?,
        "Partition" => server.remove::<PartitionObject, _>(path).await?,
        "PartitionTable" => server.remove::<TableObject, _>(path).await?,
        "Encrypted" => server.remove::<EncryptedObject, _>(path).await?,
        _ => server.remove::<SwapObject, _>(path).await?,
    };
    Ok(())
}

/// Tells what can change while an object stays.
async fn tell(server: &ObjectServer, path: &str, interface: &str) -> zbus::Result<()> {
    match interface {
        "Block" => {
            let object = server.interface::<_, BlockObject>(path).await?;
            let (this, emitter) = (object.get().await, object.signal_emitter());
            this.hint_ignore_changed(emitter).await?;
            this.id_usage_changed(emitter).await?;
            this.id_type_changed(emitter).await?;
            this.id_label_changed(emitter).await?;
            this.id_u_u_i_d_changed(emitter).await?;
        }
        "Filesystem" => {
            let object = server.interface::<_, FilesystemObject>(path).await?;
            object
                .get()
                .await
                .mount_points_changed(object.signal_emitter())
                .await?;
        }
        "PartitionTable" => {
            let object = server.interface::<_, TableObject>(path).await?;
            object
                .get()
                .await
                .partitions_changed(object.signal_emitter())
                .await?;
        }
        "Encrypted" => {
            let object = server.interface::<_, EncryptedObject>(path).await?;
            object
                .get()
                .await
                .cleartext_device_changed(object.signal_emitter())
                .await?;
        }
        _ => {}
    }
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! UDisks2 objects of the simulated machine, with the interfaces and properties that a desktop program reads. They
//! follow every change of the [`World`].

mod block;
mod drive;

use self::block::{
    BlockObject, EncryptedObject, FilesystemObject, PartitionObject, SwapObject, TableObject,
};
use self::drive::DriveObject;
use super::world::{Scene, World, block_path, drive_path};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zbus::{Connection, ObjectServer, OwnedObjectPath, interface};

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

/// What a client sees of one object: its interfaces, and the values that can change.
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

/// Serves the objects on a connection of their own, and updates them until the connection closes.
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

/// Signals the changes of an object that stays.
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

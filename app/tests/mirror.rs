// SPDX-License-Identifier: GPL-3.0-or-later
//! The client with a service that sends more signals, and earlier, than the client expects.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tandem_app::client::Client;
use zbus::object_server::SignalEmitter;
use zbus::{OwnedObjectPath, OwnedVariant, Variant, connection, interface};

const BLOCK: &str = "/org/freedesktop/UDisks2/block_devices/sda";
const BLOCK_INTERFACE: &str = "org.freedesktop.UDisks2.Block";
/// More than zbus queues for one stream, and more than the mirror keeps while it waits.
const WORDS: u64 = 6000;

/// An object manager that sends many signals before its first answer.
struct Talkative {
    size: Mutex<u64>,
}

type Interfaces = HashMap<String, HashMap<String, OwnedVariant>>;

fn properties(size: u64) -> HashMap<String, OwnedVariant> {
    let size = Variant::from(size).try_to_owned().unwrap();
    HashMap::from([("Size".to_owned(), size)])
}

#[interface(name = "org.freedesktop.DBus.ObjectManager")]
impl Talkative {
    async fn get_managed_objects(
        &self,
        #[zbus(connection)] bus: &zbus::Connection,
    ) -> HashMap<OwnedObjectPath, Interfaces> {
        let first = *self.size.lock().unwrap() == 0;
        *self.size.lock().unwrap() = if first { WORDS } else { WORDS + 1 };
        for size in 1..=if first { WORDS } else { 0 } {
            let change = (BLOCK_INTERFACE, properties(size), Vec::<String>::new());
            let sent = bus
                .emit_signal(
                    None::<()>,
                    BLOCK,
                    "org.freedesktop.DBus.Properties",
                    "PropertiesChanged",
                    &change,
                )
                .await;
            sent.unwrap();
        }
        let size = *self.size.lock().unwrap();
        let block = HashMap::from([(BLOCK_INTERFACE.to_owned(), properties(size))]);
        HashMap::from([(OwnedObjectPath::try_from(BLOCK).unwrap(), block)])
    }

    #[zbus(signal)]
    async fn interfaces_added(
        emitter: &SignalEmitter<'_>,
        path: OwnedObjectPath,
        interfaces: Interfaces,
    ) -> zbus::Result<()>;
}

#[test]
fn a_service_that_talks_while_it_is_asked_is_heard_to_the_end() {
    let (_bus, address) = tandem_stage::bus::start();
    // SAFETY: this is the only test of this process, and no thread has been started that reads the environment.
    unsafe { std::env::set_var("DBUS_SYSTEM_BUS_ADDRESS", &address) };
    let (told, hears) = channel();
    thread::spawn(move || {
        zbus::block_on(async {
            let service = connection::Builder::address(address.as_str())
                .name("org.freedesktop.UDisks2")
                .serve_at(
                    "/org/freedesktop/UDisks2",
                    Talkative {
                        size: Mutex::new(0),
                    },
                )
                .build()
                .await
                .unwrap();
            let client = Client::connect().await.unwrap();
            client
                .follow_disks(|snapshot| {
                    let size = snapshot.unwrap().blocks.get(BLOCK).map(|block| block.size);
                    told.send(size.unwrap_or_default()).unwrap();
                })
                .await;
            drop(service);
        });
    });
    let mut last = 0;
    // Signals that were not kept are made up for by reading all objects anew: the second answer is the last.
    while last < WORDS + 1 {
        last = hears
            .recv_timeout(Duration::from_secs(60))
            .unwrap_or_else(|_| panic!("nothing was heard after {last}"));
    }
}

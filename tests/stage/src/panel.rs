// SPDX-License-Identifier: GPL-3.0-or-later
//! The part of a desktop's panel that indicators register with.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use zbus::{Connection, interface};

struct Watcher(Sender<String>);

#[interface(name = "org.kde.StatusNotifierWatcher")]
impl Watcher {
    fn register_status_notifier_item(&self, service: &str) {
        // A panel that is going away no longer listens.
        let _ = self.0.send(service.to_owned());
    }

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn registered_status_notifier_items(&self) -> Vec<String> {
        Vec::new()
    }

    #[zbus(property)]
    fn protocol_version(&self) -> i32 {
        0
    }
}

/// Shows a panel on the bus with this address, and tells the bus names of the indicators that come.
///
/// # Errors
/// There is no bus, or it has a panel already.
pub async fn show(address: &str) -> zbus::Result<(Connection, Receiver<String>)> {
    let (told, hears) = channel();
    let connection = zbus::connection::Builder::address(address)
        .name("org.kde.StatusNotifierWatcher")
        .serve_at("/StatusNotifierWatcher", Watcher(told))
        .build()
        .await?;
    Ok((connection, hears))
}

/// Waits until an indicator comes, and returns its bus name.
///
/// # Errors
/// None comes in time, or the bus is gone.
pub async fn wait(panel: &Connection, hears: &Receiver<String>) -> zbus::Result<String> {
    let bus = zbus::fdo::DBusProxy::new(panel).await?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if let Ok(service) = hears.try_recv() {
            return Ok(service);
        }
        // Await an answer besides the sleep: the connection needs this thread.
        bus.get_id().await?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(zbus::Error::Failure("no indicator comes".to_owned()))
}

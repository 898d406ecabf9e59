// SPDX-License-Identifier: GPL-3.0-or-later
//! A simulated machine on a bus of its own.

#![allow(dead_code, reason = "each user needs a part of it")]
#![allow(clippy::expect_used, reason = "a test stops where it cannot go on")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ends a program that was started here.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Folder of the project.
pub fn project() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors()
        .find(|folder| folder.join("Cargo.lock").exists())
        .unwrap_or(own)
        .to_owned()
}

/// A simulated machine on a bus of its own. It goes when this value is dropped.
pub struct Machine {
    /// Address of the bus.
    pub address: String,
    _helper: Running,
    _bus: Running,
}

impl Machine {
    /// Starts bus and service.
    ///
    /// # Panics
    /// If `tandem-helper` is not built, or there is no `dbus-daemon`.
    pub fn start() -> Self {
        let configuration = project().join("helper/tests/private-bus.conf");
        let (bus, address) = bus(&format!("--config-file={}", configuration.display()));
        let helper = built("tandem-helper");
        assert!(
            helper.exists(),
            "{} is missing: cargo build -p tandem-helper",
            helper.display()
        );
        let helper = Command::new(helper)
            .arg("--simulated")
            .env("DBUS_SYSTEM_BUS_ADDRESS", &address)
            .spawn()
            .expect("the service starts");
        zbus::block_on(service(&address));
        Self {
            address,
            _helper: Running(helper),
            _bus: bus,
        }
    }
}

/// Waits until the service is on the bus; nobody could start it there.
async fn service(address: &str) {
    let connection = zbus::connection::Builder::address(address)
        .build()
        .await
        .expect("the bus answers");
    let bus = zbus::fdo::DBusProxy::new(&connection)
        .await
        .expect("the bus answers");
    let start = Instant::now();
    for name in [tandem_api::BUS_NAME, "org.freedesktop.UDisks2"] {
        loop {
            let known = bus.name_has_owner(name.try_into().expect("a name")).await;
            if known.is_ok_and(|known| known) {
                break;
            }
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{name} does not appear"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A bus of its own, and its address.
///
/// # Panics
/// If there is no `dbus-daemon`.
pub fn bus(configuration: &str) -> (Running, String) {
    let mut bus = Command::new("dbus-daemon")
        .args([configuration, "--print-address", "--nofork"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("dbus-daemon is installed");
    let mut address = String::new();
    let output = bus.stdout.take().expect("its output was asked for");
    BufReader::new(output)
        .read_line(&mut address)
        .expect("it prints its address");
    (Running(bus), address.trim().to_owned())
}

/// Where cargo puts a program of this workspace: beside the folder of this one.
fn built(program: &str) -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    own.ancestors()
        .nth(2)
        .expect("it is in target/<profile>/<folder>")
        .join(program)
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A simulated machine on a bus of its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::time::{Duration, Instant};

use crate::bus::{self, Running};

/// Folder of the project.
pub fn project() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors()
        .find(|folder| folder.join("Cargo.lock").exists())
        .unwrap_or(own)
        .to_owned()
}

/// A simulated machine on a bus of its own. It ends when this value is dropped.
pub struct Machine {
    /// Address of the bus.
    pub address: String,
    helper: Running,
    _bus: Running,
}

impl Machine {
    /// Starts bus and service.
    ///
    /// # Panics
    /// If `tandem-simulated` does not build, or there is no `dbus-daemon`.
    pub fn start() -> Self {
        Self::on(bus::start())
    }

    /// Starts the service on this bus.
    ///
    /// # Panics
    /// If `tandem-simulated` does not build.
    pub fn on((bus, address): (Running, String)) -> Self {
        let helper = start_service(&address);
        Self {
            address,
            helper,
            _bus: bus,
        }
    }

    /// Kills the service, and UDisks2 with it.
    pub fn kill_service(&mut self) {
        let _ = self.helper.0.kill();
        let _ = self.helper.0.wait();
    }

    /// Starts the service again, with a machine as it was in the beginning.
    ///
    /// # Panics
    /// As [`Machine::on`].
    pub fn start_again(&mut self) {
        self.helper = start_service(&self.address);
    }

    /// Number of the service's process.
    #[must_use]
    pub fn service_process(&self) -> u32 {
        self.helper.0.id()
    }
}

/// The service on a simulated machine, which cargo brings up to date once for this program.
fn service() -> PathBuf {
    static BUILT: Once = Once::new();
    let program = built("tandem-simulated");
    BUILT.call_once(|| {
        let profile = program.parent().and_then(Path::file_name);
        let profile = match profile.and_then(OsStr::to_str) {
            Some("debug") | None => "dev",
            Some(other) => other,
        };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let made = Command::new(cargo)
            .args(["build", "--quiet", "--package=tandem-simulated"])
            .args(["--profile", profile])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo starts");
        assert!(
            made.success(),
            "the service on a simulated machine does not build"
        );
    });
    program
}

fn start_service(address: &str) -> Running {
    let helper = Command::new(service())
        .env("DBUS_SYSTEM_BUS_ADDRESS", address)
        .spawn()
        .expect("the service starts");
    zbus::block_on(wait_for_service(address));
    Running(helper)
}

/// Waits until the service owns its names. This bus starts no service by itself.
async fn wait_for_service(address: &str) {
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

/// The path of another program of this workspace. This test is in `target/<profile>/deps`, that program in
/// `target/<profile>`.
pub fn built(program: &str) -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    own.ancestors()
        .nth(2)
        .expect("this test is in target/<profile>/<folder>")
        .join(program)
}

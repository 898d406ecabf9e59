// SPDX-License-Identifier: GPL-3.0-or-later
//! What the tests of the whole window and the pictures of it share: a bus of their own with the simulated machine on
//! it, a screen, and a hand that finds and presses what a person would.

#![allow(dead_code, reason = "each user needs a part of it")]
#![allow(clippy::expect_used, reason = "a test stops where it cannot go on")]

pub mod hand;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Ends a program that was started here.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Folder of the project.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
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
        let mut bus = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", configuration.display()))
            .args(["--print-address", "--nofork"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("dbus-daemon is installed");
        let mut address = String::new();
        let output = bus.stdout.take().expect("its output was asked for");
        BufReader::new(output)
            .read_line(&mut address)
            .expect("it prints its address");
        let bus = Running(bus);
        let address = address.trim().to_owned();
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
        Self {
            address,
            _helper: Running(helper),
            _bus: bus,
        }
    }
}

/// Where cargo puts a program of this workspace: beside the folder of this one.
fn built(program: &str) -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    own.ancestors()
        .nth(2)
        .expect("it is in target/<profile>/<folder>")
        .join(program)
}

/// A screen without a monitor, unless there is one already.
pub fn screen() -> Option<(Running, Option<Running>, String)> {
    if std::env::var_os("DISPLAY").is_some() || std::env::var_os("WAYLAND_DISPLAY").is_some() {
        return None;
    }
    let mut server = Command::new("Xvfb")
        .args([
            "-displayfd",
            "1",
            "-screen",
            "0",
            "1400x1800x24",
            "-nolisten",
            "tcp",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("Xvfb is installed");
    let mut number = String::new();
    let output = server.stdout.take().expect("its output was asked for");
    BufReader::new(output)
        .read_line(&mut number)
        .expect("it prints its number");
    let display = format!(":{}", number.trim());
    // Without a window manager no window has the focus, and all are drawn as if they lay behind others.
    let manager = Command::new("openbox")
        .env("DISPLAY", &display)
        .stderr(Stdio::null())
        .spawn();
    Some((Running(server), manager.map(Running).ok(), display))
}

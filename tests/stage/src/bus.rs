// SPDX-License-Identifier: GPL-3.0-or-later
//! A private bus for a test. Every client may own every name and send every message.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Ends a program that was started here.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a bus, and returns its address.
///
/// # Panics
/// If there is no `dbus-daemon`.
pub fn start() -> (Running, String) {
    start_as("tests/stage/private-bus.conf")
}

/// Starts a bus with this configuration, a path in the project, and returns its address.
///
/// # Panics
/// If there is no `dbus-daemon`, or no such file.
pub fn start_as(configuration: &str) -> (Running, String) {
    let configuration = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join(configuration))
        .find(|file| file.exists())
        .expect("the package is in the project");
    let mut daemon = Command::new("dbus-daemon")
        .args(["--nofork", "--print-address", "--config-file"])
        .arg(configuration)
        .stdout(Stdio::piped())
        // A complaint of the daemon must not fall between the words of the test program's own lines.
        .stderr(Stdio::null())
        .spawn()
        .expect("dbus-daemon is installed");
    let output = daemon.stdout.take().expect("its output was asked for");
    let mut address = String::new();
    BufReader::new(output)
        .read_line(&mut address)
        .expect("it prints its address");
    (Running(daemon), address.trim().to_owned())
}

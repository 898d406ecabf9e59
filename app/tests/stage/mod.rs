// SPDX-License-Identifier: GPL-3.0-or-later
//! Parts that the tests and the pictures of the whole window share: a bus of their own with the simulated machine on
//! it, a screen, and functions that find and press widgets as a person does.

#![allow(dead_code, reason = "each user needs a part of it")]
#![allow(clippy::expect_used, reason = "a test stops where it cannot go on")]

pub mod hand;
pub mod opened;
pub mod settings;
pub mod wizard;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use tandem_stage::bus::Running;

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
    // Without a window manager no window has the focus, and all windows are drawn as if they were in the background.
    let manager = Command::new("openbox")
        .env("DISPLAY", &display)
        .stderr(Stdio::null())
        .spawn();
    Some((Running(server), manager.map(Running).ok(), display))
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Plain English for everything that the service says. Every kind has its sentence: the compiler asks for it when the
//! contract grows.

mod failure;
mod health;
mod plan;
mod sample;
mod state;

pub use failure::failure;
pub use health::{health, written};
pub use plan::{WRITEBACK_WARNINGS, risk, step, warning};
pub use sample::{counters, dirty, duration};
pub use state::{GRUB_WOULD_FAIL, sharing, state};

use tandem_api::{DeviceText, DirtyLimit, FileUser, SizeText};

/// Bytes as people say them.
pub fn bytes(bytes: u64) -> String {
    SizeText::new(bytes).to_string()
}

/// How much data may be on the SSD only.
pub fn dirty_limit(limit: &DirtyLimit) -> String {
    let seconds = match limit.seconds {
        1 => "a second".to_owned(),
        seconds => format!("{seconds} seconds"),
    };
    let time = format!("what the disk can write in {seconds}");
    let amount = match limit.bytes {
        0 => format!("Only {time} may be on the SSD only"),
        size => format!(
            "Only {time}, and {} at most, may be on the SSD only",
            bytes(size)
        ),
    };
    match limit.rest {
        0 => amount,
        minutes => format!("{amount}; for {minutes} minutes at most while the disk rests"),
    }
}

/// A device: model, size and kernel name.
pub fn device(device: &DeviceText) -> String {
    let model = if device.model.is_empty() {
        "device"
    } else {
        &device.model
    };
    match device.name.as_str() {
        "" if device.model.is_empty() => device.object.to_string(),
        name => format!("{model} ({}, {name})", bytes(device.size)),
    }
}

/// What is on a device.
pub fn content(device: &DeviceText) -> String {
    match (device.content.as_str(), device.label.as_str()) {
        ("", _) => "unknown or encrypted content, or none".to_owned(),
        ("partition-table", _) => "partitions".to_owned(),
        (content, "") => content.to_owned(),
        (content, label) => format!("{content} “{label}”"),
    }
}

fn users(users: &[FileUser]) -> String {
    let one = |u: &FileUser| match u.pid {
        0 if u.command.is_empty() => "a program of another user".to_owned(),
        0 => format!("{} ({})", u.command, u.user),
        pid => format!("{} (process {pid}, {})", u.command, u.user),
    };
    users.iter().map(one).collect::<Vec<_>>().join(", ")
}

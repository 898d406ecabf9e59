// SPDX-License-Identifier: GPL-3.0-or-later
//! Remembers, over a restart of the computer, that this user had the firmware ask about the key of the kernel module.
//!
//! Only an empty file of the user: whether the key is enrolled is told by the service.

use std::path::PathBuf;
use std::{fs, io};

use gtk::glib;

fn file() -> PathBuf {
    glib::user_data_dir().join("tandem/key-asked")
}

/// Whether the firmware was asked, and the answer was not seen yet.
#[must_use]
pub fn is_asked() -> bool {
    file().exists()
}

/// Remembers that the firmware asks at the next start.
pub fn remember() {
    let file = file();
    let written = file
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&file, ""));
    if let Err(error) = written {
        // After the restart the person has to press "Set Up a Cache" again.
        tracing::warn!("{}: {error}", file.display());
    }
}

/// The answer was seen.
pub fn forget() {
    match fs::remove_file(file()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => tracing::warn!("{error}"),
        _ => {}
    }
}

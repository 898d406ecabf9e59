// SPDX-License-Identifier: GPL-3.0-or-later
//! A note for the time after a restart: this user has begun to enroll the key of the kernel module.
//!
//! The note is an empty file in the user's data folder. The service tells whether the key is enrolled.

use std::path::PathBuf;
use std::{fs, io};

use gtk::glib;

fn file() -> PathBuf {
    glib::user_data_dir().join("tandem/key-asked")
}

/// Whether the note is there: an enrollment has begun, and the app has not seen its result yet.
#[must_use]
pub fn is_asked() -> bool {
    file().exists()
}

/// Makes the note. At its next start, the firmware asks the user about the key.
pub fn remember() {
    let file = file();
    let written = file
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&file, ""));
    if let Err(error) = written {
        // Without the note, the user has to press "Set Up a Cache" again after the restart.
        tracing::warn!("{}: {error}", file.display());
    }
}

/// Removes the note. The caller has seen the result of the enrollment.
pub fn forget() {
    match fs::remove_file(file()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => tracing::warn!("{error}"),
        _ => {}
    }
}

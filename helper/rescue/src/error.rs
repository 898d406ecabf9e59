// SPDX-License-Identifier: GPL-3.0-or-later
//! Why a rescue does not go on. Each text says what happened, what is the state of the data, and what to do next.

use serde::Serialize;

/// Whether anything was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing was changed: the request was refused, or a device cannot be read.
    Refused,
    /// Some data may have been written to the disk. All data is still on the SSD, or on the disk.
    Stopped,
}

/// Why a rescue does not go on.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    /// Whether anything was changed.
    pub kind: Kind,
    text: String,
}

impl Error {
    /// A refusal; `text` is whole sentences.
    pub fn refused(text: impl Into<String>) -> Self {
        Self {
            kind: Kind::Refused,
            text: text.into(),
        }
    }

    /// An end in the middle of the work; `text` is whole sentences.
    pub fn stopped(text: impl Into<String>) -> Self {
        Self {
            kind: Kind::Stopped,
            text: text.into(),
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Our mappings, as the kernel shows them at one moment.

use tandem_api::{CacheState, Mode, Sample};

/// One of our mappings as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveMapping {
    /// 32 hex digits.
    pub uuid: String,
    /// The mapping uses its SSD; otherwise it only passes through.
    pub attached: bool,
    /// Number (`major:minor`) of the disk that it leads to.
    pub origin: String,
    /// Number of its SSD; empty if it only passes through.
    pub ssd: String,
    /// Length of the mapping.
    pub sectors: u64,
}

/// What the kernel says of an attached mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// `active`, `bypass`, `suspended`.
    pub state: String,
    /// A word, or empty.
    pub reason: String,
    /// How writes are treated.
    pub mode: Mode,
    /// The counters.
    pub sample: Sample,
}

impl Status {
    /// The state. A state that only a newer module knows counts as a bypass.
    pub fn known_state(&self) -> CacheState {
        self.state.parse().unwrap_or_else(|e| {
            tracing::warn!("state of the module: {e}");
            CacheState::Bypass
        })
    }

    /// Whether the counters are valid. If a table came into force and did not start, the module has not read from the
    /// SSD which data is there only.
    pub fn counters_valid(&self) -> bool {
        let valid = [CacheState::Active, CacheState::Bypass];
        valid.iter().any(|state| self.state == state.as_str())
    }
}

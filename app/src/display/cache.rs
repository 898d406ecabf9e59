// SPDX-License-Identifier: GPL-3.0-or-later
//! What a cache is doing, in words.

use gettextrs::gettext;
use tandem_api::{CacheState, Mode};

/// How much a state wants to be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// All is well.
    Good,
    /// Something lasts, nothing is wrong.
    Calm,
    /// The person should know: the disk works, the cache does not.
    Warning,
}

impl Severity {
    /// Style class of libadwaita.
    #[must_use]
    pub fn css_class(self) -> &'static str {
        match self {
            Self::Good => "success",
            Self::Calm => "dim-label",
            Self::Warning => "warning",
        }
    }
}

/// The words for a cache's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheWords {
    /// One or two words.
    pub title: String,
    /// A sentence or two: what it means for the data, and what to do. Empty where all is well.
    pub banner: String,
    /// Name of a symbolic icon.
    pub icon: &'static str,
    /// How much it wants to be noticed.
    pub severity: Severity,
}

/// Words for a state and its reason.
#[must_use]
pub fn cache_words(state: CacheState, reason: &str) -> CacheWords {
    let (title, banner, icon, severity) = match (state, reason) {
        (CacheState::Active, _) => (
            gettext("Working"),
            String::new(),
            "tandem-active-symbolic",
            Severity::Good,
        ),
        (CacheState::Suspended, _) => (
            gettext("Pausing for a Moment"),
            String::new(),
            "tandem-paused-symbolic",
            Severity::Calm,
        ),
        (CacheState::Bypass, "ssd-error") => (
            gettext("SSD Failed"),
            gettext(
                "The SSD failed. Your data is safe on the hard disk, which goes on working at its own speed. Choose “Flush and Remove” to take the SSD out of use.",
            ),
            "tandem-bypass-symbolic",
            Severity::Warning,
        ),
        (CacheState::Bypass, "disk-error") => (
            gettext("Hard Disk Error"),
            gettext(
                "The hard disk reported an error, so nothing is copied to the SSD for now. Check the health of the disk, and make sure that your backup is up to date.",
            ),
            "tandem-bypass-symbolic",
            Severity::Warning,
        ),
        (CacheState::Bypass, _) => (
            gettext("Not in Use"),
            gettext(
                "All requests go straight to the hard disk. Your data is safe, only the speed of the SSD is missing.",
            ),
            "tandem-bypass-symbolic",
            Severity::Warning,
        ),
        (CacheState::Stopped, "ssd-missing") => (
            gettext("SSD Missing"),
            gettext(
                "The SSD of this cache is not connected. Your data is safe on the hard disk. Connect the SSD again to use the cache.",
            ),
            "tandem-bypass-symbolic",
            Severity::Warning,
        ),
        (CacheState::Stopped, "disk-missing") => (
            gettext("Hard Disk Missing"),
            gettext(
                "The hard disk of this cache is not connected. Connect it again; the cache then comes back by itself.",
            ),
            "tandem-bypass-symbolic",
            Severity::Warning,
        ),
        (CacheState::Stopped, "module") => (
            gettext("Not Started"),
            gettext(
                "The kernel part of Tandem is not ready for the running kernel. Your data is safe on the hard disk, only the speed of the SSD is missing.",
            ),
            "tandem-bypass-symbolic",
            Severity::Warning,
        ),
        (CacheState::Stopped, _) => (
            gettext("Not Started"),
            gettext("This cache is not running. Your data is safe on the hard disk."),
            "tandem-bypass-symbolic",
            Severity::Warning,
        ),
        (CacheState::Detached, _) => (
            gettext("Removed"),
            gettext(
                "The cache is removed and the SSD is free. The hard disk works by itself; the last traces go at the next start of the computer.",
            ),
            "tandem-paused-symbolic",
            Severity::Calm,
        ),
    };
    CacheWords {
        title,
        banner,
        icon,
        severity,
    }
}

/// Name of a mode.
#[must_use]
pub fn mode_name(mode: Mode) -> String {
    match mode {
        Mode::Writethrough => gettext("Keep What You Read and Write"),
        Mode::Writearound => gettext("Keep Only What You Read"),
        Mode::Writeback => gettext("Save to the SSD First"),
    }
}

/// The mode to take by those who have no reason for another.
pub const fn recommended() -> Mode {
    Mode::Writethrough
}

/// What a mode does and for whom it is.
#[must_use]
pub fn mode_description(mode: Mode) -> String {
    match mode {
        Mode::Writethrough => gettext(
            "What you save goes to the hard disk and a copy to the SSD, so that it is fast when you open it again. Best for most people. (Write-through)",
        ),
        Mode::Writearound => gettext(
            "What you save goes to the hard disk only. Wears the SSD less; good for archives and downloads. (Write-around)",
        ),
        Mode::Writeback => gettext(
            "What you save goes to the SSD and reaches the hard disk later. Saving is fastest, but if the SSD dies in between, the file system on the hard disk may be damaged beyond repair. (Write-back)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_keeps_the_cache_from_working_says_where_the_data_is() {
        for state in CacheState::ALL.iter().copied() {
            for reason in [
                "",
                "-",
                "ssd-error",
                "ssd-missing",
                "module",
                "something-new",
            ] {
                let words = cache_words(state, reason);
                assert!(!words.title.is_empty());
                assert_eq!(
                    words.severity == Severity::Warning,
                    words.banner.contains("safe"),
                    "{state} {reason}"
                );
            }
        }
    }
}

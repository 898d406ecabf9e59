// SPDX-License-Identifier: GPL-3.0-or-later
//! Releases of Debian, and the systems that the virtual machine can have.

use anyhow::{Result, bail};

/// A release of Debian with its backports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Debian 12. Packages that the machine has count as installed.
    Bookworm,
    /// Debian 13. Nothing counts as installed.
    Trixie,
}

impl Family {
    /// The family of a suite.
    pub fn of(suite: &str) -> Result<Self> {
        match suite.split('-').next() {
            Some("bookworm") => Ok(Self::Bookworm),
            Some("trixie") => Ok(Self::Trixie),
            _ => bail!("no apt family for the suite {suite}"),
        }
    }

    /// Debian's name of the release, which is also that of its first suite.
    pub fn codename(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }
}

/// A release of Debian and a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Machine {
    /// Debian 12 with its own kernel.
    #[default]
    Debian12,
    /// Debian 13 with the kernel of its release, which Debian also offers in 12's backports.
    Debian13,
    /// Debian 13 with the newest kernel of its backports.
    Debian13Backports,
}

impl Machine {
    /// The release of everything but the kernel.
    pub fn release(self) -> Family {
        match self {
            Self::Debian12 => Family::Bookworm,
            Self::Debian13 | Self::Debian13Backports => Family::Trixie,
        }
    }
}

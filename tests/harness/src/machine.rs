// SPDX-License-Identifier: GPL-3.0-or-later
//! The systems that the virtual machine can have.

use crate::apt::Family;

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

// SPDX-License-Identifier: GPL-3.0-or-later
//! Failures of ioctls, and what they mean for a cache.

use crate::model::action::Pair;
use devicemapper::DmError;
use devicemapper::errors::Error as CoreError;
use rustix::io::Errno;
use std::fmt::Display;
use tandem_api::{Failure, Kind};

/// An ioctl that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct DmFailure {
    pub(super) what: &'static str,
    /// The error number of the kernel, if the kernel refused the ioctl.
    pub errno: Option<Errno>,
    pub(super) error: String,
}

pub(super) fn failed(what: &'static str) -> impl Fn(DmError) -> DmFailure {
    move |e| {
        let errno = match &e {
            DmError::Core(CoreError::Ioctl(_, _, _, errno)) => {
                Some(Errno::from_raw_os_error(**errno as i32))
            }
            _ => None,
        };
        let error = errno.map_or_else(|| e.to_string(), |errno| errno.to_string());
        DmFailure { what, errno, error }
    }
}

pub(super) fn other(what: &'static str, error: impl Display) -> DmFailure {
    DmFailure {
        what,
        errno: None,
        error: error.to_string(),
    }
}

/// The failure that a refusal of the target means (kmod/TARGET.rst lists all refusals).
pub fn explain(failure: &DmFailure, pair: &Pair) -> Failure {
    let kind = match failure.errno {
        Some(Errno::NOMEM) => Kind::OutOfMemory,
        Some(Errno::NOSPC) => Kind::SsdTooSmall,
        Some(Errno::EXIST) => Kind::SsdHoldsData,
        Some(Errno::NXIO | Errno::STALE) => Kind::WrongDisk,
        Some(Errno::ILSEQ) => Kind::SsdDamaged,
        Some(Errno::MEDIUMTYPE) => Kind::SsdBlocks,
        _ => return Failure::new(Kind::StepFailed).detail(failure),
    };
    let failure = Failure::new(kind).device(&pair.ssd.text).detail(failure);
    match kind {
        Kind::SsdTooSmall => {
            failure.sizes(crate::decide::plan::MINIMUM_SSD_BYTES, pair.ssd.text.size)
        }
        _ => failure,
    }
}

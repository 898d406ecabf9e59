// SPDX-License-Identifier: GPL-3.0-or-later
//! The uses that the service allows for the devices of the machine.

use crate::{DeviceText, Failure, Kind};
use serde::{Deserialize, Serialize};

/// A reason against a use of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct Objection {
    /// The refusal that a plan would get.
    pub kind: Kind,
    /// [`Failure::name`] of that refusal.
    pub name: String,
    /// [`Failure::mount_points`] of that refusal.
    pub mount_points: Vec<String>,
}

impl Objection {
    /// Whether [`crate::ManagerProxy::change_names`] or a change of a file by hand removes the reason. A plan tells which
    /// change that is.
    #[must_use]
    pub fn is_a_name(&self) -> bool {
        matches!(
            self.kind,
            Kind::FstabNamesDevice
                | Kind::CrypttabNamesDevice
                | Kind::GrubNamesDevice
                | Kind::BootNamesDevice
                | Kind::UnitNamesDevice
        )
    }
}

impl From<Failure> for Objection {
    fn from(failure: Failure) -> Self {
        Self {
            kind: failure.kind,
            name: failure.name,
            mount_points: failure.mount_points,
        }
    }
}

/// A device, and the first reason against each use of it; no reason: the use is possible. The service does not open a
/// device for this, so a plan may still find a program that has the device open, and content that it does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct JudgedDevice {
    /// The device.
    pub device: DeviceText,
    /// Against a cache of this disk now: none or one.
    pub against_disk: Vec<Objection>,
    /// Against a cache of this disk from the next start on: none or one.
    pub against_disk_later: Vec<Objection>,
    /// Against this SSD as a cache, with all that is on it erased: none or one.
    pub against_ssd: Vec<Objection>,
}

impl JudgedDevice {
    /// Why the device cannot be the disk of a cache, neither now nor from the next start on, and no change of a name
    /// helps.
    #[must_use]
    pub fn disk_obstacle(&self) -> Option<&Objection> {
        let firm = |against: &[Objection]| against.iter().any(|o| !o.is_a_name());
        let closed = firm(&self.against_disk) && firm(&self.against_disk_later);
        self.against_disk.first().filter(|_| closed)
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The block devices, before anything is changed on them.

use crate::model::facts::{Device, Facts};
use crate::model::other_format::Format;
use async_trait::async_trait;
use tandem_api::{Failure, FileUser};

/// What is read of the devices, for a plan and for what is shown. No method writes to a device.
#[async_trait]
pub trait Disks: Send + Sync + 'static {
    /// All block devices as they are now.
    async fn facts(&self) -> Result<Facts, Failure>;

    /// Whether only zeroes are found on a device. For a device without a known signature.
    async fn blank(&self, device: &Device) -> Result<bool, Failure>;

    /// Whether the superblock of a cache of another system is on a device. For a device without a known signature.
    async fn carries(&self, _device: &Device, _format: Format) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Whether a program has a device open exclusively that is neither mounted nor held by a volume.
    async fn claimed(&self, device: &Device) -> Result<bool, Failure>;

    /// The share of its life that the drive of a device has used, in percent; `None` if the drive does not tell. For a
    /// device with a known [`Device::health`]. An error: the drive cannot be asked now.
    async fn used_percent(&self, _device: &Device) -> Result<Option<i32>, Failure> {
        Ok(None)
    }

    /// The programs that keep the file system of this device busy.
    async fn users(&self, device: &Device) -> Vec<FileUser>;
}

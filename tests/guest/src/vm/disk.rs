// SPDX-License-Identifier: GPL-3.0-or-later
//! A disk of the virtual machine, and what the disk is plugged into.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use super::Vm;
use crate::power::Supply;

/// What a disk is plugged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// A SATA port of the mainboard.
    Sata,
    /// A slot for an NVMe drive.
    Nvme,
    /// A box with a USB plug. The box shows a vendor, a model, a serial number and a WWN of its own.
    UsbBox,
}

impl Port {
    /// QEMU's arguments for a disk on this port. The device's name for QEMU is the disk's serial number.
    pub(super) fn arguments(self, disk: &Disk) -> Vec<String> {
        let Disk { serial, .. } = disk;
        let device = match self {
            Self::Sata => format!(
                "ide-hd,bus=ide.0,model={} {},serial={serial},wwn={},rotation_rate={}",
                disk.vendor, disk.product, disk.wwn, disk.rotation_rate
            ),
            Self::Nvme => format!("nvme,serial={serial}"),
            Self::UsbBox => format!(
                "scsi-hd,bus=box.0,vendor=Boxy,product=Box,serial={BOX_SERIAL},device_id={BOX_SERIAL},wwn={}",
                !disk.wwn
            ),
        };
        let file = disk.file.display();
        let mut arguments = vec![
            "-drive".to_owned(),
            format!("if=none,id=drive-{serial},file={file},format=raw,cache=unsafe,discard=unmap"),
        ];
        if self == Self::UsbBox {
            let adapter = format!("usb-uas,id=box,bus=usb.0,serial={BOX_SERIAL}");
            arguments
                .extend(["-device", "qemu-xhci,id=usb", "-device", &adapter].map(str::to_owned));
        }
        arguments.push("-device".to_owned());
        arguments.push(format!("{device},id={serial},drive=drive-{serial}"));
        arguments
    }
}

/// Serial number that the USB box shows.
pub const BOX_SERIAL: &str = "BOX0001";

/// A disk, described by the data with which it identifies itself.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Raw contents.
    pub file: PathBuf,
    /// At most 8 characters.
    pub vendor: &'static str,
    /// Model, at most 16 characters.
    pub product: &'static str,
    /// Serial number, also the device's name for QEMU.
    pub serial: &'static str,
    /// World wide name.
    pub wwn: u64,
    /// Turns per minute; 1 says that nothing turns.
    pub rotation_rate: u16,
    /// Whether several machines may use the file at a time.
    pub read_only: bool,
}

impl Vm {
    /// Plugs in a SCSI disk whose content is behind a supply, by the disk's serial number.
    pub fn plug_supplied(&mut self, disk: &Disk, supply: &Supply) -> Result<()> {
        let node = format!("node-{}", disk.serial);
        self.change_disks(
            "blockdev-add",
            json!({ "node-name": node, "driver": "raw", "cache": { "direct": false, "no-flush": false },
                "file": { "driver": "nbd", "export": disk.serial, "cache": { "direct": false, "no-flush": false },
                    "server": { "type": "unix", "path": supply.socket() } } }),
        )?;
        self.plug_node(disk, &node)
    }
}

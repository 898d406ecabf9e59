// SPDX-License-Identifier: GPL-3.0-or-later
//! The firmware of a machine that starts by EFI, as computers do today. It keeps variables, such as the keys that are to
//! be trusted.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::guest_kernel::Kernel;
use tandem_harness::cx::Cx;
use tandem_harness::fetch;

/// Where Debian's package has the firmware, and its variables of a new machine.
const FIRMWARE: [&str; 2] = [
    "usr/share/OVMF/OVMF_CODE_4M.fd",
    "usr/share/OVMF/OVMF_VARS_4M.fd",
];

/// The firmware, and the kernel that it starts.
pub struct Efi {
    firmware: PathBuf,
    /// The variables, which the machine writes.
    variables: PathBuf,
    /// The kernel as Debian packs it: the firmware does not start [`Kernel::vmlinux`].
    pub(super) kernel: PathBuf,
}

impl Efi {
    /// A new machine's firmware, which keeps its variables in `dir`.
    pub fn new(cx: &Cx, kernel: &Kernel, dir: &Path) -> Result<Self> {
        let unpacked = fetch::unpacked(cx, "ovmf", &[fetch::own(cx, "ovmf")?])?;
        let [firmware, new] = FIRMWARE.map(|file| unpacked.join(file));
        let variables = dir.join("variables");
        fs::copy(new, &variables)?;
        let name = format!("boot/vmlinuz-{}", kernel.release);
        Ok(Self {
            firmware,
            variables,
            kernel: kernel.modules.join(name),
        })
    }

    /// QEMU's arguments.
    pub(super) fn arguments(&self) -> [String; 4] {
        let flash = |unit: u8, words: &str, file: &Path| {
            let file = file.display();
            format!("if=pflash,format=raw,unit={unit}{words},file={file}")
        };
        [
            "-drive".to_owned(),
            flash(0, ",readonly=on", &self.firmware),
            "-drive".to_owned(),
            flash(1, "", &self.variables),
        ]
    }
}

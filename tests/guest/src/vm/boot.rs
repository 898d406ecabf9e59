// SPDX-License-Identifier: GPL-3.0-or-later
//! What loads the machine's kernel, and how the kernel finds its root file system.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Disk, Memory, Origin, Parts, Port, Screen, Vm};
use tandem_harness::cx::Cx;

/// The words of each kernel's command line.
pub const WORDS: &str = "console=ttyS0 quiet mitigations=off audit=0 systemd.show_status=no panic=1 sysrq_always_enabled";

/// What loads the kernel of a machine that has no root disk of QEMU's own.
pub enum Boot {
    /// QEMU.
    Direct {
        /// The initial file system.
        initrd: PathBuf,
        /// What the kernel's command line says of the root file system, such as `root=LABEL=guest ro`.
        root: String,
    },
    /// The BIOS, by the boot loader on the first disk.
    Bios,
}

impl Vm {
    /// Powers on a machine that starts as a person's computer does: from a disk with a partition table, which is to be
    /// plugged in right after this call, by an initial file system that the machine made itself.
    pub fn power_on_by(cx: &Cx, parts: &Parts, dir: &Path, boot: &Boot) -> Result<Self> {
        Self::power_on_sata(cx, parts, dir, boot, &[])
    }

    /// As [`Self::power_on_by`], with disks that are on SATA ports from the beginning, where the BIOS finds the first one.
    pub fn power_on_sata(
        cx: &Cx,
        parts: &Parts,
        dir: &Path,
        boot: &Boot,
        disks: &[&Disk],
    ) -> Result<Self> {
        let origin = Origin {
            dir,
            memory: Memory::Fresh,
            boot: Some(boot),
            supply: None,
        };
        let fixed: Vec<_> = disks.iter().map(|disk| (Port::Sata, *disk)).collect();
        Self::launch(cx, parts, &origin, Screen::Hidden, &fixed)
    }
}

/// QEMU's arguments for the kernel. The machine that is saved once for all layers starts whole, whatever the layer
/// wants that comes to it first.
pub(super) fn arguments(parts: &Parts, origin: &Origin) -> Vec<OsString> {
    let boot = origin.boot;
    let (initrd, root) = match boot {
        None => (&parts.image.initrd, ""),
        Some(Boot::Direct { initrd, root }) => (initrd, root.as_str()),
        Some(Boot::Bios) => return Vec::new(),
    };
    let efi = parts.efi.as_ref();
    let kernel = efi.map_or(&parts.kernel.vmlinux, |efi| &efi.kernel);
    let further = match origin.memory {
        Memory::Fresh => parts.append,
        _ => "",
    };
    let words = format!("{WORDS} {further} {root}");
    vec![
        "-kernel".into(),
        kernel.into(),
        "-initrd".into(),
        initrd.into(),
        "-append".into(),
        words.into(),
    ]
}

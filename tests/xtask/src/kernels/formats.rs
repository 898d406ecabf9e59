// SPDX-License-Identifier: GPL-3.0-or-later
//! Debian's kernels with their file systems and the tools of these.

use std::path::Path;

use anyhow::Result;

use super::{
    FILE_SYSTEM_PROGRAMS, FILE_SYSTEMS, LIMIT, MODULES, PROGRAMS, Target, boot, initramfs,
};
use crate::{suite, uml};
use tandem_guest::guest_kernel;
use tandem_guest::qemu::Qemu;
use tandem_harness::layer::Run;
use tandem_harness::seed;

/// Modules besides those of the functional suite; no kernel has all of them.
const MORE_MODULES: [&str; 15] = [
    "f2fs",
    "exfat",
    "vfat",
    "nls_cp437",
    "nls_ascii",
    "nls_utf8",
    "ntfs3",
    "ntfs",
    "fuse",
    "dm-crypt",
    "xts",
    "ecb",
    "aes_generic",
    "algif_skcipher",
    "crc32c_generic",
];

/// Programs besides those of the functional suite.
const MORE_PROGRAMS: [&str; 11] = [
    "/sbin/mkfs.f2fs",
    "/sbin/fsck.f2fs",
    "/sbin/mkfs.exfat",
    "/sbin/fsck.exfat",
    "/sbin/mkfs.vfat",
    "/sbin/fsck.vfat",
    "/sbin/mkfs.ntfs",
    "/bin/ntfsfix",
    "/bin/ntfs-3g",
    "/sbin/cryptsetup",
    "/sbin/lvm",
];

/// File systems on the cached disk are used without the cache.
pub fn run(run: &mut Run, qemu: &Qemu, target: &Target, accel: [&str; 2]) -> Result<()> {
    let is_there =
        |module: &&str| guest_kernel::with_dependencies(&target.kernel, &[module]).is_ok();
    let more = MORE_MODULES.into_iter().filter(|module| is_there(module));
    let modules: Vec<_> = MODULES
        .iter()
        .copied()
        .chain(FILE_SYSTEMS)
        .chain(more)
        .collect();
    let programs: Vec<_> = PROGRAMS
        .into_iter()
        .chain(FILE_SYSTEM_PROGRAMS)
        .chain(MORE_PROGRAMS)
        .map(|program| (Path::new(program), program))
        .collect();
    let (initramfs, variables) = initramfs(run.cx, target, &modules, &[&target.disk], &programs)?;
    let mut guest = qemu.command();
    guest.args([
        "-accel", accel[0], "-cpu", accel[1], "-machine", "q35", "-smp", "2", "-m", "3072",
    ]);
    boot(
        &mut guest,
        &target.kernel,
        &initramfs,
        &format!(
            "{variables} SUITE_SET=formats SUITE_LIMIT=1800 SUITE_ONLY={} SUITE_SEED={} oops=panic",
            uml::only(run),
            seed::of_this_run()?
        ),
    );
    suite::cases(run, &mut guest, LIMIT)
}

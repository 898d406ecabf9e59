// SPDX-License-Identifier: GPL-3.0-or-later
//! What a Linux distribution does differently: names of packages, commands for a person, places of files.
//!
//! The service, the programs of the start, the window and `tandemctl` read these facts here, so the facts are in the
//! crate that all of them use. Debian is tested. Where there are several answers, each is tried on each machine, by
//! what is there. Where there is one, the answer is that of Debian and of what is made from Debian: nothing asks yet
//! which distribution runs.
//!
//! # Outside of this file
//! * `data/debian/`: the packages, their scripts, what they depend on.
//! * `data/dkms/`: how the module is built, and [`DKMS_FOLDER`].
//! * `data/kernel/zz-tandem`: called when a kernel is installed or removed; names [`headers_package`].
//! * `data/initramfs-tools/`, `data/dracut/90tandem/`: the hooks of [`INITRAMFS_TOOLS`].
//! * `data/tandem-initramfs`: how these tools are called; knows more names than [`initial_file_systems`].
//! * `data/systemd/tandem-initramfs.service`, `data/systemd/tandem-dracut.service`: the units of [`INITRAMFS_TOOLS`].
//! * `data/systemd/tandem-grub.service`: runs [`UPDATE_GRUB`].
//! * `meson.build`: where all these files go.
//! * `words/src/failure/sentences.rs`, `words/src/failure/reasons.rs`, `words/src/state/sentences.rs`,
//!   `app/src/display/module.rs`, `po/`: sentences that name packages, update-grub, initramfs-tools and dracut. They are
//!   translated whole.
//! * `tests/guest/src/deb.rs`, `tests/harness/`: what builds the packages, and the kernels and packages of the tests.

use std::time::Duration;

/// The package with the module's sources, which builds and signs the module for each kernel.
pub const MODULE_PACKAGE: &str = "tandem-dkms";
/// The packages without which no key is made to sign the module with.
pub const SIGNING_PACKAGES: &str = "openssl mokutil";
/// The package that asks the firmware about keys.
pub const ENROLLING_PACKAGE: &str = "mokutil";

/// The package with the headers of a kernel, without which the module cannot be built for that kernel.
#[must_use]
pub fn headers_package(release: &str) -> String {
    format!("linux-headers-{release}")
}

/// The command by which a person installs packages. `packages`: their names with spaces between.
#[must_use]
pub fn install_command(packages: &str) -> String {
    format!("sudo apt install {packages}")
}

/// The command by which a person has the module built and signed again.
#[must_use]
pub fn rebuild_command() -> String {
    format!("sudo apt install --reinstall {MODULE_PACKAGE}")
}

/// The command by which a person has the firmware ask about the key, where no window does it.
#[must_use]
pub fn enroll_command() -> String {
    format!("sudo mokutil --import /{}", SIGNING_KEYS[0])
}

/// Where DKMS keeps the public half of the key that it signs modules with, below `/`: Debian and others, Ubuntu.
pub const SIGNING_KEYS: [&str; 2] = ["var/lib/dkms/mok.pub", "var/lib/shim-signed/mok/MOK.der"];
/// The program that asks the firmware about keys, below `/`.
pub const MOKUTIL: &str = "usr/bin/mokutil";

/// The folder with the images of the kernels, below `/`.
pub const KERNELS: &str = "boot";
/// What the name of a kernel's image begins with; the release follows.
pub const KERNEL_PREFIX: &str = "vmlinuz-";
/// The folder with a folder of modules for each kernel, below `/`.
pub const MODULES: &str = "lib/modules";
/// Where DKMS puts the module, below the folder of modules of a kernel.
pub const DKMS_FOLDER: &str = "updates/dkms";

/// The names of a kernel's initial file system in [`KERNELS`]: by initramfs-tools, by dracut.
#[must_use]
pub fn initial_file_systems(release: &str) -> [String; 2] {
    [
        format!("initrd.img-{release}"),
        format!("initramfs-{release}.img"),
    ]
}

/// A tool that makes initial file systems.
#[derive(Debug)]
pub struct InitramfsTool {
    /// Files that are all there where the tool is in use. dracut may bring an `update-initramfs` of its own, and
    /// `mkinitramfs` may be left over from before dracut was installed.
    pub programs: &'static [&'static str],
    /// The file of ours that the tool runs to put the cache into an initial file system.
    pub hook: &'static str,
    /// The unit that has the tool make the initial file systems of all kernels anew. The sandbox of the service does
    /// not allow that.
    pub unit: &'static str,
    /// How long the service waits for the unit: a minute longer than systemd, so that the answer is the unit's own.
    pub limit: Duration,
}

/// The tools that are known. Where there are several, the first one makes what the machine starts from: the others
/// are there without their packages' hooks for new kernels.
pub const INITRAMFS_TOOLS: [InitramfsTool; 2] = [
    InitramfsTool {
        programs: &["/usr/sbin/mkinitramfs", "/usr/sbin/update-initramfs"],
        hook: "/usr/share/initramfs-tools/hooks/tandem",
        unit: "tandem-initramfs.service",
        limit: Duration::from_secs(11 * 60),
    },
    InitramfsTool {
        programs: &["/usr/bin/dracut"],
        hook: "/usr/lib/dracut/modules.d/90tandem/module-setup.sh",
        unit: "tandem-dracut.service",
        limit: Duration::from_secs(21 * 60),
    },
];
/// Options in crypttab: the initial file system of initramfs-tools, or that of systemd, unlocks the device.
pub const UNLOCKED_EARLY: [&str; 2] = ["initramfs", "x-initrd.attach"];

/// The settings from which GRUB's menu is made.
pub const GRUB_SETTINGS: &str = "/etc/default/grub";
/// Makes GRUB's menu from its settings.
pub const UPDATE_GRUB: &str = "/usr/sbin/update-grub";
/// GRUB's menu.
pub const GRUB_MENU: &str = "/boot/grub/grub.cfg";
/// The folders in which GRUB has its files: in Debian, and where the program is called grub2-install.
pub const GRUB_FOLDERS: [&str; 2] = ["/boot/grub", "/boot/grub2"];
/// The folders that grub-install makes in one of [`GRUB_FOLDERS`] for EFI, each with the signed image, below `/`, that
/// takes the place of its own.
pub const GRUB_EFI: [(&str, &str); 2] = [
    (
        "x86_64-efi",
        "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed",
    ),
    (
        "i386-efi",
        "usr/lib/grub/i386-efi-signed/grubia32.efi.signed",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn data(path: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
        fs::read_to_string(folder.join(path)).unwrap()
    }

    #[test]
    fn the_files_outside_of_rust_say_the_same() {
        for (file, said) in [
            ("debian/control", format!("\nPackage: {MODULE_PACKAGE}\n")),
            ("dkms/dkms.conf", format!("=\"/{DKMS_FOLDER}\"\n")),
            ("kernel/zz-tandem", headers_package("$release")),
            (
                "systemd/tandem-grub.service",
                format!("\nExecStart={UPDATE_GRUB}\n"),
            ),
        ] {
            assert!(data(file).contains(&said), "{file}: {said}");
        }
    }

    #[test]
    fn the_unit_of_a_tool_runs_the_tool_and_its_hook_is_a_file_of_ours() {
        for tool in INITRAMFS_TOOLS {
            let hook = ["/usr/share/", "/usr/lib/"]
                .into_iter()
                .find_map(|place| tool.hook.strip_prefix(place));
            let hook = hook.unwrap().replace("/modules.d", "");
            assert!(!data(&hook).is_empty());
            let unit = data(&format!("systemd/{}", tool.unit));
            let program = Path::new(tool.programs[0]).file_name().unwrap();
            let runs = format!(
                "\nExecStart=/usr/libexec/tandem-initramfs {}\n",
                program.display()
            );
            assert!(unit.contains(&runs), "{}", tool.unit);
        }
    }
}

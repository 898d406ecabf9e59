// SPDX-License-Identifier: GPL-3.0-or-later
//! What makes the initial file systems of a machine.

/// A tool of Debian that makes initial file systems.
pub(super) struct Generator {
    /// Debian package of the generator, and those that make GRUB's menu and show a picture of the start.
    pub(super) packages: &'static str,
    /// Script that prepares the machine: an initial file system with what this machine's disks need, and fstab.
    pub(super) prepare: &'static str,
    /// The command that makes the initial file systems of all kernels anew.
    pub(super) update: &'static str,
    /// Script that lists the files in the running kernel's initial file system.
    pub(super) list: &'static str,
    /// Script that fails if the running kernel's initial file system may write before it has looked for the image of a
    /// hibernated machine.
    pub(super) order: &'static str,
    /// How many of the tests run without `--all`.
    pub(super) ordinary: usize,
}

pub(super) const INITRAMFS_TOOLS: Generator = Generator {
    packages: "initramfs-tools,grub-pc,cryptsetup-initramfs,plymouth",
    prepare: include_str!("../../../guest/machine/initramfs.sh"),
    update: "update-initramfs -u -k all",
    list: "lsinitramfs /boot/initrd.img-$(uname -r)",
    order: r#"
unmkinitramfs "/boot/initrd.img-$(uname -r)" /run/unpacked
scripts=$(find /run/unpacked -path '*/scripts/*' -name tandem)
order=$(cat "${scripts%/tandem}/ORDER")
rm -rf /run/unpacked
echo "$scripts: $order"
case $order in */local-premount/resume*/local-premount/tandem*) ;; *) exit 1 ;; esac"#,
    ordinary: 7,
};

pub(super) const DRACUT: Generator = Generator {
    packages: "dracut,grub2-common,plymouth",
    prepare: include_str!("../../../guest/machine/dracut.sh"),
    update: "dracut --regenerate-all --force",
    list: "lsinitrd /boot/initrd.img-$(uname -r)",
    order: r#"
image=/boot/initrd.img-$(uname -r)
lsinitrd "$image" | grep -E 'hibernate-resume|pre-mount'
drop_in=$(lsinitrd "$image" | grep -o '[^ ]*system/dracut-pre-mount.service.d/50-tandem.conf')
lsinitrd -f "$drop_in" "$image" | grep '^After=local-fs-pre.target$'
journalctl -b --no-pager -o cat | grep -i 'ordering cycle' && exit 1
exit 0"#,
    ordinary: 4,
};

#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest after the installation: has dracut make an initial file system for the guest's disks, and enters
# the disks in fstab as an installer does.
set -eu
release=$(uname -r)
cat >/etc/dracut.conf.d/guest.conf <<-END
	hostonly="no"
	compress="cat"
	drivers=" virtio_pci virtio_scsi sd_mod ext4 crc32c_generic "
	filesystems=" ext4 "
END
# The tool starts udev twice: in the initial file system, and anew in the system. On a slow machine the second udev
# takes seconds to read its rules, while the links of the first one are there.
mkdir -p /etc/systemd/system/systemd-udevd.service.d
printf '[Service]\nExecStartPre=/bin/sleep 4\n' >/etc/systemd/system/systemd-udevd.service.d/slow.conf
# The tool makes what belongs to a kernel in /boot; this machine gets its kernel from outside.
touch "/boot/vmlinuz-$release"
dracut --force "/boot/initrd.img-$release" "$release"
uuid=$(findmnt --noheadings --output UUID /)
sed -i "s|^/dev/vda / ext4.*|UUID=$uuid / ext4 rw,noatime 0 1|; s/noauto,nofail,//" /etc/fstab
sync

# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest after the installation: has Debian's tool make an initial file system for the guest's disks, and
# enters the disks in fstab as an installer does.
set -eu
release=$(uname -r)
cat >/etc/initramfs-tools/conf.d/guest <<-END
	MODULES=list
	COMPRESS=gzip
	COMPRESSLEVEL=1
	RESUME=none
END
# The guest's disks need nothing of these, which take most of the time.
chmod -x /usr/share/initramfs-tools/hooks/lvm2 /usr/share/initramfs-tools/hooks/mdadm \
	/usr/share/initramfs-tools/hooks/thin-provisioning-tools
printf '%s\n' ahci virtio_pci virtio_scsi sd_mod ext4 crc32c_generic >>/etc/initramfs-tools/modules
echo CONFIG_RD_GZIP=y >"/boot/config-$release"
# The tool updates what belongs to a kernel in /boot; this machine gets its kernel from outside.
touch "/boot/vmlinuz-$release"
update-initramfs -c -k "$release"
uuid=$(findmnt --noheadings --output UUID /)
sed -i "s|^/dev/vda / ext4.*|UUID=$uuid / ext4 rw,noatime 0 1|; s/noauto,nofail,//" /etc/fstab
sync

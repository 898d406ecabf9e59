# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest, which has started without a boot loader: /boot gets a partition of its own, and GRUB becomes the
# boot loader of DISK. TOOLS: a disk with a tar file of the kernel and of GRUB's package.
set -eu
mkfs.ext4 -q -L boot /dev/DISK3
mount /dev/DISK3 /mnt
cp -a /boot/. /mnt/
umount /mnt
echo "UUID=$(blkid -o value -s UUID /dev/DISK3) /boot ext4 defaults 0 2" >>/etc/fstab
systemctl daemon-reload
mount /boot
tar --extract --file /dev/TOOLS --directory /root
mv /root/vmlinuz-* /boot/
cat >/etc/default/grub <<-END
	GRUB_TIMEOUT=0
	GRUB_TERMINAL=console
	GRUB_CMDLINE_LINUX="WORDS"
END
id=$(find -L /dev/disk/by-id -samefile /dev/DISK | head -n 1)
echo "grub-pc grub-pc/install_devices multiselect $id" | debconf-set-selections
grub-install /dev/DISK
update-grub
sync

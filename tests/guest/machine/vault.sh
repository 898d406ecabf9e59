# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest: puts a copy of the running system on an encrypted partition of DISK and has GRUB start that copy, as
# Debian's installer does with encryption. A key in the initial file system takes the place of a person at the keyboard.
set -eu
echo 'type=linux, name="vault"' | sfdisk --quiet --label gpt /dev/DISK
udevadm settle
key=/etc/keys/vault.key
install -d -m 700 /etc/keys
(umask 077 && head -c 64 /dev/urandom >$key)
cryptsetup luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/DISK1 $key
cryptsetup open --key-file $key /dev/DISK1 vault
mkfs.ext4 -q -L vault /dev/mapper/vault
mount /dev/mapper/vault /mnt
cp -ax /. /mnt/
echo "vault UUID=$(blkid -o value -s UUID /dev/DISK1) $key luks,initramfs" >/mnt/etc/crypttab
echo "KEYFILE_PATTERN=$key" >>/mnt/etc/cryptsetup-initramfs/conf-hook
printf '%s\n' dm_crypt aes_generic xts cbc sha256_generic >>/mnt/etc/initramfs-tools/modules
sed -i 's|^[^#][^ ]* / |/dev/mapper/vault / |' /mnt/etc/fstab
for point in /dev /proc /sys /run /boot; do mount --bind $point /mnt$point; done
chroot /mnt update-initramfs -u -k all
chroot /mnt update-grub
for point in /dev /proc /sys /run /boot; do umount /mnt$point; done
umount /mnt
cryptsetup close vault
sync

# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest: unpacks the project from the disk that the host has plugged in, and does what a package's
# scripts do afterwards.
set -eu
disk=/dev/disk/by-id/wwn-0x50000000000000aa
until [ -b $disk ]; do sleep 0.05; done
tar --extract --touch --keep-directory-symlink --file $disk --directory /
udevadm control --reload
gtk-update-icon-cache --quiet --force /usr/share/icons/hicolor
systemctl daemon-reload
systemctl start tandem-started
busctl --system call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig

# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest: unpacks the project from the disk that the host has plugged in, and does what a package's
# scripts do afterwards.
set -eu
disk=/dev/disk/by-id/wwn-0x50000000000000aa
until [ -b $disk ]; do sleep 0.05; done
tar --extract --touch --keep-directory-symlink --file $disk --directory /
# While tar unpacks, folders are root's alone for a moment. If polkitd looks just then it reads no rule, and asks for root's
# password, which root does not have.
rules=/usr/share/polkit-1/rules.d/org.tandemcache.Tandem.rules
while systemctl --quiet is-active polkit; do
	cp $rules /run/rules && cat /run/rules >$rules
	sleep 0.5
	journalctl --boot --unit polkit --output cat | grep ' executing ' | tail -n 1 | grep -q 'executing [1-9]' && break
done
udevadm control --reload
gtk-update-icon-cache --quiet --force /usr/share/icons/hicolor
systemctl daemon-reload
systemctl start tandem-started
busctl --system call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig

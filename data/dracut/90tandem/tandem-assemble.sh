#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Sourced by dracut in the initial file system before the root file system is mounted: puts the cache over its disk.
# Whatever fails here, the plain disk is used: all of its data is on it, and the cache starts cold the next time.

# The device that is to be mounted, which is not the device that the command line names if that is below a cache.
tandem_root() {
	tandem_device=$(readlink -f "$1")
	tandem_device=/sys/class/block/${tandem_device##*/}
	for tandem_above in "$tandem_device" "$tandem_device"/holders/*; do
		case $(cat "$tandem_above/dm/uuid" 2>/dev/null) in
		TANDEM-*)
			tandem_name=/dev/mapper/$(cat "$tandem_above/dm/name")
			[ -b "$tandem_name" ] || tandem_name=/dev/${tandem_above##*/}
			echo "$tandem_name"
			return
			;;
		esac
	done
}

# Has systemd mount a device as the root file system, and check it before.
tandem_mount() {
	for tandem_unit in sysroot.mount systemd-fsck-root.service; do
		mkdir -p "/run/systemd/system/$tandem_unit.d"
	done
	printf '[Mount]\nWhat=%s\n' "$1" >/run/systemd/system/sysroot.mount.d/50-tandem.conf
	printf '[Service]\nExecStart=\nExecStart=/lib/systemd/systemd-fsck %s\n' "$1" \
		>/run/systemd/system/systemd-fsck-root.service.d/50-tandem.conf
	systemctl daemon-reload
}

# shellcheck disable=SC2154
tandem_disk=$(label_uuid_to_dev "$root")
# Where dracut leaves it to systemd to find the root file system, no mapping may take the disk from systemd.
if [ -b "$tandem_disk" ]; then
	modprobe -abq dm_mod dm_tandem dm_cache dm_cache_smq
	# The journal of the running system has the messages, too.
	/usr/libexec/tandem-assemble initramfs 2>&1 | while read -r tandem_line; do
		echo "tandem: $tandem_line"
		echo "<5>tandem: $tandem_line" >/dev/kmsg
	done
	tandem_root=$(tandem_root "$tandem_disk")
	if [ -b "$tandem_root" ] && [ -n "$DRACUT_SYSTEMD" ]; then
		tandem_mount "$tandem_root"
	elif [ -b "$tandem_root" ]; then
		root=block:$tandem_root
	fi
fi

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Puts into the initial file system what assembles the cache of the root file system: its record, the module, the
# program, and udev's rules. Without such a cache nothing is put there. dracut sources this file and calls its functions.

# Called by dracut: whether there is something to put. Copies the records to a place of dracut's own.
# shellcheck disable=SC2154
check() {
	local records=${DRACUT_TMPDIR:?}/tandem
	rm -rf "$records"
	/usr/libexec/tandem-assemble export "$records" || {
		dwarning "tandem: the records of caches cannot be copied; this kernel starts without the cache"
		return 1
	}
	[ -d "$records" ] || return 1
	modinfo -k "$kernel" dm_tandem >/dev/null 2>&1 || {
		dwarning "tandem: kernel $kernel has no module dm-tandem; it starts without the cache"
		return 1
	}
	return 0
}

# Called by dracut: the rules and the program that name mappings.
depends() {
	echo dm
}

# Called by dracut. The checksums are asked for by name at run time, so that no dependency names their modules.
installkernel() {
	hostonly='' instmods dm_mod dm_tandem crc32c_generic crc32c_intel
}

# Called by dracut.
# shellcheck disable=SC2154
install() {
	mkdir -p "$initdir/var/lib"
	cp -r "$DRACUT_TMPDIR/tandem" "$initdir/var/lib/tandem"
	inst_multiple /usr/libexec/tandem-assemble /usr/libexec/tandem-probe modprobe readlink mkdir cat
	inst_rules 56-tandem.rules
	inst_hook pre-mount 50 "$moddir/tandem-assemble.sh"
	inst_simple "$moddir/after-resume.conf" "$systemdsystemunitdir/dracut-pre-mount.service.d/50-tandem.conf"
	# For tandem-dracut.service, which asks whether this was done.
	mkdir -p /run/tandem-initramfs
	: >"/run/tandem-initramfs/$kernel"
}

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Puts into the initial file system what assembles the cache of the root file system: its record, the modules, the
# program, and udev's rules. Without such a cache nothing is put there. dracut sources this file and calls its functions.

# Called by dracut: whether there is something to put. Copies the records, and the names of the modules that serve them, to a
# place of dracut's own.
# shellcheck disable=SC2154
check() {
	local module lacking=() records=${DRACUT_TMPDIR:?}/tandem
	rm -rf "$records"
	/usr/libexec/tandem-assemble export "$records" >"$records.modules" || {
		dwarning "tandem: the records of caches cannot be copied; this kernel starts without the cache"
		return 1
	}
	while read -r module; do
		modinfo -k "$kernel" "$module" >/dev/null 2>&1 || {
			dwarning "tandem: kernel $kernel has no module $module; it starts without the caches that need it"
			lacking+=("$module")
		}
	done <"$records.modules"
	if [ ${#lacking[@]} -gt 0 ]; then
		rm -rf "$records"
		/usr/libexec/tandem-assemble export "$records" "${lacking[@]}" >"$records.modules" || return 1
	fi
	[ -d "$records" ]
}

# Called by dracut: the rules and the program that name mappings.
depends() {
	echo dm
}

# Called by dracut. The checksums are asked for by name at run time, so that no dependency names their modules.
installkernel() {
	# shellcheck disable=SC2046
	hostonly='' instmods dm_mod $(cat "$DRACUT_TMPDIR/tandem.modules") crc32c_generic crc32c_intel
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

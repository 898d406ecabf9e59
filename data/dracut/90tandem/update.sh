#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Run by tandem-dracut.service and the package's scripts: makes the initial file system of each kernel anew. Arguments are
# further options of dracut. dracut itself overwrites the old file, and removes the file if there is no space. Here the
# new file takes the place of the old one when it is whole and on the disk; until then the kernel starts with the old one.
set -u
machine=$(cat /etc/machine-id 2>/dev/null)
failed=0
for modules in /lib/modules/*/modules.dep; do
	kernel=${modules%/modules.dep}
	kernel=${kernel##*/}
	for image in "/boot/initrd.img-$kernel" "/boot/initramfs-$kernel.img" "/boot/initrd-$kernel" \
		"/boot/$machine/$kernel/initrd" "/efi/$machine/$kernel/initrd" "/boot/efi/$machine/$kernel/initrd"; do
		if [ ! -f "$image" ] || [ -L "$image" ]; then
			continue
		fi
		new=$image.tandem-new
		if dracut --force "$@" "$new" "$kernel" && [ -s "$new" ] && sync "$new" && mv -f "$new" "$image"; then
			sync -f "${image%/*}"
		else
			rm -f "$new"
			echo "tandem: $image is as before" >&2
			failed=1
		fi
	done
done
exit $failed

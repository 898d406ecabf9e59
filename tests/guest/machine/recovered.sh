# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest after the service was killed, or after a power cut: starts the service, waits until it has put things
# right, and tells which state it came to: `plain`, `cached`, or `detached`, which is a removed cache whose mapping stays
# until the next start of the machine. Anything in between is an error.
set -u
systemctl reset-failed tandem.service
# The host's limit ends a wait in vain, and busy.sh tells of it.
until tandemctl list >/dev/null 2>&1 && [ -z "$(ls /var/lib/tandem/jobs 2>/dev/null)" ]; do sleep 0.2; done
udevadm settle
source=$(findmnt --noheadings --output SOURCE /home/anna/Archive)
table=$(dmsetup table --target tandem)
maps=$(dmsetup ls 2>/dev/null | grep -c '^tandem-')
caches=$(ls /var/lib/tandem/caches/*.json 2>/dev/null | wc -l)
case "$source/$maps/$caches" in
/dev/sd*/0/0)
	echo plain
	exit 0
	;;
/dev/mapper/tandem-*/1/1)
	if [ -n "$table" ]; then
		echo cached
		exit 0
	fi
	if grep -q '"detached_in": "' /var/lib/tandem/caches/*.json; then
		echo detached
		exit 0
	fi
	echo "the mapping leads to the disk alone"
	;;
*) echo "neither old nor new: mounted from '$source', $maps mappings, $caches caches" ;;
esac
dmsetup table
journalctl -u tandem -u udisks2 --no-pager -o short-monotonic -n 40
exit 1

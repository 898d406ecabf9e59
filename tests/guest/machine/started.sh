# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest after power on: ends when the start is over, and fails if a unit of it has failed.
systemctl is-system-running --wait >/dev/null
until [ -z "$(systemctl list-jobs --no-legend)" ]; do sleep 0.2; done
tell() {
	for point in / /home/anna/Archive; do findmnt --noheadings --output TARGET,SOURCE "$point"; done
	dmsetup table
	dmesg | grep -i tandem
	journalctl -b --no-pager -o short-monotonic -u tandem-assemble
	cut -d' ' -f1 /proc/uptime
}
failed=$(systemctl list-units --failed --no-legend --plain)
if [ -n "$failed" ]; then
	echo "failed units: $failed"
	lsblk
	tell
	journalctl -b --no-pager -o short-monotonic | tail -60
	exit 1
fi
findmnt --noheadings --output SOURCE / && tell

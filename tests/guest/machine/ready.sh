# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest after power on: ends when the desktop session is whole and the machine is quiet.
set -u
user() { setpriv --reuid=1000 --regid=1000 --init-groups env XDG_RUNTIME_DIR=/run/user/1000 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus "$@"; }
wait_for() {
	what=$1; shift
	for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done
	echo "the guest waits in vain for $what"; journalctl -b --no-pager | tail -60; exit 1
}
wait_for "the window manager" pgrep -x openbox
wait_for "the session bus" test -S /run/user/1000/bus
wait_for "the accessibility bus" user busctl --user status org.a11y.Bus
wait_for "the polkit agent" pgrep -f polkit-mate-authentication-agent
wait_for "polkitd" busctl --system status org.freedesktop.PolicyKit1
# Under a saved state these are warm already when a test asks for them.
busctl --system --timeout=60 call org.freedesktop.UDisks2 /org/freedesktop/UDisks2/Manager org.freedesktop.DBus.Peer Ping
udevadm settle
modprobe -a sd_mod dm_mod virtio_scsi ext4
wait_for "an idle processor" sh -c 'set -- $(cat /proc/stat | head -1); a=$5; sleep 1; set -- $(head -1 /proc/stat); [ $(($5 - a)) -gt 150 ]'
sync

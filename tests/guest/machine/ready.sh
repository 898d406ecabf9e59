# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest after power on: ends when the desktop session is whole and the machine is quiet. The host's limit ends
# a wait in vain; the last line says for what.
set -u
user() { setpriv --reuid=1000 --regid=1000 --init-groups env XDG_RUNTIME_DIR=/run/user/1000 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus "$@"; }
wait_for() {
	echo "waiting for $1"; shift
	until "$@" >/dev/null 2>&1; do sleep 0.2; done
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
# Only the shell that looks is ready to run, five times in a row.
wait_for "an idle processor" sh -c 'for _ in 1 2 3 4 5; do read -r _ _ _ ready _ </proc/loadavg; [ "${ready%/*}" -le 1 ] || exit 1; sleep 0.2; done'
sync

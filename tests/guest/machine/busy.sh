# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest on the second port when a script on the first does not end: tells what the machine is doing.
exec 2>&1
echo "--- processes; what each waits for in the kernel"
ps -eo pid,ppid,stat,wchan:24,etimes,time,args --sort=pid | awk '!/\]$/ { print substr($0, 1, 180) }' | tail -25
for pid in $(pgrep -x tandem-helper) $(ps -eo pid,stat | awk '$2 ~ /^D/ { print $1 }'); do
	for task in /proc/"$pid"/task/*; do
		echo "--- stack of ${task#/proc/}, $(cat "$task/comm")"; head -12 "$task/stack"
	done
done
echo "--- the start"
systemctl list-jobs --no-legend; systemctl list-units --failed --no-legend
lsblk
echo "--- the service"
timeout 5 tandemctl list
systemctl show tandem.service --property=ActiveState,SubState,Result,NRestarts,MainPID,Job
ls -l /var/lib/tandem/jobs /var/lib/tandem/caches
tail -n +1 /var/lib/tandem/jobs/*
dmsetup info -c
dmsetup table
echo "--- journal"
journalctl -b --no-pager -o short-monotonic -n 60
echo "--- kernel"
dmesg | tail -15

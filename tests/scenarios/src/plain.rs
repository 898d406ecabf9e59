// SPDX-License-Identifier: GPL-3.0-or-later
//! Partitions that bcache has left become plain ones: the start of the partition moves to the file system, and all else stays.

use anyhow::Result;

use super::kept::BOOT;
use super::scene::machine_with_root;
use tandem_guest::disks::{self, Scratch};
use tandem_guest::guest::{LONG, SHORT};
use tandem_guest::vm::{Disk, Parts, Vm};
use tandem_harness::layer::Run;

/// Size of each disk in MiB.
const MIB: u64 = 256;
/// Serial number, name in the scripts, and whether it is an SSD.
const DISKS: [(&str, &str, bool); 6] = [
    ("PLGPT001", "GPTDISK", false),
    ("PLMBR001", "MBRDISK", false),
    ("PLKIL001", "KILLDISK", false),
    ("PLWHO001", "WHOLEDISK", false),
    ("PLSSD001", "BCACHESSD", true),
    ("PLSSD002", "FREESSD", true),
];
/// Functions of the scripts below.
const COMMON: &str = r#"set -e
# The bcache device over a device.
above() { basename "$(readlink -f /sys/class/block/$1/bcache/dev)"; }
# Makes a device a bcache device without a cache, with a file system and a file in it that is mounted at a place.
make() {
	make-bcache --bucket 64k -B /dev/$1
	udevadm settle
	[ -e /sys/class/block/$1/bcache/dev ] || echo /dev/$1 >/sys/fs/bcache/register_quiet
	until [ -e /sys/class/block/$1/bcache/dev ]; do sleep 0.1; done
	udevadm settle
	fill $(above $1) $2
}
fill() {
	mke2fs -q -t ext4 /dev/$1
	mkdir -p $2
	mount /dev/$1 $2
	dd if=/dev/urandom of=$2/file bs=64k count=64 conv=fsync status=none
	(cd $2 && sha256sum file) >/root/sums$(echo $2 | tr / -)
	udevadm settle
}
check() {
	echo 3 >/proc/sys/vm/drop_caches
	(cd $1 && sha256sum --check --quiet /root/sums$(echo $1 | tr / -))
}
# Removes what is there, as soon as the service knows of the changes before.
remove() {
	for _ in $(seq 30); do
		code=0
		tandemctl remove --yes $1 || code=$?
		[ $code = 3 ] || return $code
		sleep 1
	done
	return 3
}
# Whether a removal is refused with these words, as soon as the service knows of the changes before.
refused() {
	for _ in $(seq 30); do
		code=0
		said=$(tandemctl remove --yes $1 2>&1) || code=$?
		echo "$said"
		[ $code = 3 ] || return 1
		if echo "$said" | grep -q "$2"; then return 0; fi
		sleep 1
	done
	return 1
}
# Whether a table is as before but for the two places of its first partition.
moved() {
	sed -E "s|^(/dev/$1[0-9]* : start= *)2048, size= *409600|\12064, size=409584|" /root/table-$1 >/root/wanted
	sfdisk --dump /dev/$1 >/root/now
	cat /root/now
	for file in wanted now; do tr -d ' ' </root/$file >/root/$file.plain; done
	diff /root/wanted.plain /root/now.plain
	[ "$(cat /sys/class/block/${1}1/start) $(cat /sys/class/block/${1}1/size)" = "2064 409584" ]
}
# Unmounts the bcache device named $name, and stops it.
leave() {
	umount /srv/kill
	echo 1 >/sys/block/$name/bcache/stop
	while [ -e /sys/block/$name ]; do sleep 0.1; done
}
# An unmounted bcache device without a cache on a partition of KILLDISK, named $name. What bcache has left there before would be
# registered again. While udev reads a partition, the kernel takes no other table.
prepare() {
	udevadm settle
	dd if=/dev/zero of=/dev/KILLDISK bs=1M count=4 conv=notrunc status=none
	udevadm settle
	echo 'size=409600' | sfdisk --quiet --label gpt --wipe always /dev/KILLDISK
	udevadm settle
	make KILLDISK1 /srv/kill
	sfdisk --dump /dev/KILLDISK >/root/table-KILLDISK
	name=$(above KILLDISK1)
	umount /srv/kill
}
# The service and its program are killed when the table of KILLDISK is about to be changed, something is done to the disk, and
# the next process of the service goes on.
interrupted() {
	flock /dev/KILLDISK sleep 1000 & lock=$!
	remove $name & job=$!
	waits() { grep -qs Moving /var/lib/tandem/moves/*.json && systemctl list-units --no-legend 'tandem-table*' | grep -q running; }
	for _ in $(seq 400); do if waits; then break; fi; sleep 0.1; done
	waits
	systemctl kill --signal KILL tandem.service
	wait $job || true
	eval "$1"
	tandemctl list >/dev/null
	systemctl kill --signal KILL 'tandem-table-*'
	kill $(pgrep -P $lock) $lock
	for _ in $(seq 300); do [ -z "$(ls /var/lib/tandem/moves)" ] && break; tandemctl list >/dev/null || true; sleep 0.2; done
	[ -z "$(ls /var/lib/tandem/moves)" ]
}
# The partition of KILLDISK is as before or moved, whole.
ended() {
	udevadm settle
	if [ -e /sys/class/block/KILLDISK1/bcache/dev ]; then
		ends="$ends old"
		sfdisk --dump /dev/KILLDISK | diff /root/table-KILLDISK -
		name=$(above KILLDISK1)
		mount /dev/$name /srv/kill
		check /srv/kill
		leave
	else
		ends="$ends moved"
		moved KILLDISK
		mount /dev/KILLDISK1 /srv/kill
		check /srv/kill
		umount /srv/kill
	fi
	wipefs -qa /dev/KILLDISK1
}
# What udev and bcache do with all devices at the start of the machine.
restarted() {
	udevadm trigger --action=add --subsystem-match=block
	udevadm settle
	if ls /sys/class/block/${1}1/bcache; then exit 1; fi
	blkid -p /dev/${1}1 | grep ' TYPE="ext4"'
}
"#;
/// A GPT partition whose cache is taken away first, beside another partition that stays mounted. A cache of Tandem comes over it
/// then.
const GPT: &str = r#"
modprobe bcache
echo 'size=409600, name="my films", attrs="GUID:63", type=0FC63DAF-8483-4772-8E79-3D69D8477DE4
size=60000, name=other' | sfdisk --quiet --label gpt /dev/GPTDISK
udevadm settle
fill GPTDISK2 /srv/other
make-bcache --bucket 64k --writeback -C /dev/BCACHESSD -B /dev/GPTDISK1
for device in BCACHESSD GPTDISK1; do echo /dev/$device >/sys/fs/bcache/register_quiet || true; done
until [ -e /sys/class/block/GPTDISK1/bcache/cache ]; do sleep 0.1; done
name=$(above GPTDISK1)
fill $name /srv/gpt
sfdisk --dump /dev/GPTDISK >/root/table-GPTDISK
remove $name >/root/said
cat /root/said
grep "tandemctl remove $name" /root/said
check /srv/gpt
refused $name /srv/gpt
echo "/dev/$name /srv/gpt ext4 noauto 0 0" >>/etc/fstab
systemctl daemon-reload
umount /srv/gpt
refused $name /etc/fstab
sed -i "/$name/d" /etc/fstab
echo "UUID=$(blkid -o value -s UUID /dev/$name) /srv/gpt ext4 noauto 0 0" >>/etc/fstab
systemctl daemon-reload
remove $name >/root/said
cat /root/said
grep "tandemctl create GPTDISK1" /root/said
moved GPTDISK
restarted GPTDISK
check /srv/other
e2fsck -fn /dev/GPTDISK1
mount /srv/gpt
check /srv/gpt
ls /var/lib/tandem/tables
[ -z "$(ls /var/lib/tandem/moves)" ]
if systemctl list-units --all --no-legend 'tandem-table*' | grep .; then exit 1; fi
tandemctl create --yes --erase-ssd GPTDISK1 FREESSD
dmsetup table --target tandem | grep .
check /srv/gpt
check /srv/gpt
umount /srv/gpt"#;
/// A primary partition of an MBR, with boot code and another partition.
const MBR: &str = r#"
modprobe bcache
echo 'size=409600, type=83, bootable
size=60000, type=c' | sfdisk --quiet --label dos /dev/MBRDISK
printf 'boot code' | dd of=/dev/MBRDISK conv=notrunc status=none
udevadm settle
make MBRDISK1 /srv/mbr
sfdisk --dump /dev/MBRDISK >/root/table-MBRDISK
name=$(above MBRDISK1)
umount /srv/mbr
remove $name
moved MBRDISK
restarted MBRDISK
[ "$(head -c 9 /dev/MBRDISK)" = 'boot code' ]
mount /dev/MBRDISK1 /srv/mbr
check /srv/mbr
umount /srv/mbr"#;
/// bcache on a whole disk stays.
const WHOLE: &str = r#"
modprobe bcache
make WHOLEDISK /srv/whole
name=$(above WHOLEDISK)
umount /srv/whole
refused $name 'partition table'
mount /dev/$name /srv/whole
check /srv/whole
umount /srv/whole"#;
/// The service is killed in the middle, at some moments. The partition is as before or moved, whole.
const KILLED: &str = r#"
modprobe bcache
ends=
for moment in 0 0.2 0.4 0.6 0.8 1 1.3 1.6; do
	prepare
	remove $name & job=$!
	for _ in $(seq 400); do [ -n "$(ls /var/lib/tandem/moves 2>/dev/null)" ] && break; sleep 0.02; done
	sleep $moment
	systemctl kill --signal KILL tandem.service || true
	wait $job || true
	for _ in $(seq 300); do [ -z "$(ls /var/lib/tandem/moves)" ] && break; tandemctl list >/dev/null || true; sleep 0.2; done
	[ -z "$(ls /var/lib/tandem/moves)" ]
	ended
done
echo "ends:$ends"
case $ends in *moved*) ;; *) exit 1 ;; esac"#;
/// A table that was torn in the middle of a move is put back whole by the next process of the service, and so is bcache.
const TORN: &str = r#"
modprobe bcache
prepare
interrupted 'dd if=/dev/zero of=/dev/KILLDISK bs=512 seek=1 count=1 conv=notrunc status=none'
sfdisk --dump /dev/KILLDISK 2>&1 | diff /root/table-KILLDISK -
until [ -e /sys/class/block/KILLDISK1/bcache/dev ]; do sleep 0.1; done
name=$(above KILLDISK1)
mount /dev/$name /srv/kill
check /srv/kill
leave"#;

/// A move that was cut short writes nothing over a table that another program has changed since, nor over what took its place.
const FOREIGN: &str = r#"
modprobe bcache
prepare
interrupted 'echo size=8192 | sfdisk --quiet --append --no-reread --no-tell-kernel /dev/KILLDISK'
sfdisk --dump /dev/KILLDISK >/root/now
grep -q '^/dev/KILLDISK2' /root/now
grep -v '^/dev/KILLDISK2' /root/now | diff /root/table-KILLDISK -
until [ -e /sys/class/block/KILLDISK1/bcache/dev ]; do sleep 0.1; done
name=$(above KILLDISK1)
mount /dev/$name /srv/kill
check /srv/kill
leave

prepare
interrupted 'wipefs -qa /dev/KILLDISK; blockdev --rereadpt /dev/KILLDISK; mke2fs -q -F -t ext4 /dev/KILLDISK'
e2fsck -fn /dev/KILLDISK
wipefs -qa /dev/KILLDISK"#;

/// Begins a move. The power is cut then.
const CUT: &str = r#"
modprobe bcache
prepare
sync
setsid -f sh -c "for _ in 1 2 3 4 5 6 7 8 9; do tandemctl remove --yes $name; sleep 1; done" >/dev/null 2>&1 </dev/null
for _ in $(seq 600); do [ -n "$(ls /var/lib/tandem/moves 2>/dev/null)" ] && break; sleep 0.02; done
[ -n "$(ls /var/lib/tandem/moves)" ]
sleep MOMENT"#;
/// The next start ends the move, or undoes the move as a whole, though no person and no program asks.
const AFTER_CUT: &str = r#"
for _ in $(seq 300); do [ -z "$(ls /var/lib/tandem/moves)" ] && break; sleep 0.2; done
[ -z "$(ls /var/lib/tandem/moves)" ]
ended
echo "ends:$ends""#;
/// Seconds from the record of a move to the cut.
const MOMENTS: [&str; 3] = ["0.5", "2", "4"];

/// Runs the layer.
pub fn run(run: &mut Run) -> Result<()> {
    let parts = Parts::get(run.cx)?;
    let scratch = Scratch::new()?;
    let (dir, mut vm) = machine_with_root(run, &parts, &scratch)?;
    let mut plugged = Vec::new();
    for (number, (serial, _, is_ssd)) in (0..).zip(DISKS) {
        let wwn = 0x5000_c500_0000_0300 + number;
        plugged.push(disks::empty(scratch.path(), serial, wwn, MIB, is_ssd)?);
    }
    let mut names = plug(&mut vm, &plugged)?;
    for (case, script) in [
        ("a GPT partition becomes plain, and gets a cache", GPT),
        ("a primary partition of an MBR becomes plain", MBR),
        (
            "bcache on a whole disk stays, and the reason is told",
            WHOLE,
        ),
        ("killed in the middle: as before or moved", KILLED),
        ("a torn table is put back whole", TORN),
        ("what another program has done to the table stays", FOREIGN),
    ] {
        if !run.wants(case) {
            continue;
        }
        let done = seen_in(&mut vm, &named(script, &names), run);
        run.check(case, done);
    }
    for moment in MOMENTS {
        let case = format!("the power is cut {moment} s after the beginning: as before or moved");
        if !run.wants(&case) {
            continue;
        }
        let cut = CUT.replace("MOMENT", moment);
        let begun = seen_in(&mut vm, &named(&cut, &names), run);
        drop(vm);
        vm = Vm::power_on(run.cx, &parts, &dir)?;
        vm.up(BOOT)?;
        names = plug(&mut vm, &plugged)?;
        let ended = begun.and_then(|()| seen_in(&mut vm, &named(AFTER_CUT, &names), run));
        run.check(&case, ended);
    }
    Ok(())
}

/// Plugs all disks in, and returns the name of each with its word in the scripts.
fn plug(vm: &mut Vm, plugged: &[Disk]) -> Result<Vec<(&'static str, String)>> {
    let each = plugged.iter().zip(DISKS);
    each.map(|(disk, (serial, word, _))| {
        vm.plug(disk)?;
        Ok((word, vm.device(serial)?))
    })
    .collect()
}

/// A script with the functions that it calls, for the devices with these names.
fn named(script: &str, names: &[(&'static str, String)]) -> String {
    let script = format!("{COMMON}{script}");
    names
        .iter()
        .fold(script, |script, (word, name)| script.replace(word, name))
}

/// Runs a script. After a failure the state of the machine is noted.
fn seen_in(vm: &mut Vm, script: &str, run: &Run) -> Result<()> {
    let done = vm.agent.sh(script, LONG).map(|told| run.note(&told));
    if done.is_err() {
        let told = "journalctl --no-pager -o short-monotonic -u tandem -u 'tandem-table*' -u 'tandem-bcache*' | tail -40; lsblk; \
            head -c 3000 /var/lib/tandem/moves/*; head -c 2000 /run/tandem/others/*; dmesg | tail -20; exit 0";
        run.note(&vm.agent.sh(told, SHORT)?);
    }
    done
}

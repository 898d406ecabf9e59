// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches that other systems have made, by their own tools: each is seen with its disk and its SSD, and none of its devices
//! is offered. All are written back and removed while they are in use.

mod clicks;
mod cut;
mod lvm;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::scene::machine_with_root;
use tandem_guest::disks::{self, Scratch};
use tandem_guest::guest::{LONG, SHORT};
use tandem_guest::vm::{Parts, Vm};
use tandem_harness::layer::Run;

/// Size of each disk in MiB.
const MIB: u64 = 256;
/// Serial numbers: a disk and an SSD for each set-up of [`KINDS`], in their order, and two that are free.
const SERIALS: [[&str; 2]; 6] = [
    ["LVMDISK1", "LVMSSD01"],
    ["WCDISK01", "WCSSD001"],
    ["DMDISK01", "DMSSD001"],
    ["BCDISK01", "BCSSD001"],
    ["LOGDISK1", "LOGSSD01"],
    ["FREEDISK", "FREESSD1"],
];
/// Kind, name and mode of each as `tandemctl` tells them.
const KINDS: [[&str; 3]; 5] = [
    ["lvm-cache", "films/my-movies", "writethrough"],
    ["lvm-writecache", "mail/box", "writeback"],
    ["dm-cache", "slow", "writeback"],
    ["bcache", "bcache0", "writeback"],
    ["dm-writecache", "log", "writeback"],
];
/// Sets all of them up, each with a file system that is mounted below /srv and holds a file. `DISK0` and `SSD0` are the
/// devices of the first.
const MAKE: &str = r#"set -e
vgcreate -q films /dev/DISK0 /dev/SSD0
lvcreate -q -y -n my-movies -l 100%PVS films /dev/DISK0
lvcreate -q -y -n fast -L 64M films /dev/SSD0
lvconvert -q -y --type cache --cachevol fast --cachemode writethrough films/my-movies
vgcreate -q mail /dev/DISK1 /dev/SSD1
lvcreate -q -y -n box -l 100%PVS mail /dev/DISK1
lvcreate -q -y -an -n fast -L 64M mail /dev/SSD1
lvconvert -q -y --type writecache --cachevol fast mail/box
dmsetup create slow-meta --table "0 16384 linear /dev/SSD2 0"
dmsetup create slow-data --table "0 131072 linear /dev/SSD2 16384"
dd if=/dev/zero of=/dev/mapper/slow-meta bs=4k count=1 status=none
sectors=$(blockdev --getsz /dev/DISK2)
dmsetup create slow --table "0 $sectors cache /dev/mapper/slow-meta /dev/mapper/slow-data /dev/DISK2 128 1 writeback smq 0"
modprobe bcache
make-bcache --bucket 64k --writeback -C /dev/SSD3 -B /dev/DISK3
for device in SSD3 DISK3; do echo /dev/$device >/sys/fs/bcache/register_quiet || true; done
until [ -b /dev/bcache0 ] && [ -e /sys/block/bcache0/bcache/cache ]; do sleep 0.1; done
echo 0 >/sys/block/bcache0/bcache/writeback_running
sectors=$(blockdev --getsz /dev/DISK4)
dmsetup create log --table "0 $sectors writecache s /dev/DISK4 /dev/SSD4 4096 0"
udevadm settle
for pair in films/my-movies:0 mail/box:1 mapper/slow:2 bcache0:3 mapper/log:4; do
	mke2fs -q -t ext4 /dev/${pair%:*}
	mkdir -p /srv/${pair#*:}
	mount /dev/${pair%:*} /srv/${pair#*:}
	dd if=/dev/urandom of=/srv/${pair#*:}/file bs=64k count=64 conv=fsync status=none
done
udevadm settle"#;
/// Script that prints what the service says of these caches, as soon as it tells of all of them.
const TOLD: &str = r#"for _ in $(seq 150); do
	told=$(tandemctl --json list)
	[ "$(echo "$told" | grep -o '"kind":"' | wc -l)" = 5 ] && break
	sleep 0.2
done
echo "$told""#;

/// Script that has the caches of LVM removed, under their mounted file systems, and compares the files then. `mail/box` is
/// written back first. The second part kills the service in the middle of a removal: LVM goes on, and the next service
/// follows it to its end.
const REMOVE: &str = r#"set -e
linear() { [ "$(lvs --noheadings -o segtype "$1" | tr -d ' ')" = linear ]; }
sha256sum /srv/0/file /srv/1/file >/root/sums
if tandemctl remove --yes nothing; then exit 1; fi
tandemctl remove --yes films/my-movies
linear films/my-movies
dd if=/dev/urandom of=/srv/1/more bs=64k count=400 conv=fsync status=none
sha256sum /srv/1/more >>/root/sums
tandemctl remove --yes mail/box & job=$!
for _ in $(seq 100); do
	systemctl list-units --no-legend 'tandem-lvm-*' | grep -q . && break
	sleep 0.05
done
systemctl kill --signal KILL tandem.service || true
wait $job || true
for _ in $(seq 300); do linear mail/box && break; sleep 0.2; done
linear mail/box
echo 3 >/proc/sys/vm/drop_caches
sha256sum --check --quiet /root/sums
for _ in $(seq 100); do
	systemctl list-units --all --no-legend 'tandem-lv*' | grep -q . || break
	sleep 0.2
done
if systemctl list-units --all --no-legend 'tandem-lv*' | grep .; then exit 1; fi
if tandemctl --json list | grep '"kind":"lvm-'; then exit 1; fi"#;

/// Script that saves 8 MiB through the bare mapping `NAME` mounted at `PLACE`, which the disk is too slow to get at once, begins the
/// removal, and cancels. The mapping is as before then.
const CANCELLED: &str = r#"set -e
dd if=/dev/urandom of=PLACE/more bs=64k count=128 conv=fsync status=none
sha256sum PLACE/file PLACE/more >/root/sums-NAME
before=$(dmsetup table NAME)
tandemctl remove --yes NAME & job=$!
job_of() {
	for path in $(busctl --list tree org.tandemcache.Tandem1 | grep -E '/jobs/[0-9]+$' || true); do
		of=$(busctl get-property org.tandemcache.Tandem1 "$path" org.tandemcache.Tandem1.Job CacheUuid || true)
		if [ "$of" = 's "NAME"' ]; then echo "$path"; fi
	done
}
for _ in $(seq 200); do
	path=$(job_of)
	[ -n "$path" ] && busctl get-property org.tandemcache.Tandem1 "$path" org.tandemcache.Tandem1.Job Progress | grep -qv ' 0$' && break
	sleep 0.05
done
[ -n "$path" ]
echo "canceled at $(cut -d" " -f1 /proc/uptime)"
busctl call org.tandemcache.Tandem1 "$path" org.tandemcache.Tandem1.Job Cancel
if wait $job; then echo "the removal was not canceled"; exit 1; fi
[ "$(dmsetup table NAME)" = "$before" ]
[ "$(dmsetup info -c --noheadings -o suspended NAME)" = Active ]
dmsetup status NAME
sha256sum --check --quiet /root/sums-NAME"#;
/// Script that removes the bare cache `NAME` whose superblock is on `META`, and kills the service in the middle of it. The mapping
/// leads to the disk alone then. What was set up by a script is set up again with the `AGAIN` of that script, after the file was
/// changed without the cache: the change has to be seen.
const REMOVED: &str = r#"set -e
tandemctl remove --yes NAME & job=$!
for _ in $(seq 200); do [ -n "$(ls /run/tandem/others 2>/dev/null)" ] && break; sleep 0.02; done
sleep 0.MOMENT
systemctl kill --signal KILL tandem.service || true
wait $job || true
for _ in $(seq 300); do
	dmsetup table NAME | grep -q ' linear ' && [ -z "$(ls /run/tandem/others 2>/dev/null)" ] && break
	sleep 0.2
done
dmsetup table NAME | grep ' linear '
echo 3 >/proc/sys/vm/drop_caches
sha256sum --check --quiet /root/sums-NAME
dd if=/dev/urandom of=PLACE/file bs=64k count=64 conv=notrunc,fsync status=none
sha256sum PLACE/file PLACE/more >/root/sums-NAME
umount PLACE
dmsetup remove --retry NAME
AGAIN
mount /dev/mapper/NAME PLACE
sha256sum --check --quiet /root/sums-NAME
tandemctl remove --yes NAME
dmsetup table NAME | grep ' linear '
dd if=/dev/CACHE bs=4k count=1 iflag=direct status=none | cmp -n 4096 - /dev/zero
sha256sum --check --quiet /root/sums-NAME"#;
/// How the bare mappings were set up: name, place in `KINDS`, and the script's commands without the clearing of the SSD.
const BARE: [(&str, usize, &str); 2] = [
    (
        "slow",
        2,
        r#"dmsetup create slow-meta --table "0 16384 linear /dev/SSD2 0"
dmsetup create slow-data --table "0 131072 linear /dev/SSD2 16384"
# What was there before the target began stays in the page cache, since the target keeps the device open.
exec 7</dev/mapper/slow-meta
head -c 4096 <&7 >/dev/null
dmsetup create slow --table "0 $(blockdev --getsz /dev/DISK2) cache /dev/mapper/slow-meta /dev/mapper/slow-data /dev/DISK2 128 1 writeback smq 0"
exec 7<&-"#,
    ),
    (
        "log",
        4,
        r#"dmsetup create log --table "0 $(blockdev --getsz /dev/DISK4) writecache s /dev/DISK4 /dev/SSD4 4096 0""#,
    ),
];
/// Script that takes the SSD from bcache under its mounted file system, with a killed service in between, and that sees it free.
const BCACHE: &str = r#"set -e
dd if=/dev/urandom of=/srv/3/more bs=64k count=128 conv=fsync status=none
sha256sum /srv/3/file /srv/3/more >/root/sums-bcache
own=/sys/block/bcache0/bcache
before=$(cat $own/cache_mode $own/writeback_percent $own/writeback_running)
[ "$(cat $own/dirty_data)" != 0.0k ]
# The file system may write again in between.
for _ in 1 2 3; do
	tandemctl flush bcache0
	if [ "$(cat $own/dirty_data)" = 0.0k ]; then break; fi
done
[ "$(cat $own/dirty_data)" = 0.0k ]
[ "$(cat $own/cache_mode $own/writeback_percent $own/writeback_running)" = "$before" ]
dd if=/dev/urandom of=/srv/3/file bs=64k count=64 conv=notrunc,fsync status=none
sha256sum /srv/3/file /srv/3/more >/root/sums-bcache
tandemctl remove --yes bcache0 & job=$!
for _ in $(seq 200); do [ -n "$(ls /run/tandem/others 2>/dev/null)" ] && break; sleep 0.02; done
sleep 0.5
systemctl kill --signal KILL tandem.service || true
wait $job || true
for _ in $(seq 600); do [ -z "$(ls /run/tandem/others 2>/dev/null)" ] && break; sleep 0.2; done
[ ! -e /sys/block/bcache0/bcache/cache ]
[ -z "$(ls -d /sys/fs/bcache/*-* 2>/dev/null)" ]
udevadm settle
blkid -p /dev/SSD3 | grep bcache
echo 3 >/proc/sys/vm/drop_caches
sha256sum --check --quiet /root/sums-bcache
if systemctl list-units --all --no-legend 'tandem-bcache*' | grep .; then exit 1; fi
tandemctl plan --erase-ssd FREE SSD3"#;
/// Bytes a second that a slow disk accepts.
const SLOW: u64 = 256 << 10;

/// Runs the layer: one machine with all set-ups, one in whose window is clicked, and one whose power is cut.
pub fn run(run: &mut Run) -> Result<()> {
    if run.wants(clicks::CASE) {
        clicks::run(run)?;
    }
    if run.wants(cut::CASE) {
        cut::run(run)?;
    }
    match run.is_done() {
        true => Ok(()),
        false => together(run),
    }
}

fn together(run: &mut Run) -> Result<()> {
    let parts = Parts::get(run.cx)?;
    let scratch = Scratch::new()?;
    let (_, mut vm) = machine_with_root(run, &parts, &scratch)?;
    let mut script = MAKE.to_owned();
    let mut names = Vec::new();
    for (at, serials) in SERIALS.into_iter().enumerate() {
        // The SSD has the first name: nothing may depend on that.
        let [of_disk, of_ssd] = serials;
        for (word, serial) in [("SSD", of_ssd), ("DISK", of_disk)] {
            let number = names.len() as u64;
            let wwn = 0x5000_c500_0000_0200 + number;
            let disk = disks::empty(scratch.path(), serial, wwn, MIB, word == "SSD")?;
            vm.plug(&disk)?;
            let name = vm.device(serial)?;
            script = script.replace(&format!("{word}{at}"), &name);
            names.push(name);
        }
    }
    run.note(&vm.agent.sh(&script, LONG)?);
    let told = vm.agent.sh(TOLD, LONG)?;
    run.note(&told);
    run.check("each is seen with its disk and its SSD", seen(&told));
    let refused = refused(&mut vm, run, &names);
    run.check("none of its devices is offered", refused);
    let told = vm.agent.sh(lvm::HISTORY, LONG).map(|told| run.note(&told));
    run.check("the last hour is a table", told);
    for [what, script] in lvm::TRIED {
        let script = format!("{}{script}", lvm::SHARED);
        let done = slowly(&mut vm, SERIALS[0][0], &script, run);
        run.check(what, done);
    }
    let removed = vm.agent.sh(REMOVE, LONG).map(|told| run.note(&told));
    run.check("those of LVM are written back and removed in use", removed);
    for (name, at, again) in BARE {
        let names = &names;
        let named = |script: &str| {
            let [disk, ssd] = [&names[2 * at + 1], &names[2 * at]];
            let script = script.replace("AGAIN", again).replace("NAME", name);
            let script = script.replace("PLACE", &format!("/srv/{at}"));
            let script = script.replace("CACHE", &format!("SSD{at}"));
            script
                .replace(&format!("DISK{at}"), disk)
                .replace(&format!("SSD{at}"), ssd)
        };
        let cancelled = slowly(&mut vm, SERIALS[at][0], &named(CANCELLED), run);
        run.check(
            &format!("{name}: a canceled removal leaves it as before"),
            cancelled,
        );
        let kill = ["1", "6"][usize::from(name == "log")];
        let removed = named(REMOVED).replace("MOMENT", kill);
        let removed = seen_in(&mut vm, &removed, run);
        run.check(
            &format!("{name}: removed in use, and empty when it is set up again"),
            removed,
        );
    }
    let script = BCACHE
        .replace("SSD3", &names[6])
        .replace("FREE", &names[names.len() - 1]);
    let removed = seen_in(&mut vm, &script, run);
    run.check("bcache: the SSD is taken away in use, and is free", removed);
    let mut script = lvm::LARGE.to_owned();
    for (word, serial, mib) in [
        ("DISK", "BIGDISK1", MIB),
        ("SSD", "BIGSSD01", lvm::LARGE_MIB),
    ] {
        let wwn = 0x5000_c500_0000_0280 + mib;
        vm.plug(&disks::empty(
            scratch.path(),
            serial,
            wwn,
            mib,
            word == "SSD",
        )?)?;
        script = script.replace(
            &format!("/dev/{word}"),
            &format!("/dev/{}", vm.device(serial)?),
        );
    }
    let removed = seen_in(&mut vm, &script, run);
    run.check(
        "LVM: a cache of 256 GiB is written back and removed",
        removed,
    );
    let [.., ssd, disk] = names.as_slice() else {
        bail!("no disk is free");
    };
    let script = lvm::FAILING
        .replace("/dev/SSD", &format!("/dev/{ssd}"))
        .replace("/dev/DISK", &format!("/dev/{disk}"));
    let kept = slowly(&mut vm, SERIALS[SERIALS.len() - 1][0], &script, run)
        .and_then(|()| seen_in(&mut vm, lvm::WORKING, run));
    run.check("LVM: an SSD that fails while it is written back", kept);
    Ok(())
}

/// Runs a script while a disk is slow.
fn slowly(vm: &mut Vm, serial: &str, script: &str, run: &Run) -> Result<()> {
    throttle(vm, serial, SLOW)?;
    let done = seen_in(vm, script, run);
    throttle(vm, serial, 0)?;
    done
}

/// Runs a script. After a failure the state of the machine is noted.
fn seen_in(vm: &mut Vm, script: &str, run: &Run) -> Result<()> {
    let done = vm.agent.sh(script, LONG).map(|told| run.note(&told));
    if done.is_err() {
        let told = "journalctl --no-pager -o short-monotonic -u tandem | tail -30; dmsetup info; dmsetup table; dmsetup status; \
            head -c 2000 /run/tandem/others/* /var/lib/tandem/modes/*; systemctl list-units --all 'tandem-lv*'; dmesg | tail -20; exit 0";
        run.note(&vm.agent.sh(told, SHORT)?);
    }
    done
}

/// Lets a disk accept so many bytes a second; 0: as many as it can.
fn throttle(vm: &mut Vm, serial: &str, bytes: u64) -> Result<()> {
    let words = json!({ "id": serial, "bps": 0, "bps_rd": 0, "bps_wr": bytes, "iops": 0, "iops_rd": 0, "iops_wr": 0 });
    vm.qmp.run("block_set_io_throttle", words).map(drop)
}

fn seen(told: &str) -> Result<()> {
    let told: Value = serde_json::from_str(told)?;
    let others = told["others"].as_array().context("there is a list")?;
    for (at, ([kind, name, mode], [disk, ssd])) in KINDS.into_iter().zip(SERIALS).enumerate() {
        let cache = others.iter().find(|cache| cache["kind"] == kind);
        let cache = cache.with_context(|| format!("no {kind}"))?;
        let serial = |side: &str| {
            cache[side][0]["serial"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        ensure!(
            cache["name"] == name,
            "{kind}: the name is {}",
            cache["name"]
        );
        ensure!(
            cache["mode"] == mode,
            "{kind}: the mode is {}",
            cache["mode"]
        );
        ensure!(cache["state"] == "working", "{kind}: {}", cache["state"]);
        ensure!(
            serial("disks") == disk,
            "{kind}: the disk is {}",
            serial("disks")
        );
        ensure!(
            serial("ssds") == ssd,
            "{kind}: the SSD is {}",
            serial("ssds")
        );
        let place = format!("/srv/{at}");
        ensure!(
            cache["mount_points"][0] == place,
            "{kind}: {}",
            cache["mount_points"]
        );
        ensure!(
            cache["unwritten_known"] == true,
            "{kind} does not tell what the disk lacks"
        );
        ensure!(
            cache["cache_bytes"].as_u64() > Some(1 << 20),
            "{kind}: {}",
            cache["cache_bytes"]
        );
    }
    // What was saved a moment ago is on the SSD only where write-back waits.
    for kind in ["lvm-writecache", "bcache", "dm-writecache"] {
        let cache = others.iter().find(|cache| cache["kind"] == kind);
        let unwritten = cache.and_then(|cache| cache["unwritten_bytes"].as_u64());
        ensure!(
            unwritten > Some(1 << 20),
            "{kind}: {unwritten:?} bytes are unwritten"
        );
    }
    Ok(())
}

/// Each device, as a disk and as an SSD that may be erased, beside another that is free. Both free ones are accepted.
fn refused(vm: &mut Vm, run: &Run, names: &[String]) -> Result<()> {
    let [used @ .., free_ssd, free_disk] = names else {
        bail!("no disk is free");
    };
    let plan = |disk: &str, ssd: &str| format!("tandemctl plan --erase-ssd {disk} {ssd}");
    let mut asked = vec![(plan(free_disk, free_ssd), 0)];
    for name in used {
        asked.push((plan(name, free_ssd), 3));
        asked.push((plan(free_disk, name), 3));
    }
    // The cached volumes themselves: no second cache comes over the first.
    for volume in ["/dev/films/my-movies", "/dev/mail/box", "/dev/bcache0"] {
        let name = vm
            .agent
            .sh(&format!("basename $(readlink -f {volume})"), SHORT)?;
        asked.push((plan(name.trim(), free_ssd), 3));
    }
    for (line, code) in asked {
        let ended = vm.agent.run(&line, SHORT, |_| ())?;
        run.note(&format!("{line}: {}\n{}", ended.code, ended.text));
        ensure!(ended.code == code, "{line}: {}", ended.text);
    }
    // What a set-up by dmsetup leaves on its SSD when the machine was switched off.
    let left = format!(
        "printf '\\041\\223\\110\\043' | dd of=/dev/{free_ssd} conv=notrunc status=none; udevadm settle; \
         tandemctl plan {free_disk} {free_ssd} 2>&1; test $? -eq 3 && tandemctl plan --erase-ssd {free_disk} {free_ssd}"
    );
    let told = vm.agent.sh(&left, SHORT)?;
    run.note(&told);
    ensure!(
        told.matches("dm-writecache").count() >= 2,
        "the content is not named: {told}"
    );
    let sums = "for n in 0 1 2 3 4; do test -s /srv/$n/file || exit 1; done; dmsetup table --target tandem | grep . && exit 1; true";
    vm.agent.sh(sums, SHORT).map(drop)
}

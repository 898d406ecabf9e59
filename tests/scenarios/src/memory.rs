// SPDX-License-Identifier: GPL-3.0-or-later
//! A part of the computer's memory is in the place of the SSD: set up, given back while programs need it, made anew at each
//! start before the disk is mounted, and removed.

use anyhow::{Result, ensure};

use super::kept::{KeptMachine, Wiring};
use tandem_harness::layer::Run;

/// Memory has blocks of 4096 bytes. So has the file system of a large disk, but not that of this small one: it is made anew.
const LARGE_BLOCKS: &str = r#"set -e
tandemctl remove --yes
disk=$(findmnt -no SOURCE /home/anna/Archive)
uuid=$(blkid -s UUID -o value $disk)
cp -a /home/anna/Archive /var/tmp/files
umount /home/anna/Archive
mke2fs -q -F -t ext4 -b 4096 -L Archive -U $uuid $disk
udevadm settle
mount /home/anna/Archive
cp -a /var/tmp/files/. /home/anna/Archive
rm -r /var/tmp/files"#;
/// Sets the cache up. In the middle of it the service is killed once: then no memory is taken, and the disk is as before.
const CREATE: &str = r#"set -e
disk=$(findmnt -no SOURCE /home/anna/Archive)
refused() { code=0; tandemctl plan "$@" $disk || code=$?; [ $code = 3 ]; }
refused --memory 1TiB
refused --memory 1MiB
refused --memory 128MiB --mode writeback
[ ! -e /run/tandem/memory ] || [ -z "$(ls /run/tandem/memory)" ]
tandemctl create --yes --memory 128MiB $disk & job=$!
for _ in $(seq 400); do [ -n "$(ls /run/tandem/memory 2>/dev/null)" ] && break; done
systemctl kill --signal KILL tandem.service
[ -n "$(ls /var/lib/tandem/jobs)" ]
kill $job || true; wait $job || true
systemctl start tandem
for _ in $(seq 300); do
	[ -z "$(ls /var/lib/tandem/jobs 2>/dev/null)" ] && findmnt /home/anna/Archive >/dev/null && break
	sleep 0.2
done
if ! dmsetup ls --target tandem | grep -q tandem; then
	[ -z "$(ls /run/tandem/memory)" ]
	findmnt -no SOURCE /home/anna/Archive | grep $disk
	tandemctl create --yes --memory 128MiB $disk
fi
MEMORY
tandemctl status"#;
/// Programs need the memory: the disk is used alone, under the mounted file system. 200 MiB stay available of what was.
const GIVEN_BACK: &str = r#"set -e
mkdir -p /tmp/full; mount -t tmpfs -o size=95% tmpfs /tmp/full
set -- $(awk '/^MemTotal/ { t = $2 } /^MemAvailable/ { a = $2 } END { print a, t }' /proc/meminfo)
head -c $(($1 - $2 / 20))K /dev/zero >/tmp/full/file
for _ in $(seq 300); do [ -z "$(ls /run/tandem/memory)" ] && break; sleep 0.2; done
[ -z "$(ls /run/tandem/memory)" ]
if grep . /sys/block/zram*/disksize | grep 134217728; then exit 1; fi
findmnt -no SOURCE /home/anna/Archive | grep mapper/tandem
dmsetup table | grep tandem | grep linear
tandemctl status >/tmp/status; cat /tmp/status
grep -i 'programs need the memory' /tmp/status"#;
/// The memory is free again. A minute later the cache is back, empty, under the mounted file system.
const BACK: &str = r#"set -e
rm /tmp/full/file; umount /tmp/full
for _ in $(seq 600); do dmsetup ls --target tandem | grep -q tandem && break; sleep 0.2; done
MEMORY
tandemctl status"#;
/// Removed under a program that uses the file system.
const REMOVE: &str = r#"set -e
tandemctl remove --yes
[ -z "$(ls /run/tandem/memory)" ]
if grep . /sys/block/zram*/disksize | grep 134217728; then exit 1; fi
if dmsetup ls | grep tandem; then exit 1; fi
tandemctl --json list | tr -d ' \n' | grep '"caches":\[\]' >/dev/null"#;

/// Runs the layer.
pub fn run(run: &mut Run) -> Result<()> {
    let mut machine = KeptMachine::new(run, Wiring::HotPlug)?;
    machine.step(run, LARGE_BLOCKS)?;
    let begun = machine.step(run, CREATE).and_then(|()| machine.hits(run));
    run.check("set up, with a killed service", begun);
    let given = machine
        .step(run, GIVEN_BACK)
        .and_then(|()| machine.save("without-memory"))
        .and_then(|()| machine.all_there());
    run.check("memory that programs need is given back", given);
    let back = machine.step(run, BACK).and_then(|()| machine.hits(run));
    run.check("memory that is free again is taken", back);
    let started = machine.starts_anew(run);
    run.check(
        "a start makes the memory before the disk is mounted",
        started,
    );
    let removed = machine.step(run, REMOVE).and_then(|()| machine.all_there());
    run.check("removed, and all memory is free", removed);
    Ok(())
}

impl KeptMachine {
    /// Runs a script. After a failure the state of the machine is noted.
    fn step(&mut self, run: &Run, script: &str) -> Result<()> {
        let memory = r#"findmnt -no SOURCE /home/anna/Archive | grep mapper/tandem
name=$(cut -d " " -f 1 /run/tandem/memory/*)
[ $(cat /sys/block/$name/disksize) = 134217728 ]
dmsetup table --target tandem | grep " $(cat /sys/block/$name/dev) ""#;
        let done = self.sh(&script.replace("MEMORY", memory));
        if done.is_err() {
            let told = "journalctl --no-pager -b -o short-monotonic | tail -60; dmsetup table; lsblk; \
                tail -n +1 /run/tandem/memory/* /run/tandem/*.told /sys/block/zram*/disksize; free -m; udevadm info /dev/zram*; exit 0";
            let told = self.sh(told)?;
            run.note(&told);
        }
        run.note(&done?);
        Ok(())
    }

    /// All files are right, and what was read once comes from memory.
    fn hits(&mut self, run: &Run) -> Result<()> {
        self.all_there()?;
        let before = self.counter("read_hit")?;
        self.all_there()?;
        let hits = self.counter("read_hit")? - before;
        let told = self.sh("dmsetup status")?;
        run.note(&format!("{hits} sectors came from memory: {told}"));
        ensure!(hits >= 50_000, "only {hits} sectors came from memory");
        Ok(())
    }

    fn starts_anew(&mut self, run: &Run) -> Result<()> {
        self.save("before-start")?;
        self.power_off(run)?;
        self.power_on(run, true)?;
        self.assembled()?;
        let used = self.counter("fills")?;
        self.hits(run)?;
        run.note(&format!("{used} fills before the files were read"));
        // Without a stop in order.
        self.save("before-cut")?;
        self.vm = None;
        self.power_on(run, true)?;
        self.assembled()?;
        self.hits(run)
    }
}

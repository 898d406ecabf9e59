// SPDX-License-Identifier: GPL-3.0-or-later
//! The power is cut while LVM writes a cache back for Tandem. The next start writes the rest back and puts the mode back, also if the
//! disks appear long after the service.

use anyhow::Result;

use super::{SLOW, lvm, seen_in, throttle};
use crate::kept::BOOT;
use crate::scene::machine_with_root;
use tandem_guest::disks::{self, Scratch};
use tandem_guest::vm::{Parts, Vm};
use tandem_harness::layer::Run;

/// The name of the test.
pub(super) const CASE: &str =
    "LVM: the start after a power cut ends a write-back and puts the mode back";
/// Size of each disk in MiB.
const MIB: u64 = 256;
/// Serial numbers of the disk and of the SSD.
const SERIALS: [&str; 2] = ["CUTDISK1", "CUTSSD01"];
/// Sets the cache up, and begins to write it back. LVM has begun then.
const BEGUN: &str = r#"vgcreate -q films /dev/DISK /dev/SSD
lvcreate -q -y -n my-movies -l 100%PVS films /dev/DISK
lvcreate -q -y -n fast -L 64M films /dev/SSD
lvconvert -q -y --type cache --cachevol fast --cachemode writeback films/my-movies
mke2fs -q -t ext4 /dev/$volume
mkdir -p $place
mount /dev/$volume $place
dd if=/dev/urandom of=$place/file bs=64k count=64 conv=fsync status=none
for _ in $(seq 150); do tandemctl list | grep -q $volume && break; sleep 0.2; done
fill
sync
setsid -f tandemctl flush $volume >/dev/null 2>&1 </dev/null
for _ in $(seq 400); do if dmsetup table $mapping | grep -q cleaner; then break; fi; sleep 0.05; done
dmsetup table $mapping | grep cleaner
grep '"pool":\[' $notes/*.json"#;
/// The service has run for longer than it stays without work before the disks appear, and nobody asks it for anything.
const EARLY: &str = r#"set -e
for _ in $(seq 300); do if systemctl is-active --quiet tandem.service; then break; fi; sleep 0.2; done
systemctl is-active tandem.service
ls /var/lib/tandem/modes/*.json
sleep 80
systemctl is-active tandem.service"#;
/// All is as before, without a question by anybody.
const AFTER: &str = r#"for _ in $(seq 300); do if dmsetup info $mapping >/dev/null 2>&1; then break; fi; sleep 0.2; done
dmsetup status $mapping
for _ in $(seq 600); do [ -n "$(ls $notes)" ] || break; sleep 0.2; done
[ -z "$(ls $notes)" ]
mount /dev/$volume $place
as_before"#;

/// Runs the test.
pub(super) fn run(run: &mut Run) -> Result<()> {
    let parts = Parts::get(run.cx)?;
    let scratch = Scratch::new()?;
    let (dir, mut vm) = machine_with_root(run, &parts, &scratch)?;
    let [disk, ssd] = [(0, false), (1, true)].map(|(at, is_ssd)| {
        let wwn = 0x5000_c500_0000_0290 + at as u64;
        disks::empty(scratch.path(), SERIALS[at], wwn, MIB, is_ssd)
    });
    let plugged = [disk?, ssd?];
    let mut script = format!("{}{BEGUN}", lvm::SHARED);
    for (disk, word) in plugged.iter().zip(["DISK", "SSD"]) {
        vm.plug(disk)?;
        script = script.replace(word, &vm.device(disk.serial)?);
    }
    throttle(&mut vm, SERIALS[0], SLOW)?;
    let begun = seen_in(&mut vm, &script, run);
    drop(vm);
    let ended = begun.and_then(|()| {
        let mut vm = Vm::power_on(run.cx, &parts, &dir)?;
        vm.up(BOOT)?;
        seen_in(&mut vm, EARLY, run)?;
        for disk in &plugged {
            vm.plug(disk)?;
        }
        seen_in(&mut vm, &format!("{}{AFTER}", lvm::SHARED), run)
    });
    run.check(CASE, ended);
    Ok(())
}

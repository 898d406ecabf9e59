// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches of other systems by clicks in the real app, while a program writes through each: the last hour is shown, everything is
//! written back, and the cache is removed.

use anyhow::{Result, ensure};

use super::{SLOW, throttle};
use crate::demo::{drive, show_failure, start_app};
use tandem_guest::disks::{self, Scratch};
use tandem_guest::guest::{LONG, SHORT};
use tandem_guest::image::PASSWORD;
use tandem_guest::vm::{Parts, Screen, Vm};
use tandem_harness::layer::Run;
use tandem_harness::report::Report;

/// The name of the test.
pub(super) const CASE: &str = "by clicks: each is shown, written back and removed under load";
/// Size of each disk in MiB.
const MIB: u64 = 256;
/// Serial numbers of the disk and of the SSD.
const SERIALS: [&str; 2] = ["CLDISK01", "CLSSD001"];

/// A system, one at a time on the same two devices.
struct System {
    /// The name of the cache in its row.
    name: &'static str,
    /// The mapping with the file system.
    device: &'static str,
    make: &'static str,
    /// Fails while something is on the SSD only.
    clean: &'static str,
    /// Fails while there is a cache, or a mapping of the SSD.
    plain: &'static str,
    /// Gives the two devices free.
    clear: &'static str,
}

const SYSTEMS: [System; 3] = [
    System {
        name: "films/my-movies",
        device: "/dev/films/my-movies",
        make: "vgcreate -q films /dev/DISK /dev/SSD
lvcreate -q -y -n my-movies -l 100%PVS films /dev/DISK
lvcreate -q -y -n fast -L 64M films /dev/SSD
lvconvert -q -y --type cache --cachevol fast --cachemode writeback films/my-movies",
        clean: "test $(dmsetup status films-my--movies | awk '{ print $14 }') -le 64",
        plain: "lvs --noheadings -o segtype films/my-movies | grep -q linear",
        clear: "vgremove -q -y films
pvremove -q -y /dev/DISK /dev/SSD",
    },
    System {
        name: "slow",
        device: "/dev/mapper/slow",
        make: r#"wipefs -qa /dev/DISK /dev/SSD
dmsetup create slow-meta --table "0 16384 linear /dev/SSD 0"
dmsetup create slow-data --table "0 131072 linear /dev/SSD 16384"
dd if=/dev/zero of=/dev/mapper/slow-meta bs=4k count=1 status=none
dmsetup create slow --table "0 $(blockdev --getsz /dev/DISK) cache /dev/mapper/slow-meta /dev/mapper/slow-data /dev/DISK 128 1 writeback smq 0""#,
        clean: "test $(dmsetup status slow | awk '{ print $14 }') -le 64",
        plain: "dmsetup table slow | grep -q ' linear ' && [ ! -e /dev/mapper/slow-meta ] && [ ! -e /dev/mapper/slow-data ]",
        clear: "dmsetup remove --retry slow
wipefs -qa /dev/DISK
dd if=/dev/zero of=/dev/SSD bs=1M count=16 conv=notrunc status=none",
    },
    System {
        name: "bcache0",
        device: "/dev/bcache0",
        make: "modprobe bcache
make-bcache --bucket 64k --writeback -C /dev/SSD -B /dev/DISK
for device in SSD DISK; do echo /dev/$device >/sys/fs/bcache/register_quiet || true; done
until [ -b /dev/bcache0 ] && [ -e /sys/block/bcache0/bcache/cache ]; do sleep 0.1; done
echo 0 >/sys/block/bcache0/bcache/writeback_running",
        clean: "grep -q '^[0-9.]*k$' /sys/block/bcache0/bcache/dirty_data",
        plain: "test ! -e /sys/block/bcache0/bcache/cache",
        clear: "true",
    },
];
/// A file system with a file, of which something is on the SSD only, and a program that writes 4 KiB each second.
const FILLED: &str = "mke2fs -q -t ext4 DEVICE
mkdir -p /srv/place
mount DEVICE /srv/place
dd if=/dev/urandom of=/srv/place/file bs=64k count=160 conv=fsync status=none
sha256sum /srv/place/file >/root/sums
systemd-run --quiet --unit=load sh -c 'while sleep 1; do \
	dd if=/dev/urandom of=/srv/place/load bs=4k count=1 conv=notrunc,fsync status=none || exit 1; done'";
/// More is saved, so that there is something to be written back.
const MORE: &str =
    "dd if=/dev/urandom of=/srv/place/file bs=64k count=160 conv=notrunc,fsync status=none
sha256sum /srv/place/file >/root/sums";
/// The program has written all the time, and the file is as it was saved.
const SAME: &str = "systemctl is-active load
systemctl stop load
echo 3 >/proc/sys/vm/drop_caches
sha256sum --check --quiet /root/sums";

/// Script that lets the user write back without a password. For how long a password counts depends on the clock.
const GRANT: &str = r#"cat >/etc/polkit-1/rules.d/10-tune.rules <<END
polkit.addRule(function(action) {
    if (action.id == "org.tandemcache.Tandem1.tune")
        return polkit.Result.YES;
});
END
for try in $(seq 100); do
	pkcheck --action-id org.tandemcache.Tandem1.tune --process $(pgrep -u anna -x tandem) && exit 0
	sleep 0.2
done
exit 1"#;

/// Runs the test.
pub(super) fn run(run: &mut Run) -> Result<()> {
    let parts = Parts::get(run.cx)?;
    let mut vm = Vm::installed(run.cx, &parts, Screen::Hidden)?;
    let scratch = Scratch::new()?;
    let mut names = Vec::new();
    for (serial, is_ssd) in SERIALS.into_iter().zip([false, true]) {
        let wwn = 0x5000_c500_0000_02a0 + u64::from(is_ssd);
        let disk = disks::empty(scratch.path(), serial, wwn, MIB, is_ssd)?;
        vm.plug(&disk)?;
        names.push(vm.device(serial)?);
    }
    let mut report = Report::new(&run.cx.target.join("vm-others"), "Caches of other systems")?;
    start_app(&mut vm, &mut report)?;
    vm.agent.sh(GRANT, SHORT)?;
    let mut all = Ok(());
    for system in &SYSTEMS {
        report.chapter(system.name);
        all = by_clicks(&mut vm, &mut report, system, &names);
        if let Err(error) = &all {
            run.note(&show_failure(&mut vm, &mut report, error));
            break;
        }
    }
    report.finish()?;
    run.check(CASE, all);
    Ok(())
}

fn by_clicks(vm: &mut Vm, report: &mut Report, system: &System, names: &[String]) -> Result<()> {
    let [disk, ssd] = names else {
        anyhow::bail!("there are a disk and an SSD");
    };
    let script = |words: &str| {
        let words = words.replace("DISK", disk).replace("SSD", ssd);
        format!("set -e\n{}", words.replace("DEVICE", system.device))
    };
    let until = |words: &str| {
        format!("for _ in $(seq 600); do if {words}; then exit 0; fi; sleep 0.2; done; exit 1")
    };
    vm.agent.sh(&script(system.make), LONG)?;
    vm.agent.sh(&script(FILLED), LONG)?;
    let name = system.name;
    drive(vm, report, &format!("wait '*{name}*'"))?;
    drive(
        vm,
        report,
        &format!("show --shot {}-found", name.replace('/', "-")),
    )?;

    drive(vm, report, "enter 'Seagull Barge 64*' 'Seagull Barge 64*'")?;
    drive(vm, report, "wait 'Read from SSD'")?;
    drive(vm, report, "show --shot last-hour")?;
    drive(vm, report, "press Close")?;

    // Something waits for the slow disk until the menu has been pressed.
    throttle(vm, SERIALS[0], SLOW)?;
    vm.agent.sh(&script(MORE), LONG)?;
    let clean = vm.agent.sh(&script(system.clean), SHORT);
    ensure!(clean.is_err(), "{name}: nothing is on the SSD only");
    // The menu offers that as soon as the app knows of it.
    drive(vm, report, "wait '*not yet on the hard disk*'")?;
    drive(vm, report, "press 'Cache Menu'")?;
    drive(vm, report, "press 'Write Everything to the Hard Disk Now'")?;
    throttle(vm, SERIALS[0], 0)?;
    vm.agent
        .sh(&until(&script(system.clean).replace("set -e\n", "")), LONG)?;
    report.step("everything is on the hard disk");
    drive(vm, report, "wait 'Cache Menu'")?;

    vm.agent.sh(&script(MORE), LONG)?;
    drive(vm, report, &format!("remove-other --password {PASSWORD}"))?;
    vm.agent.sh(&until(system.plain), LONG)?;
    vm.agent.sh(&script(SAME), LONG)?;
    report.step("the cache is gone, and the files are as they were");
    vm.agent.sh("umount /srv/place", SHORT)?;
    vm.agent.sh(&script(system.clear), LONG).map(drop)
}

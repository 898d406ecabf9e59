// SPDX-License-Identifier: GPL-3.0-or-later
//! The hard disk is missing when the machine starts and comes after the start has stopped waiting for it, with data on
//! its SSD only. udev must hold the disk before any other program can use it. fstab has `nofail`, or the start would
//! stop.

use anyhow::{Result, ensure};

use super::MOUNTED;
use crate::kept::{BOOT, KeptMachine, STARTED};
use tandem_guest::guest::{MOUNT_POINT, SHORT};
use tandem_guest::vm::Vm;
use tandem_harness::hash;
use tandem_harness::layer::Run;

/// Script that ends when the early part of the start has gone on without the disk.
const GONE_ON: &str = r#"
for _ in $(seq 600); do
	case $(systemctl show --value --property ActiveState tandem-assemble) in
	active|failed) break;;
	esac
	sleep 0.2
done
ls /run/tandem/late | grep -q . && exit 0
echo "no mark"; systemctl status tandem-assemble; lsblk
journalctl -b --no-pager -o short-monotonic | tail -40
exit 1"#;
/// Script that ends when the mapping that holds the disk exists. Its mark stays, because the disk may come back as
/// another device.
const HELD: &str = r#"
for _ in $(seq 300); do
	if dmsetup table --inactive | grep -q "^tandem-.* linear " && ls /run/tandem/late | grep -q .; then
		exit 0
	fi
	sleep 0.2
done
echo "it is not held"; ls /run/tandem/late; lsblk; dmsetup info
journalctl -b --no-pager -o short-monotonic | tail -60
exit 1"#;
/// Script that ends when the machine has lost the disk.
const GONE: &str = "for _ in $(seq 100); do lsblk -dno SERIAL | grep -qx WANTED || exit 0; sleep 0.1; done; lsblk; exit 1";
/// Script that ends when the mapping leads to this disk and is mounted.
const MOVED: &str = r#"
for _ in $(seq 300); do
	dmsetup table | grep -q " tandem $(cat /sys/class/block/DISK1/dev) " && udevadm settle &&
		systemctl start home-anna-Archive.mount && findmnt /home/anna/Archive && exit 0
	sleep 0.2
done
echo "it leads elsewhere"; lsblk; dmsetup table; journalctl -b --no-pager -o short-monotonic | tail -60
exit 1"#;
/// Commands that add `nofail` to fstab, and take it away.
const NOFAIL: &str = "sed -i 's/ext4 noatime/ext4 nofail,noatime/' /etc/fstab; systemctl daemon-reload; grep -q nofail,noatime /etc/fstab";
const FAIL: &str =
    "sed -i 's/ext4 nofail,noatime/ext4 noatime/' /etc/fstab; systemctl daemon-reload";
/// Script that prints the drop-in that udev's program wrote: with it the mount waits for the cache.
const LEFT_OUT: &str = "cat /run/systemd/system/home-anna-Archive.mount.d/50-tandem.conf";

impl KeptMachine {
    /// Saves data that stays on the SSD only, and starts without the hard disk until the start no longer waits for it.
    fn start_without_disk(&mut self, run: &Run, name: &str, ssd: bool) -> Result<u64> {
        self.sh(NOFAIL)?;
        let left = self.leave_dirty(name)?;
        self.power_off(run)?;
        let mut vm = Vm::power_on(run.cx, &self.parts, &self.dir)?;
        if ssd {
            vm.plug(&self.pair.ssd)?;
        }
        vm.up(BOOT)?;
        vm.agent.sh(GONE_ON, BOOT)?;
        self.vm = Some(vm);
        Ok(left)
    }

    /// The disk comes while the mount of fstab still waits for it, and its SSD is there.
    pub(crate) fn late_with_ssd(&mut self, run: &Run) -> Result<()> {
        let left = self.start_without_disk(run, "before-disk-was-late", true)?;
        let waiting = self.sh("systemctl list-jobs --no-legend; cut -d' ' -f1 /proc/uptime")?;
        run.note(&format!("the disk comes while these wait:\n{waiting}"));
        let disk = self.pair.origin.clone();
        self.vm()?.plug(&disk)?;
        // fstab mounts the disk, without a command of the test.
        self.sh(MOUNTED)?;
        let told = self.vm()?.agent.sh(STARTED, BOOT)?;
        run.note(&told);
        let left_out = self.sh(LEFT_OUT)?;
        run.note(&left_out);
        self.assembled()?;
        self.still_dirty(run, left)?;
        self.all_there()?;
        self.sh(FAIL).map(drop)
    }

    /// The link of the disk is reset while its file system is mounted and the service does not run. The disk comes back
    /// as another device, and its mapping leads nowhere.
    pub(crate) fn comes_back(&mut self, run: &Run) -> Result<()> {
        let left = self.leave_dirty("before-disk-came-back")?;
        let disk = self.pair.origin.clone();
        // Some writes of the file system would find their place on the SSD, and others would not.
        self.sh("for name in /dev/mapper/tandem-*; do dmsetup message ${name##*/} 0 drop; done")?;
        self.sh("systemctl mask --runtime --now tandem")?;
        self.vm()?.unplug(&disk)?;
        self.sh(&GONE.replace("WANTED", disk.serial))?;
        let before = hash::file(&disk.file)?;
        self.vm()?.plug_again(&disk)?;
        self.sh(HELD)?;
        let name = self.vm()?.device(disk.serial)?;
        self.is_refused_to_all(run, &name)?;
        ensure!(
            hash::file(&disk.file)? == before,
            "the disk was written beside its mapping"
        );
        self.sh(&format!(
            "systemctl unmask --runtime tandem && systemctl start tandem && umount {MOUNT_POINT}"
        ))?;
        self.sh(&MOVED.replace("DISK", &name))?;
        self.assembled()?;
        self.still_dirty(run, left)?;
        self.all_there()
    }

    /// Neither a mount nor a check of the disk's partition may go well.
    fn is_refused_to_all(&mut self, run: &Run, name: &str) -> Result<()> {
        for tried in [
            "mount /dev/DISK1 /mnt",
            "udisksctl mount --no-user-interaction -b /dev/DISK1",
            "e2fsck -p /dev/DISK1",
        ] {
            self.is_refused(run, &tried.replace("DISK", name))?;
        }
        Ok(())
    }

    fn is_refused(&mut self, run: &Run, line: &str) -> Result<()> {
        let ended = self.vm()?.agent.run(line, SHORT, |_| ())?;
        run.note(&format!("{line}: {}\n{}", ended.code, ended.text));
        ensure!(ended.code != 0, "{line} went well");
        Ok(())
    }

    /// The disk comes long after the start, and its SSD is missing as well.
    pub(crate) fn late_without_ssd(&mut self, run: &Run) -> Result<()> {
        let left = self.start_without_disk(run, "before-both-were-late", false)?;
        let before = hash::file(&self.pair.origin.file)?;
        let told = self.vm()?.agent.sh(STARTED, BOOT)?;
        run.note(&told);
        let (disk, ssd) = (self.pair.origin.clone(), self.pair.ssd.clone());
        self.vm()?.plug(&disk)?;
        self.sh(HELD)?;
        let name = self.vm()?.device(disk.serial)?;
        self.is_refused(
            run,
            "systemctl start home-anna-Archive.mount && findmnt /home/anna/Archive",
        )?;
        self.is_refused_to_all(run, &name)?;
        let source = self.source()?;
        ensure!(source.is_empty(), "mounted from {source}");
        let listed = self.sh("tandemctl --json list")?;
        ensure!(
            listed.contains("ssd-gone-dirty"),
            "the list does not tell: {listed}"
        );
        ensure!(
            hash::file(&disk.file)? == before,
            "the disk was written without its SSD"
        );
        self.vm()?.plug(&ssd)?;
        self.sh(MOUNTED)?;
        self.still_dirty(run, left)?;
        self.all_there()?;
        self.sh(FAIL).map(drop)
    }
}

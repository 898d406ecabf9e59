// SPDX-License-Identifier: GPL-3.0-or-later
//! The machine is switched off and on again: cleanly and without warning, with and without its SSD. fstab mounts the
//! disk by its UUID at every start and without `nofail`, so that a start that cannot mount the disk stops.

mod emergency;
mod killed;
mod late;
pub mod ports;
mod shutdown;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::kept::{KeptMachine, Wiring};
use tandem_guest::guest::{MOUNT_POINT, SHORT, Sectors};
use tandem_harness::hash;
use tandem_harness::layer::Run;

/// Script that ends when the file system is mounted through the cache.
const MOUNTED: &str = r#"
for _ in $(seq 1000); do
	case $(findmnt --noheadings --output SOURCE /home/anna/Archive) in /dev/mapper/tandem-*) exit 0;; esac
	sleep 0.2
done
echo "it is not mounted"; lsblk; systemctl status home-anna-Archive.mount
journalctl -b --no-pager -o short-monotonic | tail -40
exit 1"#;
/// Script that ends when an attempt to start the cache has failed.
const TRIED: &str = r#"
for _ in $(seq 1000); do
	journalctl -b --no-pager -o cat -u tandem | grep -q 'cannot assemble' && exit 0
	sleep 0.2
done
echo "nobody has tried"; lsblk; journalctl -b --no-pager -o short-monotonic | tail -40
exit 1"#;

type Test = fn(&mut KeptMachine, &Run) -> Result<()>;

/// The layer's tests. Each test starts from the disks in the state that the test before it has left.
const CASES: [(&str, Test); 11] = [
    // promise 13: vm-restart/a restart in write-through comes back warm
    (
        "a restart in write-through comes back warm",
        KeptMachine::warm,
    ),
    (
        "a restart in write-back keeps what is on the SSD only",
        KeptMachine::dirty,
    ),
    (
        "a cut in write-back keeps what was flushed",
        KeptMachine::cut,
    ),
    // promise 32: vm-restart/a start in emergency mode keeps the disk from its tools
    (
        "a start in emergency mode keeps the disk from its tools",
        KeptMachine::in_emergency,
    ),
    (
        "a shutdown that writes everything back leaves a disk that needs no SSD",
        KeptMachine::drained_before_off,
    ),
    (
        "a disk that comes late is mounted through its cache only",
        KeptMachine::late_with_ssd,
    ),
    // promise 20, 32: vm-restart/a disk whose link was reset is held beside its mapping
    (
        "a disk whose link was reset is held beside its mapping",
        KeptMachine::comes_back,
    ),
    (
        "a disk that comes when the start is over waits for its SSD",
        KeptMachine::late_without_ssd,
    ),
    (
        "a start without the SSD holds a disk that waits for it",
        KeptMachine::without_ssd_dirty,
    ),
    (
        "a start without the SSD uses a disk that lacks nothing",
        KeptMachine::without_ssd_clean,
    ),
    (
        "a start without the module does the same",
        KeptMachine::without_module,
    ),
];
/// Commands that begin and end to note the requests to block devices. The second one prints those of the programs that
/// read in between.
const NOTE_REQUESTS: &str = "mount -t tracefs t /sys/kernel/tracing 2>/dev/null; cd /sys/kernel/tracing && echo 1 >events/block/block_rq_issue/enable";
const NOTED_REQUESTS: &str = "cd /sys/kernel/tracing && echo 0 >events/block/block_rq_issue/enable; grep 'block_rq_issue: 8,' trace | tail -40; dmsetup status";
/// Script that ends when ext4's own thread has read the block bitmaps, some seconds after a mount.
const BITMAPS_READ: &str = "for _ in $(seq 200); do grep -qsx ext4lazyinit /proc/[0-9]*/comm || exit 0; sleep 0.1; done; echo ext4lazyinit works; exit 1";
/// How often all files are read, at most, until the SSD has all of them.
const FILLING: usize = 5;
/// How many of the tests run without `--all`.
const ORDINARY: usize = 5;

/// Runs the layer. For one case it also runs the tests before that case.
pub fn run(run: &mut Run) -> Result<()> {
    let mut machine = KeptMachine::new(run, Wiring::HotPlug)?;
    let number = if run.is_whole() {
        CASES.len()
    } else {
        ORDINARY
    };
    for (name, test) in CASES.into_iter().take(number) {
        let result = test(&mut machine, run);
        run.check(name, result);
        if run.is_done() {
            break;
        }
    }
    Ok(())
}

impl KeptMachine {
    /// The file system must be mounted through the cache, and the cache must have been there before the first mount.
    pub(crate) fn assembled(&mut self) -> Result<()> {
        let source = self.source()?;
        ensure!(
            source.starts_with("/dev/mapper/tandem-"),
            "mounted from '{source}'"
        );
        let raw = "journalctl -b --no-pager -o cat | grep -E 'EXT4-fs \\(sd[a-z]' || true";
        let raw = self.sh(raw)?;
        ensure!(
            raw.is_empty(),
            "the disk was mounted without its cache: {raw}"
        );
        // By the messages of the unit itself: the kernel drops some of systemd's messages so early in the start.
        let ran = self.sh(
            "journalctl -b --no-pager -o json -u tandem-assemble | grep -oE 'INVOCATION_ID\":\"[0-9a-f]{32}' | sort -u | wc -l",
        )?;
        ensure!(ran == "1", "the unit ran {ran} times");
        Ok(())
    }

    fn disk_sectors(&mut self) -> Result<Sectors> {
        let serial = self.pair.origin.serial;
        let vm = self.vm()?;
        let disk = vm.device(serial)?;
        vm.sectors(&disk)
    }

    /// Reads all files until the SSD has all of them. A read that finds the SSD busy leaves no copy there, and on a busy
    /// computer some reads do. Each round mounts the file system anew: like a start, it then reads metadata that otherwise
    /// stays in memory.
    fn fill(&mut self) -> Result<()> {
        let mut read = 0;
        for _ in 0..FILLING {
            self.sh(&format!("umount {MOUNT_POINT} && mount {MOUNT_POINT}"))?;
            self.sh(BITMAPS_READ)?;
            let before = self.disk_sectors()?;
            self.all_there()?;
            read = (self.disk_sectors()? - before).read;
            if read == 0 {
                return Ok(());
            }
        }
        bail!("{read} sectors of the files do not get onto the SSD");
    }

    fn warm(&mut self, run: &Run) -> Result<()> {
        self.fill()?;
        self.power_off(run)?;
        self.power_on(run, true)?;
        self.assembled()?;
        let (fills, hits) = (self.counter("fills")?, self.counter("read_hit")?);
        self.sh(NOTE_REQUESTS)?;
        let before = self.disk_sectors()?;
        self.all_there()?;
        let read = (self.disk_sectors()? - before).read;
        let requests = self.sh(NOTED_REQUESTS)?;
        let fills = self.counter("fills")? - fills;
        let hits = self.counter("read_hit")? - hits;
        run.note(&format!(
            "warm: {hits} sectors hit, {fills} fills, {read} sectors read from the disk"
        ));
        // 49.25 MiB of files.
        ensure!(hits >= 100_000, "only {hits} sectors came from the SSD");
        ensure!(
            fills == 0 && read == 0,
            "{fills} fills, {read} sectors from the disk:\n{requests}"
        );
        Ok(())
    }

    fn dirty(&mut self, run: &Run) -> Result<()> {
        self.sh("tandemctl mode --yes writeback")?;
        let before = self.leave_dirty("before-restart")?;
        self.power_off(run)?;
        self.comes_back_dirty(run, before)
    }

    fn cut(&mut self, run: &Run) -> Result<()> {
        let before = self.leave_dirty("before-cut")?;
        self.vm = None;
        self.comes_back_dirty(run, before)
    }

    /// Starts with both devices. Data that was on the SSD only must be there, or on the disk by now.
    fn comes_back_dirty(&mut self, run: &Run, before: u64) -> Result<()> {
        self.power_on(run, true)?;
        self.assembled()?;
        self.still_dirty(run, before)?;
        self.all_there()
    }

    fn without_ssd_dirty(&mut self, run: &Run) -> Result<()> {
        let left = self.leave_dirty("before-ssd-was-gone")?;
        self.power_off(run)?;
        let before = hash::file(&self.pair.origin.file)?;
        self.power_on(run, false)?;
        let source = self.source()?;
        ensure!(source.is_empty(), "mounted from {source}");
        let serial = self.pair.origin.serial;
        let disk = self.vm()?.device(serial)?;
        for tried in [
            "mount /dev/DISK1 /mnt",
            "e2fsck -p /dev/DISK1",
            "mke2fs -qF /dev/DISK1",
        ] {
            let line = tried.replace("DISK", &disk);
            let ended = self.vm()?.agent.run(&line, SHORT, |_| ())?;
            run.note(&format!("{line}: {}\n{}", ended.code, ended.text));
            ensure!(ended.code != 0, "{line} went well");
        }
        let listed = self.sh("tandemctl --json list")?;
        ensure!(
            listed.contains("ssd-gone-dirty"),
            "the list does not tell: {listed}"
        );
        self.limit_start()?;
        self.power_off(run)?;
        ensure!(
            hash::file(&self.pair.origin.file)? == before,
            "the disk was written without its SSD"
        );
        self.killed_without_ssd(run)?;
        self.damaged_ssd(run)?;
        let ssd = self.pair.ssd.clone();
        self.vm()?.plug(&ssd)?;
        // fstab mounts the disk, without a command of the test.
        self.sh(MOUNTED)?;
        self.still_dirty(run, left)?;
        self.all_there()
    }

    /// The SSD comes back with an unreadable index: its cache must not start, and the disk must be held as before.
    fn damaged_ssd(&mut self, run: &Run) -> Result<()> {
        let (disk, ssd) = (self.pair.origin.serial, self.pair.ssd.clone());
        let copy = self.dir.join("damaged.raw");
        damaged_copy(&ssd.file, &copy)?;
        self.vm()?.plug_copy(&ssd, &copy)?;
        self.sh(TRIED)?;
        let disk = self.vm()?.device(disk)?;
        let line = format!("mount /dev/{disk}1 /mnt");
        let ended = self.vm()?.agent.run(&line, SHORT, |_| ())?;
        let told = self.sh("dmsetup info; dmsetup table --inactive; tandemctl --json list")?;
        run.note(&format!("{}\n{told}", ended.text));
        ensure!(ended.code != 0, "a disk that waits for its SSD was mounted");
        let gone = format!("/sys/block/{}", self.vm()?.device(ssd.serial)?);
        self.vm()?.unplug(&ssd)?;
        self.sh(&format!(
            "for _ in $(seq 100); do [ -e {gone} ] || exit 0; sleep 0.1; done; exit 1"
        ))?;
        Ok(())
    }

    fn without_ssd_clean(&mut self, run: &Run) -> Result<()> {
        self.sh("tandemctl mode --yes writethrough; tandemctl flush")?;
        let end = "until tandemctl --json list | grep -q writethrough && ! grep -q 'may_be_dirty\": true' /var/lib/tandem/caches/*; do sleep 0.2; done";
        self.sh(end)?;
        self.power_off(run)?;
        self.power_on(run, false)?;
        let source = self.source()?;
        ensure!(source.starts_with("/dev/sd"), "mounted from '{source}'");
        // A file whose data is on the SSD changes on the disk without the cache.
        self.save("before-restart")?;
        self.all_there()?;
        self.power_off(run)?;
        self.power_on(run, true)?;
        self.assembled()?;
        self.all_there()
    }

    fn without_module(&mut self, run: &Run) -> Result<()> {
        let module = "/lib/modules/$(uname -r)/updates/dm-tandem.ko";
        self.sh(&format!("mv {module} {module}.away"))?;
        self.power_off(run)?;
        self.power_on(run, true)?;
        let source = self.source()?;
        ensure!(source.starts_with("/dev/sd"), "mounted from '{source}'");
        self.all_there()
    }
}

/// Copies an SSD and damages the bytes between the superblocks and the data.
fn damaged_copy(ssd: &Path, copy: &Path) -> Result<()> {
    let mut bytes = fs::read(ssd)?;
    // Both numbers are from FORMAT.md: where the regions of metadata begin, and where the superblock has the start of
    // the data.
    let sectors = bytes.get(200..208).context("an SSD without a superblock")?;
    let data = usize::try_from(u64::from_le_bytes(sectors.try_into()?) * 512)?;
    let metadata = bytes.get_mut(1 << 20..data).context("no data")?;
    for block in metadata
        .chunks_mut(4096)
        .filter(|b| b.iter().any(|b| *b != 0))
    {
        block[0] ^= 1;
    }
    Ok(fs::write(copy, bytes)?)
}

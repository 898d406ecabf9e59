// SPDX-License-Identifier: GPL-3.0-or-later
//! The machine is switched off and on again: cleanly and without warning, with and without its SSD. fstab mounts the
//! disk by its UUID at every start and without `nofail`, so that a start that cannot mount the disk stops.

mod late;
pub mod ports;
mod shutdown;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, mem};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::cx::Cx;
use crate::disks::{self, Pair, Scratch};
use crate::guest::{LONG, MOUNT_POINT, SHORT, Sectors};
use crate::layer::Bench;
use crate::vm::{Disk, Parts, Port, Vm};
use crate::{hash, stage};

/// Longest time from power on until the desktop's targets are reached, on a busy machine without KVM.
pub(super) const BOOT: Duration = Duration::from_secs(300);
/// Script that ends when the start is over; prints how the start failed.
pub(super) const STARTED: &str = r#"
end=$(($(date +%s) + 240))
until [ "$(systemctl is-active multi-user.target)" = active ] && [ -z "$(systemctl list-jobs --no-legend)" ]; do
	if [ "$(date +%s)" -gt $end ]; then
		echo "the start does not end"; systemctl list-jobs; lsblk; dmsetup table
		journalctl -b --no-pager -o short-monotonic | tail -60
		exit 1
	fi
	sleep 0.2
done
journalctl -b --no-pager -o short-monotonic -u tandem-assemble; findmnt --noheadings /home/anna/Archive; dmsetup table"#;
/// Script that ends when the file system is mounted through the cache.
const MOUNTED: &str = r#"
for _ in $(seq 300); do
	case $(findmnt --noheadings --output SOURCE /home/anna/Archive) in /dev/mapper/tandem-*) exit 0;; esac
	sleep 0.2
done
echo "it is not mounted"; lsblk; systemctl status home-anna-Archive.mount
journalctl -b --no-pager -o short-monotonic | tail -40
exit 1"#;
/// Script that ends when an attempt to start the cache has failed.
const TRIED: &str = r#"
for _ in $(seq 300); do
	journalctl -b --no-pager -o cat -u tandem | grep -q 'cannot assemble' && exit 0
	sleep 0.2
done
echo "nobody has tried"; lsblk; journalctl -b --no-pager -o short-monotonic | tail -40
exit 1"#;
/// Prints one counter of the status line, or 0 if the line does not have that counter.
const COUNTER: &str = r#"dmsetup status --target tandem | awk '{ for (i = 1; i < NF; i++) if ($i == "NAME") n = $(i + 1) } END { print n + 0 }'"#;
/// Prints how many sectors are on the SSD only.
const DIRTY: &str = r#"dmsetup status --target tandem | awk '{ for (i = 1; i < NF; i++) if ($i == "tandem") print $(i + 6) }'"#;
/// Bytes a second that the hard disk accepts while data shall stay on the SSD only. A file of 24 MiB takes three
/// minutes: a busy machine needs one of them to switch itself off, and one for up to 8 MiB of the file that are being
/// written back.
const SLOW: u64 = 128 << 10;
/// Least number of sectors that are on the SSD only when the machine goes off. The last file has 49152.
const LEFT: u64 = 2048;

type Test = fn(&mut KeptMachine, &Bench) -> Result<()>;

/// The layer's tests. Each test starts from the disks in the state that the test before it has left.
const CASES: [(&str, Test); 9] = [
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
    (
        "a shutdown that writes everything back leaves a disk that needs no SSD",
        KeptMachine::drained_before_off,
    ),
    (
        "a disk that comes late is mounted through its cache only",
        KeptMachine::late_with_ssd,
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
/// How many of the tests run without `--all`.
const ORDINARY: usize = 6;

/// The names of the layer's tests.
pub fn cases(_: &Cx) -> Result<Vec<String>> {
    Ok(CASES.map(|(name, _)| name.to_owned()).into())
}

/// Runs the layer. For one case it also runs the tests before that case.
pub fn run(bench: &mut Bench) -> Result<()> {
    let mut machine = KeptMachine::new(bench, Wiring::HotPlug)?;
    let whole = bench.all || bench.case.is_some();
    let number = if whole { CASES.len() } else { ORDINARY };
    for (name, test) in CASES.into_iter().take(number) {
        let result = test(&mut machine, bench);
        bench.check(name, result);
        if bench.is_done() {
            break;
        }
    }
    Ok(())
}

/// How both disks are connected to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wiring {
    /// To a SCSI controller, where disks can come and go.
    HotPlug,
    /// The hard disk to a SATA port, the SSD to a slot for NVMe drives.
    Inside,
    /// The hard disk in a USB box, the SSD to a slot for NVMe drives.
    Box,
}

impl Wiring {
    /// The disks that the machine has from power on, with their ports.
    fn fixed(self, pair: &Pair, ssd: bool) -> Vec<(Port, &Disk)> {
        let origin = match self {
            Self::HotPlug => return Vec::new(),
            Self::Inside => Port::Sata,
            Self::Box => Port::UsbBox,
        };
        let mut disks = vec![(origin, &pair.origin)];
        disks.extend(ssd.then_some((Port::Nvme, &pair.ssd)));
        disks
    }

    /// The disks that are plugged in after power on.
    fn plugged(self, pair: &Pair, ssd: bool) -> Vec<&Disk> {
        match self {
            Self::HotPlug if ssd => vec![&pair.origin, &pair.ssd],
            Self::HotPlug => vec![&pair.origin],
            Self::Inside | Self::Box => Vec::new(),
        }
    }
}

/// A machine whose disks survive when it is switched off.
struct KeptMachine {
    vm: Option<Vm>,
    parts: Parts,
    pair: Pair,
    wiring: Wiring,
    dir: PathBuf,
    /// Checksums of the files that were on the disk at the beginning.
    files: String,
    /// Names of the files that were written since, with their checksums.
    written: Vec<(String, String)>,
    _scratch: Scratch,
}

impl KeptMachine {
    /// Installs the project, and creates a cache in write-through.
    fn new(bench: &Bench, wiring: Wiring) -> Result<Self> {
        let parts = Parts::get(bench.cx)?;
        let stage = stage::build(bench.cx, &parts)?;
        let scratch = Scratch::new()?;
        let pair = disks::pair(&scratch)?;
        let dir = scratch.path().join("machine");
        fs::create_dir(&dir)?;
        parts.copy_root(&dir)?;
        let fixed = wiring.fixed(&pair, true);
        let mut vm = Vm::power_on_with(bench.cx, &parts, &dir, &fixed)?;
        vm.up(BOOT)?;
        stage::install(&mut vm, &stage)?;
        for disk in wiring.plugged(&pair, true) {
            vm.plug(disk)?;
        }
        let (disk, ssd) = (vm.device(pair.origin.serial)?, vm.device(pair.ssd.serial)?);
        // The line of fstab as an installer writes it.
        let entered = "sed -i 's/noauto,nofail,//' /etc/fstab; systemctl daemon-reload";
        vm.agent.sh(entered, SHORT)?;
        vm.mount()?;
        let files = vm.checksums()?;
        let create = format!("tandemctl create --yes --erase-ssd {disk}1 {ssd}");
        vm.agent.sh(&create, LONG)?;
        vm.drop_page_cache()?;
        ensure!(
            vm.checksums()? == files,
            "the files differ through the cache"
        );
        Ok(Self {
            vm: Some(vm),
            parts,
            pair,
            wiring,
            dir,
            files,
            written: Vec::new(),
            _scratch: scratch,
        })
    }

    fn vm(&mut self) -> Result<&mut Vm> {
        self.vm.as_mut().context("the machine is off")
    }

    fn sh(&mut self, script: &str) -> Result<String> {
        Ok(self.vm()?.agent.sh(script, LONG)?.trim().to_owned())
    }

    fn power_off(&mut self, bench: &Bench) -> Result<()> {
        let begun = Instant::now();
        mem::take(&mut self.vm).map_or(Ok(()), Vm::power_off)?;
        bench.note(&format!("switched off in {} s", begun.elapsed().as_secs()));
        Ok(())
    }

    /// Switches the machine on and waits until the start is over.
    fn power_on(&mut self, bench: &Bench, ssd: bool) -> Result<()> {
        let begun = Instant::now();
        // A machine that a failed test has left.
        self.vm = None;
        let fixed = self.wiring.fixed(&self.pair, ssd);
        let mut vm = Vm::power_on_with(bench.cx, &self.parts, &self.dir, &fixed)?;
        for disk in self.wiring.plugged(&self.pair, ssd) {
            vm.plug(disk)?;
        }
        vm.up(BOOT)?;
        let told = vm.agent.sh(STARTED, BOOT)?;
        bench.note(&format!(
            "started in {} s\n{told}",
            begun.elapsed().as_secs()
        ));
        self.vm = Some(vm);
        Ok(())
    }

    /// The device that the file system is mounted from.
    fn source(&mut self) -> Result<String> {
        self.sh(&format!(
            "findmnt --noheadings --output SOURCE {MOUNT_POINT} || true"
        ))
    }

    /// Saves a file of which a good part stays on the SSD only until the machine is off.
    fn leave_dirty(&mut self, name: &str) -> Result<u64> {
        self.throttle(SLOW)?;
        self.save(name)?;
        let dirty = self.sh(DIRTY)?.parse()?;
        ensure!(dirty >= LEFT, "only {dirty} sectors are on the SSD only");
        Ok(dirty)
    }

    /// Lets the hard disk accept so many bytes a second; 0: as many as it can.
    fn throttle(&mut self, bytes: u64) -> Result<()> {
        let disk = self.pair.origin.serial;
        self.vm()?.qmp.run(
            "block_set_io_throttle",
            json!({ "id": disk, "bps": 0, "bps_rd": 0, "bps_wr": bytes, "iops": 0, "iops_rd": 0, "iops_wr": 0 }),
        )?;
        Ok(())
    }

    /// Data that was on the SSD only when the machine went off must still be there, or must have been written back
    /// since this start.
    fn still_dirty(&mut self, bench: &Bench, before: u64) -> Result<()> {
        let (dirty, drained) = (self.sh(DIRTY)?.parse::<u64>()?, self.counter("drained")?);
        bench.note(&format!(
            "{before} sectors dirty before, now {dirty}, and {drained} drained since"
        ));
        ensure!(
            dirty + drained >= LEFT,
            "{before} sectors were dirty, {dirty} are, {drained} were drained"
        );
        Ok(())
    }

    fn counter(&mut self, name: &str) -> Result<u64> {
        let value = self.sh(&COUNTER.replace("NAME", name))?;
        value
            .parse()
            .with_context(|| format!("counter {name}: {value}"))
    }

    /// Writes a file and syncs it, as an application does that saves.
    fn save(&mut self, name: &str) -> Result<()> {
        let sum = self.sh(&format!(
            "cd {MOUNT_POINT} && dd if=/dev/urandom of={name} bs=64k count=384 conv=fsync status=none && cksum {name}"
        ))?;
        self.written.push((name.to_owned(), sum));
        Ok(())
    }

    /// All files must have the contents that were written; they are read from the devices.
    fn all_there(&mut self) -> Result<()> {
        self.vm()?.drop_page_cache()?;
        for (name, sum) in self.written.clone() {
            let now = self.sh(&format!("cd {MOUNT_POINT} && cksum {name}"))?;
            ensure!(now == sum, "{name} was {sum} and is {now}");
        }
        ensure!(self.vm()?.checksums()? == self.files, "the files differ");
        Ok(())
    }

    /// The file system must be mounted through the cache, and the cache must have been there before the first mount.
    fn assembled(&mut self) -> Result<()> {
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

    fn warm(&mut self, bench: &Bench) -> Result<()> {
        self.power_off(bench)?;
        self.power_on(bench, true)?;
        self.assembled()?;
        let (fills, hits) = (self.counter("fills")?, self.counter("read_hit")?);
        let before = self.disk_sectors()?;
        self.all_there()?;
        let read = (self.disk_sectors()? - before).read;
        let fills = self.counter("fills")? - fills;
        let hits = self.counter("read_hit")? - hits;
        bench.note(&format!(
            "warm: {hits} sectors hit, {fills} fills, {read} sectors read from the disk"
        ));
        // 49.25 MiB of files.
        ensure!(hits >= 100_000, "only {hits} sectors came from the SSD");
        ensure!(
            fills == 0 && read == 0,
            "{fills} fills, {read} sectors from the disk"
        );
        Ok(())
    }

    fn dirty(&mut self, bench: &Bench) -> Result<()> {
        self.sh("tandemctl mode --yes writeback")?;
        let before = self.leave_dirty("before-restart")?;
        self.power_off(bench)?;
        self.comes_back_dirty(bench, before)
    }

    fn cut(&mut self, bench: &Bench) -> Result<()> {
        let before = self.leave_dirty("before-cut")?;
        self.vm = None;
        self.comes_back_dirty(bench, before)
    }

    /// Starts with both devices. Data that was on the SSD only must be there, or on the disk by now.
    fn comes_back_dirty(&mut self, bench: &Bench, before: u64) -> Result<()> {
        self.power_on(bench, true)?;
        self.assembled()?;
        self.still_dirty(bench, before)?;
        self.all_there()
    }

    fn without_ssd_dirty(&mut self, bench: &Bench) -> Result<()> {
        let left = self.leave_dirty("before-ssd-was-gone")?;
        self.power_off(bench)?;
        let before = hash::file(&self.pair.origin.file)?;
        self.power_on(bench, false)?;
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
            bench.note(&format!("{line}: {}\n{}", ended.code, ended.text));
            ensure!(ended.code != 0, "{line} went well");
        }
        let listed = self.sh("tandemctl --json list")?;
        ensure!(
            listed.contains("ssd-gone-dirty"),
            "the list does not tell: {listed}"
        );
        self.power_off(bench)?;
        ensure!(
            hash::file(&self.pair.origin.file)? == before,
            "the disk was written without its SSD"
        );
        self.power_on(bench, false)?;
        self.damaged_ssd(bench)?;
        let ssd = self.pair.ssd.clone();
        self.vm()?.plug(&ssd)?;
        // fstab mounts the disk, without a command of the test.
        self.sh(MOUNTED)?;
        self.still_dirty(bench, left)?;
        self.all_there()
    }

    /// The SSD comes back with an unreadable index: its cache must not start, and the disk must be held as before.
    fn damaged_ssd(&mut self, bench: &Bench) -> Result<()> {
        let (disk, ssd) = (self.pair.origin.serial, self.pair.ssd.clone());
        let copy = self.dir.join("damaged.raw");
        damaged_copy(&ssd.file, &copy)?;
        self.vm()?.plug_copy(&ssd, &copy)?;
        self.sh(TRIED)?;
        let disk = self.vm()?.device(disk)?;
        let line = format!("mount /dev/{disk}1 /mnt");
        let ended = self.vm()?.agent.run(&line, SHORT, |_| ())?;
        let told = self.sh("dmsetup info; dmsetup table --inactive; tandemctl --json list")?;
        bench.note(&format!("{}\n{told}", ended.text));
        ensure!(ended.code != 0, "a disk that waits for its SSD was mounted");
        let gone = format!("/sys/block/{}", self.vm()?.device(ssd.serial)?);
        self.vm()?.unplug(&ssd)?;
        self.sh(&format!(
            "for _ in $(seq 100); do [ -e {gone} ] || exit 0; sleep 0.1; done; exit 1"
        ))?;
        Ok(())
    }

    fn without_ssd_clean(&mut self, bench: &Bench) -> Result<()> {
        self.sh("tandemctl mode --yes writethrough; tandemctl flush")?;
        let end = "until tandemctl --json list | grep -q writethrough && ! grep -q 'may_be_dirty\": true' /var/lib/tandem/caches/*; do sleep 0.2; done";
        self.sh(end)?;
        self.power_off(bench)?;
        self.power_on(bench, false)?;
        let source = self.source()?;
        ensure!(source.starts_with("/dev/sd"), "mounted from '{source}'");
        // A file whose data is on the SSD changes on the disk without the cache.
        self.written.retain(|(name, _)| name != "before-restart");
        self.save("before-restart")?;
        self.all_there()?;
        self.power_off(bench)?;
        self.power_on(bench, true)?;
        self.assembled()?;
        self.all_there()
    }

    fn without_module(&mut self, bench: &Bench) -> Result<()> {
        let module = "/lib/modules/$(uname -r)/updates/dm-tandem.ko";
        self.sh(&format!("mv {module} {module}.away"))?;
        self.power_off(bench)?;
        self.power_on(bench, true)?;
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

// SPDX-License-Identifier: GPL-3.0-or-later
//! A machine that starts as many older computers do: the BIOS loads GRUB from the disk of the running system, /boot has a
//! partition of its own. Then the same machine with its system on an encrypted disk.

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::generator::INITRAMFS_TOOLS;
use super::{BOOT, MAKE, STARTED, prepared};
use tandem_guest::disks::{self, Pair, SYSTEM_PART, Scratch};
use tandem_guest::guest::MOUNT_POINT;
use tandem_guest::vm::{Boot, Disk, Parts, SMALL, Vm, WORDS};
use tandem_harness::cx::Cx;
use tandem_harness::layer::Run;
use tandem_harness::{fetch, run};

type Test = fn(&mut Desk, &Run) -> Result<()>;

/// The tests. Each starts from the machine as the test before it has left it.
const CASES: [(&str, Test); 3] = [
    (
        "GRUB by BIOS starts the system through its cache, with /boot apart",
        Desk::cached,
    ),
    (
        "a new grub-pc, installed over the cache, starts the system",
        Desk::new_grub,
    ),
    (
        "a system on an encrypted disk is refused, and its start has nothing of the project",
        Desk::encrypted,
    ),
];

const BOOT_LOADER: &str = include_str!("../../../guest/machine/bios.sh");
const VAULT: &str = include_str!("../../../guest/machine/vault.sh");
const VAULT_SERIAL: &str = "VAULT0001";
/// Name of the file with GRUB's package.
const NEW_GRUB_FILE: &str = "grub-pc_new.deb";
/// Script that installs the package again, as an update does. The package has GRUB installed on the disk that it knows.
const NEW_GRUB: &str = "core=/boot/grub/i386-pc/core.img && touch -d @0 $core && \
    DEBIAN_FRONTEND=noninteractive dpkg --install /root/grub-pc_new.deb 2>&1 && test $core -nt /etc/fstab";
/// Script that prints what of the project acts in the initial file system. Its script is always there, and ends
/// without the program.
const PROGRAM: &str = "lsinitramfs /boot/initrd.img-$(uname -r) >/run/files && test -s /run/files && \
    grep -E 'libexec/tandem|var/lib/tandem|dm-tandem' /run/files || true";
/// Script that prints the checksum of the file that shows what is on the disk.
const SUM: &str = "cd /var/lib && cksum kept";

/// Runs the layer; for one case, the tests before it too.
pub fn run(run: &mut Run) -> Result<()> {
    let mut desk = Desk::new(run)?;
    run.in_turn(&mut desk, CASES);
    Ok(())
}

/// A machine whose disks survive when it is switched off.
struct Desk {
    vm: Option<Vm>,
    parts: Parts,
    dir: PathBuf,
    system: Pair,
    data: Pair,
    /// Disks that are plugged in beside those.
    others: Vec<Disk>,
    sum: String,
    scratch: Scratch,
}

impl Desk {
    /// The machine with GRUB on its disk, switched off.
    fn new(run: &Run) -> Result<Self> {
        let cx = run.cx;
        let mut parts = Parts::with(cx, INITRAMFS_TOOLS.packages)?;
        parts.append = SMALL;
        let prepared = prepared(cx, &parts, &INITRAMFS_TOOLS)?;
        let scratch = Scratch::new()?;
        let system = disks::system_by_bios(&scratch, &prepared.join("root.ext4"))?;
        let data = disks::pair(&scratch)?;
        let tools = tools(cx, &parts, scratch.path())?;
        let mut desk = Self {
            vm: None,
            dir: scratch.path().to_owned(),
            parts,
            system,
            data,
            others: vec![tools],
            sum: String::new(),
            scratch,
        };
        let boot = Boot::Direct {
            initrd: prepared.join("initrd"),
            root: format!("root=PARTUUID={SYSTEM_PART} ro"),
        };
        desk.start(run, &boot)?;
        let (disk, tools) = (
            desk.device(desk.system.origin.serial)?,
            desk.device(disks::TOOLS_SERIAL)?,
        );
        let words = format!("{WORDS} {SMALL}");
        let script = BOOT_LOADER.replace("DISK", &disk).replace("TOOLS", &tools);
        run.note(&desk.sh(&script.replace("WORDS", &words))?);
        desk.power_off()?;
        desk.others.clear();
        Ok(desk)
    }

    fn start(&mut self, run: &Run, boot: &Boot) -> Result<()> {
        let disks = [&self.system.origin];
        let mut vm = Vm::power_on_sata(run.cx, &self.parts, &self.dir, boot, &disks)?;
        for disk in [&self.system.ssd, &self.data.origin, &self.data.ssd] {
            vm.plug(disk)?;
        }
        for disk in &self.others {
            vm.plug(disk)?;
        }
        let up = vm.up(BOOT).and_then(|()| vm.agent.sh(STARTED, BOOT));
        let told = up.with_context(|| format!("console: {}", run::tail(&vm.console())))?;
        run.note(&told);
        self.vm = Some(vm);
        Ok(())
    }

    fn power_off(&mut self) -> Result<()> {
        mem::take(&mut self.vm).map_or(Ok(()), Vm::power_off)
    }

    fn sh(&mut self, script: &str) -> Result<String> {
        let vm = self.vm.as_mut().context("the machine is off")?;
        Ok(vm.agent.sh(script, MAKE)?.trim().to_owned())
    }

    fn device(&mut self, serial: &str) -> Result<String> {
        self.vm
            .as_mut()
            .context("the machine is off")?
            .device(serial)
    }

    /// What a file system is mounted from.
    fn source(&mut self, point: &str) -> Result<String> {
        self.sh(&format!("findmnt --noheadings --output SOURCE {point}"))
    }

    /// The system is mounted through its cache, and has the file.
    fn goes_through_the_cache(&mut self) -> Result<()> {
        let source = self.source("/")?;
        let told = self.sh("tandemctl list; journalctl -b --no-pager -o cat -u tandem-assemble")?;
        ensure!(
            source.starts_with("/dev/mapper/tandem-"),
            "/ is mounted from {source}\n{told}"
        );
        let sum = self.sh(SUM)?;
        ensure!(sum == self.sum, "the file was {} and is {sum}", self.sum);
        Ok(())
    }

    fn cached(&mut self, run: &Run) -> Result<()> {
        self.start(run, &Boot::Bios)?;
        let (disk, ssd) = (self.system.origin.serial, self.system.ssd.serial);
        let (disk, ssd) = (self.device(disk)?, self.device(ssd)?);
        self.sh("test -d /boot/grub/i386-pc && test ! -e /sys/firmware/efi")?;
        self.sh(&format!(
            "tandemctl create --yes --erase-ssd --at-next-start {disk}1 {ssd}"
        ))?;
        self.sum = self.sh(&format!(
            "cd /var/lib && dd if=/dev/urandom of=kept bs=64k count=128 conv=fsync status=none && {SUM}"
        ))?;
        self.power_off()?;
        self.start(run, &Boot::Bios)?;
        self.goes_through_the_cache()
    }

    fn new_grub(&mut self, run: &Run) -> Result<()> {
        run.note(&self.sh(NEW_GRUB)?);
        self.power_off()?;
        self.start(run, &Boot::Bios)?;
        self.goes_through_the_cache()
    }

    fn encrypted(&mut self, run: &Run) -> Result<()> {
        let cache = self.source("/")?;
        let name = cache.trim_start_matches("/dev/mapper/");
        self.sh(&format!("tandemctl remove --yes {name}"))?;
        let (disk, ssd) = (self.data.origin.serial, self.data.ssd.serial);
        let (disk, ssd) = (self.device(disk)?, self.device(ssd)?);
        self.sh(&format!(
            "umount {MOUNT_POINT} && tandemctl create --yes --erase-ssd {disk}1 {ssd}"
        ))?;
        let mib = fs::metadata(&self.system.origin.file)?.len() >> 20;
        let vault = disks::empty(
            self.scratch.path(),
            VAULT_SERIAL,
            0x5000_c500_0000_0009,
            mib,
            false,
        )?;
        let vm = self.vm.as_mut().context("the machine is off")?;
        vm.plug(&vault)?;
        self.others.push(vault);
        let disk = self.device(VAULT_SERIAL)?;
        run.note(&self.sh(&VAULT.replace("DISK", &disk))?);
        self.power_off()?;

        self.start(run, &Boot::Bios)?;
        let source = self.source("/")?;
        ensure!(source == "/dev/mapper/vault", "/ is mounted from {source}");
        let data = self.source(MOUNT_POINT)?;
        let has_cache = data.starts_with("/dev/mapper/tandem-");
        ensure!(has_cache, "the data are mounted from {data}");
        let left = self.sh(PROGRAM)?;
        ensure!(left.is_empty(), "the initial file system has {left}");

        let disk = self.device(VAULT_SERIAL)?;
        let ssd = self.device(self.system.ssd.serial)?;
        let clear = self.sh("basename $(readlink -f /dev/mapper/vault)")?;
        for device in [format!("{disk}1"), clear] {
            let plan = format!("tandemctl plan --at-next-start --erase-ssd {device} {ssd} 2>&1");
            let refused = self.sh(&format!("{plan}; test $? -eq 3"))?;
            run.note(&refused);
        }
        self.power_off()
    }
}

/// A disk with the kernel, which the BIOS loads from the machine's own disk, and with GRUB's package.
fn tools(cx: &Cx, parts: &Parts, dir: &Path) -> Result<Disk> {
    let kernel = format!("vmlinuz-{}", parts.kernel.release);
    fs::copy(
        parts.kernel.modules.join("boot").join(&kernel),
        dir.join(&kernel),
    )?;
    fs::copy(fetch::own(cx, "grub-pc")?, dir.join(NEW_GRUB_FILE))?;
    disks::tools(dir, [kernel.as_str(), NEW_GRUB_FILE])
}

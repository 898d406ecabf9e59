// SPDX-License-Identifier: GPL-3.0-or-later
//! The file system of the running system and the file system of a folder in use, on caches. The machine starts as a
//! person's computer does: from a partition of a hard disk, by an initial file system that one of Debian's tools has made
//! in the machine.

pub mod bios;
mod generator;
pub mod kernel_cache;
mod names;
mod plain;
mod sleep;

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, mem};

use anyhow::{Context, Result, ensure};

use self::generator::{DRACUT, Generator, INITRAMFS_TOOLS};
use self::names::GRUB_BLOCK;
use tandem_guest::disks::{self, Pair, SYSTEM_PART, Scratch};
use tandem_guest::guest::MOUNT_POINT;
use tandem_guest::stage;
use tandem_guest::vm::{Boot, Disk, POWER_OFF, Parts, SMALL, Vm};
use tandem_harness::cx::{Cx, say};
use tandem_harness::layer::Run;
use tandem_harness::{hash, run};

/// Longest time from power on until the desktop's targets are reached, on a busy machine without KVM.
const BOOT: Duration = Duration::from_secs(600);
/// Longest time in which the guest makes an initial file system, on a busy machine without KVM.
const MAKE: Duration = Duration::from_secs(900);
/// Script that ends when the start is over and nothing of it has failed.
const STARTED: &str = include_str!("../../guest/machine/started.sh");
/// Script that keeps the mounted folder in use until the machine is off.
const IN_USE: &str = "cd /home/anna/Archive && systemd-run --quiet --unit=user --property=WorkingDirectory=/home/anna/Archive sleep 100000 && systemctl is-active user";

type Test = fn(&mut Desk, &Run) -> Result<()>;

/// Script that ends when the service has told systemd not to hibernate.
const NO_HIBERNATION: &str = "for _ in $(seq 150); do grep -qx AllowHibernation=no /run/systemd/sleep.conf.d/50-tandem.conf && exit 0; \
    sleep 0.2; done; systemctl status tandem; exit 1";
/// The layer's tests. Each test starts from the disks in the state that the test before it has left.
const CASES: [(&str, Test); 12] = [
    (
        "a folder in use gets its cache at the next start",
        Desk::folder,
    ),
    // promise 25, 35: vm-system/the machine hibernates with a cache in use, and goes on
    (
        "the machine hibernates with a cache in use, and goes on",
        Desk::hibernated,
    ),
    (
        "what GRUB's menu is made from is changed to the system's UUID first",
        Desk::renamed_for_grub,
    ),
    (
        "the running system gets its cache at the next start, by UUID",
        Desk::by_uuid,
    ),
    (
        "after a shutdown the system starts warm, by LABEL",
        Desk::by_label,
    ),
    (
        "without its SSD the system starts from the plain disk",
        Desk::without_ssd,
    ),
    // promise 19: vm-system/then it starts cold through its cache, by PARTUUID
    (
        "then it starts cold through its cache, by PARTUUID",
        Desk::by_partuuid,
    ),
    (
        "the cache of the running system is removed under it",
        Desk::removed,
    ),
    (
        "the system is found through its cache by the disk's name",
        Desk::by_name,
    ),
    (
        "an old initial file system starts the plain disk",
        Desk::old_initrd,
    ),
    (
        "a kernel without the module starts the plain disk",
        Desk::without_module,
    ),
    ("a damaged SSD leaves the plain disk", Desk::damaged),
];
/// Runs the layer with the initial file systems that Debian installs. For one case it also runs the tests before that
/// case.
pub fn run(run: &mut Run) -> Result<()> {
    run_with(run, &INITRAMFS_TOOLS, &CASES)
}

/// The same with initial file systems by dracut.
pub fn dracut(run: &mut Run) -> Result<()> {
    run_with(run, &DRACUT, &CASES)
}

fn run_with(
    run: &mut Run,
    generator: &'static Generator,
    cases: &[(&'static str, Test)],
) -> Result<()> {
    let mut desk = Desk::new(run, generator)?;
    let number = if run.is_whole() {
        cases.len()
    } else {
        generator.ordinary
    };
    run.in_turn(&mut desk, cases.iter().copied().take(number));
    Ok(())
}

/// A root disk with the project installed, and the initial file system that goes with it.
fn prepared(cx: &Cx, parts: &Parts, generator: &Generator) -> Result<PathBuf> {
    let stage = stage::build(cx, parts)?;
    let key = hash::key([parts.key(), &stage.key, stage::INSTALL, generator.prepare]);
    // A comma in a path ends an option of QEMU.
    let name = format!("system-{}", generator.packages.replace(',', "-"));
    cx.newest(&name, &key, |dir| {
        say("installing the project in a machine that makes its own initial file system");
        parts.copy_root(dir)?;
        let mut vm = Vm::power_on(cx, parts, dir)?;
        vm.up(BOOT)?;
        stage::install(&mut vm, &stage)?;
        vm.agent.sh(generator.prepare, MAKE)?;
        vm.power_off()?;
        let (root, initrd) = (dir.join("root.ext4"), dir.join("initrd"));
        let release = &parts.kernel.release;
        let dump = format!("dump /boot/initrd.img-{release} {}", initrd.display());
        run::output(run::cmd("/sbin/debugfs", ["-R", &dump]).arg(&root))?;
        ensure!(initrd.is_file(), "no initial file system was made");
        Ok(())
    })
}

/// A machine whose disks survive when it is switched off.
struct Desk {
    vm: Option<Vm>,
    parts: Parts,
    generator: &'static Generator,
    /// The disk of the running system and its SSD.
    system: Pair,
    /// The disk of the folder in use and its SSD.
    folder: Pair,
    /// Where a hibernating machine puts its memory.
    swap: Option<Disk>,
    dir: PathBuf,
    /// The initial file system without a cache, and the newest one.
    old: PathBuf,
    initrd: PathBuf,
    /// Checksums of the files in the folder.
    files: String,
    /// Files that were written to the system, with their checksums.
    written: Vec<(String, String)>,
    _scratch: Scratch,
}

impl Desk {
    /// Starts from the plain disks. The folder is mounted and in use.
    fn new(run: &Run, generator: &'static Generator) -> Result<Self> {
        let mut parts = Parts::with(run.cx, generator.packages)?;
        parts.append = SMALL;
        let prepared = prepared(run.cx, &parts, generator)?;
        let scratch = Scratch::new()?;
        let system = disks::system(&scratch, &prepared.join("root.ext4"))?;
        let folder = disks::pair(&scratch)?;
        let dir = scratch.path().to_owned();
        let old = prepared.join("initrd");
        let mut desk = Self {
            vm: None,
            parts,
            generator,
            system,
            folder,
            swap: None,
            dir,
            initrd: old.clone(),
            old,
            files: String::new(),
            written: Vec::new(),
            _scratch: scratch,
        };
        desk.start(run, &format!("root=UUID={}", desk.uuid()?), true)?;
        desk.files = desk.vm()?.checksums()?;
        Ok(desk)
    }

    /// UUID of the system's file system.
    fn uuid(&self) -> Result<String> {
        let image = format!("{}?offset=1048576", self.system.origin.file.display());
        let said = run::output(run::cmd("/sbin/dumpe2fs", ["-h"]).arg(image))?;
        let line = said
            .lines()
            .find_map(|l| l.strip_prefix("Filesystem UUID:"));
        Ok(line
            .context("the file system has a UUID")?
            .trim()
            .to_owned())
    }

    fn vm(&mut self) -> Result<&mut Vm> {
        self.vm.as_mut().context("the machine is off")
    }

    fn sh(&mut self, script: &str) -> Result<String> {
        Ok(self.vm()?.agent.sh(script, MAKE)?.trim().to_owned())
    }

    /// Switches the machine on, and waits until its start is over. Nothing of the start may fail.
    fn start(&mut self, run: &Run, root: &str, ssd: bool) -> Result<()> {
        let begun = Instant::now();
        let mut vm = self.switched_on(run, root, ssd)?;
        let up = vm.up(BOOT).and_then(|()| vm.agent.sh(STARTED, BOOT));
        let told = up.with_context(|| format!("console: {}", run::tail(&vm.console())))?;
        run.note(&format!(
            "{root}: started in {} s\n{told}",
            begun.elapsed().as_secs()
        ));
        self.vm = Some(vm);
        Ok(())
    }

    /// The machine at the beginning of its start, with its disks.
    fn switched_on(&self, run: &Run, root: &str, ssd: bool) -> Result<Vm> {
        let boot = Boot::Direct {
            initrd: self.initrd.clone(),
            root: format!("{root} ro"),
        };
        let mut vm = Vm::power_on_by(run.cx, &self.parts, &self.dir, &boot)?;
        vm.plug(&self.system.origin)?;
        if ssd {
            vm.plug(&self.system.ssd)?;
        }
        vm.plug(&self.folder.origin)?;
        vm.plug(&self.folder.ssd)?;
        if let Some(swap) = &self.swap {
            vm.plug(swap)?;
        }
        Ok(vm)
    }

    /// Switches the machine off as its user does, and takes the initial file system that it has by then.
    fn power_off(&mut self, run: &Run) -> Result<()> {
        let begun = Instant::now();
        let off = |vm: Vm| vm.off_by(POWER_OFF);
        let console = mem::take(&mut self.vm).map_or(Ok(String::new()), off)?;
        run.note(&format!("switched off in {} s", begun.elapsed().as_secs()));
        for line in console.lines().filter(|line| line.contains("next time")) {
            run.note(line);
        }
        let new = self.dir.join("initrd");
        let _ = fs::remove_file(&new);
        let path = format!("/boot/initrd.img-{}", self.parts.kernel.release);
        disks::file_on_system(&self.system.origin, &path, &new)?;
        self.initrd = new;
        Ok(())
    }

    /// The device that a file system is mounted from.
    fn source(&mut self, point: &str) -> Result<String> {
        self.sh(&format!("findmnt --noheadings --output SOURCE {point}"))
    }

    /// Checks whether a file system is mounted through a cache.
    fn is_cached(&mut self, point: &str, cached: bool) -> Result<()> {
        let source = self.source(point)?;
        let told = self.sh("dmesg | grep -i tandem | tail -20; tandemctl list")?;
        ensure!(
            source.starts_with("/dev/mapper/tandem-") == cached,
            "{point} is mounted from {source}\n{told}"
        );
        Ok(())
    }

    fn device(&mut self, serial: &str) -> Result<String> {
        self.vm()?.device(serial)
    }

    /// Sets up a cache for the next start.
    fn prepare(&mut self, disk: &'static str, ssd: &'static str) -> Result<()> {
        self.prepare_by("", disk, ssd)
    }

    /// The same with a further option.
    fn prepare_by(&mut self, option: &str, disk: &str, ssd: &str) -> Result<()> {
        let (disk, ssd) = (self.device(disk)?, self.device(ssd)?);
        let line =
            format!("tandemctl create --yes --erase-ssd --at-next-start {option} {disk}1 {ssd}");
        self.sh(&line).map(drop)
    }

    /// Saves a file in the running system, and syncs it.
    fn save(&mut self, name: &str) -> Result<()> {
        let sum = self.sh(&format!(
            "cd /var/lib && dd if=/dev/urandom of={name} bs=64k count=128 conv=fsync status=none && cksum {name}"
        ))?;
        self.written.retain(|(known, _)| known != name);
        self.written.push((name.to_owned(), sum));
        Ok(())
    }

    /// All files must have the contents that were written; they are read from the devices.
    fn all_there(&mut self) -> Result<()> {
        self.vm()?.drop_page_cache()?;
        for (name, sum) in self.written.clone() {
            let now = self.sh(&format!("cd /var/lib && cksum {name}"))?;
            ensure!(now == sum, "{name} was {sum} and is {now}");
        }
        ensure!(self.vm()?.checksums()? == self.files, "the files differ");
        Ok(())
    }

    /// One counter of the cache of the running system.
    fn counter(&mut self, name: &str) -> Result<u64> {
        // The words of dm-cache have no names. The ninth is how many reads went past the SSD.
        let value = self.sh(&format!(
            "dmsetup status $(findmnt --noheadings --output SOURCE /) | awk -v name={name} \
             '{{ if ($3 == \"cache\" && name == \"read_missed\") print $9
                for (i = 1; i < NF; i++) if ($i == name) print $(i + 1) }}'"
        ))?;
        value
            .parse()
            .with_context(|| format!("counter {name}: {value}"))
    }

    /// The folder is in use when its cache is asked for, and the machine loses power before it starts next.
    fn folder(&mut self, run: &Run) -> Result<()> {
        self.sh(IN_USE)?;
        self.renamed_in_fstab()?;
        self.prepare(self.folder.origin.serial, self.folder.ssd.serial)?;
        self.is_cached(MOUNT_POINT, false)?;
        let listed = self.sh("tandemctl --json list")?;
        ensure!(
            listed.contains("pending"),
            "the list does not tell: {listed}"
        );
        // The set-up can be cancelled, and asked for again.
        self.sh("tandemctl cancel --yes")?;
        let left = self.sh("ls /var/lib/tandem/caches; dmsetup ls | grep -i tandem || true")?;
        ensure!(left.is_empty(), "left after the cancellation: {left}");
        self.prepare(self.folder.origin.serial, self.folder.ssd.serial)?;
        self.sh("sync")?;
        self.vm = None;
        let root = format!("root=UUID={}", self.uuid()?);
        self.start(run, &root, true)?;
        self.is_cached(MOUNT_POINT, true)?;
        self.all_there()
    }

    fn by_uuid(&mut self, run: &Run) -> Result<()> {
        self.save("before-the-cache")?;
        self.prepare(self.system.origin.serial, self.system.ssd.serial)?;
        self.is_cached("/", false)?;
        let order = self.generator.order;
        run.note(&self.sh(order)?);
        // The disk is written after its SSD was prepared.
        self.save("before-the-start")?;
        self.power_off(run)?;
        let root = format!("root=UUID={}", self.uuid()?);
        self.start(run, &root, true)?;
        self.is_cached("/", true)?;
        self.is_cached(MOUNT_POINT, true)?;
        self.sh(NO_HIBERNATION)?;
        // A new kernel has GRUB's menu made anew: it must not name the mapping, which is not there without the module.
        self.sh("sed -i s/^GRUB_CMDLINE_LINUX=.*// /etc/default/grub && update-grub")?;
        let menu = self.roots_in_menu()?;
        ensure!(menu == root, "GRUB's menu above the cache: {menu}");
        self.save("through-the-cache")?;
        self.all_there()
    }

    fn by_label(&mut self, run: &Run) -> Result<()> {
        // Read twice, so that the SSD has it.
        self.all_there()?;
        self.has_grub_block()?;
        self.power_off(run)?;
        disks::change_in_block(&self.system.origin, GRUB_BLOCK, "before", "behind")?;
        self.start(run, "root=LABEL=guest", true)?;
        self.is_cached("/", true)?;
        let cold = self.counter("cold_start")?;
        ensure!(cold == 0, "the cache started cold: reason {cold}");
        self.shows_grub_block()?;
        let (fills, hits) = (self.counter("fills")?, self.counter("read_hit")?);
        self.all_there()?;
        let fills = self.counter("fills")? - fills;
        let hits = self.counter("read_hit")? - hits;
        run.note(&format!("warm: {hits} sectors hit, {fills} fills"));
        // Three files of 8 MiB.
        ensure!(hits >= 40_000, "only {hits} sectors came from the SSD");
        Ok(())
    }

    fn by_partuuid(&mut self, run: &Run) -> Result<()> {
        self.start(run, &format!("root=PARTUUID={SYSTEM_PART}"), true)?;
        self.is_cached("/", true)?;
        self.all_there()
    }

    fn removed(&mut self, run: &Run) -> Result<()> {
        let cache = self.source("/")?;
        let name = cache.trim_start_matches("/dev/mapper/");
        self.sh(&format!("tandemctl remove --yes {name}"))?;
        let table = self.sh(&format!("dmsetup table {name}"))?;
        ensure!(table.contains(" linear "), "the table is {table}");
        self.all_there()?;
        self.power_off(run)?;
        self.start(run, "root=LABEL=guest", true)?;
        self.is_cached("/", false)?;
        let told = self.sh("dmesg | grep tandem: || true")?;
        ensure!(
            !told.contains("without its cache"),
            "the record was left: {told}"
        );
        self.all_there()
    }

    fn by_name(&mut self, run: &Run) -> Result<()> {
        self.prepare(self.system.origin.serial, self.system.ssd.serial)?;
        // The disk's place. The kernel numbers disks that it finds at once in any order, so /dev/sda1 may be any of them.
        let disk = self.device(self.system.origin.serial)?;
        let find = format!("find -L /dev/disk/by-path -samefile /dev/{disk}1 | head -n 1");
        let name = self.sh(&find)?;
        ensure!(!name.is_empty(), "the disk has no name by its place");
        self.power_off(run)?;
        self.start(run, &format!("root={name}"), true)?;
        self.is_cached("/", true)?;
        self.save("through-the-cache")?;
        self.all_there()?;
        self.power_off(run)
    }
}

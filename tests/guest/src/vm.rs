// SPDX-License-Identifier: GPL-3.0-or-later
//! The disposable virtual machine; [`crate::vm_state`] has the states in which it starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::disks;
use crate::guest_kernel::{Kernel, Source};
use crate::image::{self, Image};
use crate::power::Supply;
use crate::qemu::Qemu;
use crate::qmp::Qmp;
use tandem_harness::cx::{Cx, say};

mod boot;
mod disk;
mod efi;
mod start;

pub use boot::{Boot, WORDS};
pub use disk::{BOX_SERIAL, Disk, Port};
pub use efi::Efi;

/// Guest memory in MiB.
const MEMORY: u32 = 1536;
/// Longest time from the order to power off until the machine is off.
const SHUTDOWN: Duration = Duration::from_secs(180);
/// Script that shuts the guest down.
pub const POWER_OFF: &str = "systemctl --no-block poweroff";

/// Word on the kernel's command line for a start with the project, what it needs, and nothing else of Debian: see `small`
/// among the systemd generators in tests/guest/machine/rootfs.
pub const SMALL: &str = "systemd.unit=small.target";

/// What a machine is made of, all of it in the cache.
pub struct Parts {
    pub(crate) qemu: Qemu,
    /// The guest's kernel, for which the module is built.
    pub kernel: Kernel,
    pub(crate) image: Image,
    kvm: bool,
    /// Further words for the kernel's command line.
    pub append: &'static str,
    /// QEMU counts a nanosecond for each instruction of the guest, as a processor of today takes. While the guest has
    /// nothing to do, its clock goes as the host's. So the guest's times hardly depend on the load of this computer.
    pub counted: bool,
    /// The firmware of a machine that starts by EFI.
    pub efi: Option<Efi>,
}

impl Parts {
    /// Fetches or makes the parts that the cache lacks.
    pub fn get(cx: &Cx) -> Result<Self> {
        Self::with(cx, image::INITRAMFS_TOOLS)
    }

    /// A machine in which another package makes the initial file systems.
    pub fn with(cx: &Cx, initramfs: &str) -> Result<Self> {
        let kernel = Source::from(cx.machine).kernel(cx)?;
        let image = image::get(cx, &kernel, initramfs)?;
        Self::of(cx, kernel, image)
    }

    /// A machine with another kernel and disk.
    pub fn of(cx: &Cx, kernel: Kernel, image: Image) -> Result<Self> {
        let qemu = Qemu::get(cx)?;
        let kvm = qemu.kvm_works(cx, &kernel.vmlinux)?;
        Ok(Self {
            qemu,
            kernel,
            image,
            kvm,
            append: "",
            counted: false,
            efi: None,
        })
    }

    /// Where the host keeps the guest's kernel modules.
    pub fn modules(&self) -> &Path {
        &self.image.modules
    }

    /// Names the image and its kernel.
    pub fn key(&self) -> &str {
        &self.image.key
    }

    /// Puts a root disk into `dir` that a machine may write to.
    pub fn copy_root(&self, dir: &Path) -> Result<()> {
        disks::copy(&self.image.root, &dir.join("root.ext4"))
    }

    /// How the guest's processor is run, for reports.
    pub fn accelerator(&self) -> &'static str {
        if self.kvm { "KVM" } else { "TCG" }
    }
}

/// Whether the person sees the guest's screen in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// No window; screenshots work all the same.
    Hidden,
    /// A window in which the person may click.
    Window,
}

/// A running machine. Dropping this value ends the machine.
pub struct Vm {
    child: Child,
    /// The command that starts QEMU again; not if the machine goes on from saved memory.
    command: Option<Command>,
    /// QEMU's commands that have plugged disks in and out, with their arguments.
    plugged: Vec<(&'static str, Value)>,
    /// QEMU's control socket.
    pub qmp: Qmp,
    /// The agent's port for the scenario's scripts.
    pub agent: Agent,
    /// A second port, for scripts that must run while a script runs on the first port; one connection at a time.
    pub second: PathBuf,
    console: PathBuf,
    /// Where a person finds the console of the last machine that has ended.
    last_console: PathBuf,
    dir: PathBuf,
}

impl Vm {
    /// Powers on a machine with the root disk in `dir` (see [`Parts::copy_root`]) and keeps what the machine writes to
    /// it. Disks that are plugged in right after this call are there before the kernel looks for disks.
    pub fn power_on(cx: &Cx, parts: &Parts, dir: &Path) -> Result<Self> {
        Self::power_on_with(cx, parts, dir, &[], None)
    }

    /// As [`Self::power_on`], with disks on controllers to which no disk can be added while the machine runs. With a
    /// `supply`, the root disk loses its write cache at a cut of the supply.
    pub fn power_on_with(
        cx: &Cx,
        parts: &Parts,
        dir: &Path,
        fixed: &[(Port, &Disk)],
        supply: Option<&Supply>,
    ) -> Result<Self> {
        let origin = Origin {
            dir,
            memory: Memory::Fresh,
            boot: None,
            supply,
        };
        Self::launch(cx, parts, &origin, Screen::Hidden, fixed)
    }

    /// What the machine has written to its serial console.
    pub fn console(&self) -> String {
        let bytes = fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Shuts the guest down as its user would.
    pub fn power_off(self) -> Result<()> {
        self.off_by(POWER_OFF).map(drop)
    }

    /// Waits for the end of the machine, by this script. Returns what the machine has written to its serial console.
    pub fn off_by(self, script: &str) -> Result<String> {
        self.off_within(script, SHUTDOWN)
    }

    /// As [`Self::off_by`], with a longest time in the guest.
    pub fn off_within(mut self, script: &str, limit: Duration) -> Result<String> {
        let mut patience = self.agent.patience(limit);
        // The answer is lost if the machine is off before the answer is read.
        let asked = self.agent.sh(script, limit);
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(self.console()),
                Some(status) => bail!("the machine ended with {status}"),
                None if patience.is_over() => {
                    return asked.and(Err(anyhow!("the guest does not shut down")));
                }
                None => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    pub(crate) fn launch(
        cx: &Cx,
        parts: &Parts,
        origin: &Origin,
        screen: Screen,
        fixed: &[(Port, &Disk)],
    ) -> Result<Self> {
        let dir =
            std::env::temp_dir().join(format!("tandem-vm-{}-{}", std::process::id(), unique()));
        fs::create_dir_all(&dir)?;
        let console = dir.join("console");
        let mut command = parts.qemu.command();
        // With names for QEMU's threads.
        command.args([
            "-name",
            "tandem,debug-threads=on",
            "-nodefaults",
            "-no-user-config",
        ]);
        command.args([
            "-machine",
            "q35,memory-backend=ram",
            "-m",
            &MEMORY.to_string(),
        ]);
        let words: &[_] = match parts.accelerator() {
            _ if parts.counted => &["-accel", "tcg,thread=single", "-icount", "shift=0"],
            "KVM" => &["-accel", "kvm", "-smp", "2"],
            _ => &["-accel", "tcg,thread=multi", "-smp", "2"],
        };
        let processor = if words.contains(&"kvm") {
            "host"
        } else {
            "Nehalem"
        };
        command.args(words).args(["-cpu", processor]);
        let file = origin.dir.join("memory");
        command.arg("-object").arg(match origin.memory {
            Memory::Fresh => format!("memory-backend-ram,id=ram,size={MEMORY}M"),
            memory => format!(
                "memory-backend-file,id=ram,size={MEMORY}M,mem-path={},share={}",
                file.display(),
                if memory.is_kept() { "on" } else { "off" }
            ),
        });
        if origin.boot.is_none() {
            let snapshot = match origin.memory {
                Memory::Saved => "on",
                _ => "off",
            };
            command.arg("-drive").arg(match origin.supply {
                Some(supply) => supply.root_drive(),
                None => format!(
                    "if=none,id=root,file={},format=raw,snapshot={snapshot},cache=unsafe",
                    origin.dir.join("root.ext4").display()
                ),
            });
            command.args(["-device", "virtio-blk-pci,drive=root,serial=guest-root"]);
        }
        command.args([
            "-device",
            "virtio-scsi-pci,id=scsi",
            "-device",
            "virtio-vga,xres=1280,yres=800",
            "-device",
            "virtio-rng-pci",
        ]);
        command.args([
            "-device",
            "virtio-serial-pci",
            "-device",
            "virtio-keyboard-pci",
            "-device",
            "virtio-tablet-pci",
        ]);
        for (port, disk) in fixed {
            command.args(port.arguments(disk));
        }
        if let Some(efi) = &parts.efi {
            command.args(efi.arguments());
        }
        for port in ["agent0", "agent1"] {
            command.arg("-chardev").arg(format!(
                "socket,id={port},path={},server=on,wait=off",
                dir.join(port).display()
            ));
            command
                .arg("-device")
                .arg(format!("virtserialport,chardev={port},name={port}"));
        }
        command
            .arg("-chardev")
            .arg(format!("file,id=console,path={}", console.display()));
        command.args(["-device", "isa-serial,chardev=console"]);
        command.arg("-qmp").arg(format!(
            "unix:{},server=on,wait=off",
            dir.join("qmp").display()
        ));
        command.args(match screen {
            Screen::Hidden => ["-display", "none"],
            Screen::Window => ["-display", "gtk,zoom-to-fit=off"],
        });
        command.args(boot::arguments(parts, origin));
        if origin.memory.is_saved() {
            command.args(["-incoming", "defer"]);
        }
        let (child, qmp, agent) = start::launch(&mut command, &dir)?;
        Ok(Self {
            child,
            command: (!origin.memory.is_saved()).then_some(command),
            plugged: Vec::new(),
            qmp,
            agent,
            second: dir.join("agent1"),
            console,
            last_console: cx.target.join("vm-console.log"),
            dir,
        })
    }

    /// Plugs a SCSI disk in.
    pub fn plug(&mut self, disk: &Disk) -> Result<()> {
        let node = format!("node-{}", disk.serial);
        self.change_disks(
            "blockdev-add",
            json!({ "node-name": node, "driver": "raw", "read-only": disk.read_only, "discard": "unmap", "cache": { "direct": false, "no-flush": true },
                "file": { "driver": "file", "filename": disk.file, "discard": "unmap", "cache": { "direct": false, "no-flush": true } } }),
        )?;
        self.plug_again(disk)
    }

    /// Plugs in again a SCSI disk that was unplugged.
    pub fn plug_again(&mut self, disk: &Disk) -> Result<()> {
        self.plug_node(disk, &format!("node-{}", disk.serial))
    }

    /// Plugs in a SCSI disk that was unplugged, and which can now only be read, not written.
    pub fn plug_worn(&mut self, disk: &Disk) -> Result<()> {
        let node = format!("worn-{}", disk.serial);
        self.change_disks(
            "blockdev-add",
            json!({ "driver": "blkdebug", "node-name": node, "image": format!("node-{}", disk.serial),
                "inject-error": [{ "event": "none", "iotype": "write", "errno": 5 }] }),
        )?;
        self.plug_node(disk, &node)
    }

    /// Plugs in a SCSI disk that claims to be `disk` and has the contents of another file.
    pub fn plug_copy(&mut self, disk: &Disk, file: &Path) -> Result<()> {
        let node = format!("copy-{}", disk.serial);
        self.change_disks(
            "blockdev-add",
            json!({ "node-name": node, "driver": "raw", "file": { "driver": "file", "filename": file } }),
        )?;
        self.plug_node(disk, &node)
    }

    fn plug_node(&mut self, disk: &Disk, node: &str) -> Result<()> {
        self.change_disks(
            "device_add",
            json!({ "driver": "scsi-hd", "id": disk.serial, "bus": "scsi.0", "drive": node, "vendor": disk.vendor,
                "product": disk.product, "serial": disk.serial, "device_id": disk.serial, "wwn": disk.wwn,
                "rotation_rate": disk.rotation_rate }),
        )?;
        Ok(())
    }

    /// Pulls a SCSI disk out, as when its cable comes loose.
    pub fn unplug(&mut self, disk: &Disk) -> Result<()> {
        self.change_disks("device_del", json!({ "id": disk.serial }))
    }

    /// Takes a picture of the guest's screen.
    pub fn screenshot(&mut self, png: &Path) -> Result<()> {
        self.qmp.screenshot(png)
    }

    /// Where this run of the machine keeps its files.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// QEMU's process, which measures the time of the guest.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Processor time that the machine has used so far, which hardly depends on the other load of this computer.
    pub fn processor_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // After the name, which may contain any character, come the state and numbers: user and system time in 1/100 s.
        let (_, numbers) = stat.rsplit_once(')').context("a process has a name")?;
        let numbers: Vec<_> = numbers.split_whitespace().collect();
        let ticks = |index: usize| numbers.get(index).and_then(|text| text.parse::<u64>().ok());
        let (user, system) = ticks(11).zip(ticks(12)).context("a process has times")?;
        Ok(Duration::from_millis((user + system) * 10))
    }

    /// Waits until the person has closed the machine's window.
    pub fn until_closed(mut self) -> Result<()> {
        self.child.wait()?;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.qmp.run("quit", json!({}))?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        if let Ok(Some(status)) = self.child.try_wait()
            && !status.success()
        {
            let said = start::said(&self.dir);
            say(format!("QEMU has ended by itself, {status}: {said}"));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::copy(&self.console, &self.last_console);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Where a machine's memory and root disk come from.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// The directory that holds the root disk, and the memory where that is a file.
    pub dir: &'a Path,
    /// Instead of the image's own initial file system and the root disk in `dir`.
    pub boot: Option<&'a Boot>,
    /// Where the memory is, and whether the machine goes on from a saved state.
    pub memory: Memory,
    /// Where the root disk is instead of in `dir`.
    pub supply: Option<&'a Supply>,
}

/// Where a machine's memory is.
#[derive(Clone, Copy)]
pub(crate) enum Memory {
    /// In no file: the host would write a memory file to its disk, and the machine would wait for that disk.
    Fresh,
    /// In a file from power on, so that the memory can be saved.
    ToSave,
    /// In the file of a saved state, and the machine's changes stay in that file.
    SavedAndKept,
    /// In the file of a saved state, which does not change. Only with this memory the root disk does not change either.
    Saved,
}

impl Memory {
    fn is_saved(self) -> bool {
        matches!(self, Self::SavedAndKept | Self::Saved)
    }

    fn is_kept(self) -> bool {
        matches!(self, Self::ToSave | Self::SavedAndKept)
    }
}

/// A guard that kills QEMU when the start of the machine fails.
struct Guard(Option<Child>, PathBuf);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
            let _ = fs::remove_dir_all(&self.1);
        }
    }
}

/// A number that is unique in this process.
pub fn unique() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

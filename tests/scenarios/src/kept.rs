// SPDX-License-Identifier: GPL-3.0-or-later
//! A machine whose disks survive when it is switched off, cleanly or by a power cut.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, mem};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use tandem_guest::disks::{self, Pair, Scratch};
use tandem_guest::guest::{LONG, MOUNT_POINT, SHORT};
use tandem_guest::power::{Cut, ROOT, Snapshot, Supply};
use tandem_guest::vm::{Disk, POWER_OFF, Parts, Port, SMALL, Vm};
use tandem_guest::vm_state;
use tandem_harness::layer::Run;

/// Longest time from power on until the desktop's targets are reached, on a busy machine without KVM.
pub(crate) const BOOT: Duration = Duration::from_secs(300);
/// Script that ends when the start is over.
pub(crate) const STARTED: &str = r#"
systemctl is-system-running --wait >/dev/null
until [ -z "$(systemctl list-jobs --no-legend)" ]; do sleep 0.2; done
journalctl -b --no-pager -o short-monotonic -u tandem-assemble; findmnt --noheadings /home/anna/Archive; dmsetup table"#;
/// Script that prints one counter of the status line, or 0 if the line does not have that counter.
pub(crate) const COUNTER: &str = r#"dmsetup status --target tandem | awk '{ for (i = 1; i < NF; i++) if ($i == "NAME") n = $(i + 1) } END { print n + 0 }'"#;
/// Script that prints how many sectors are on the SSD only.
pub(crate) const DIRTY: &str = r#"dmsetup status --target tandem | awk '{ for (i = 1; i < NF; i++) if ($i == "tandem") print $(i + 6) }'"#;
/// Bytes a second that the hard disk accepts while data shall stay on the SSD only. A file of 24 MiB takes three
/// minutes: a busy machine needs one of them to switch itself off, and one for up to 8 MiB of the file that are being
/// written back.
pub(crate) const SLOW: u64 = 128 << 10;
/// Least number of sectors that are on the SSD only when the machine goes off. The last file has 49152.
pub(crate) const LEFT: u64 = 2048;

/// The number of saved files that stay on the disk, which has no room for those of all cases.
const KEPT: usize = 4;
/// Script that makes the line of fstab as an installer writes it.
const ENTERED: &str = "sed -i 's/noauto,nofail,//' /etc/fstab; systemctl daemon-reload";

/// How both disks are connected to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wiring {
    /// To a SCSI controller, where disks can come and go.
    HotPlug,
    /// The hard disk to a SATA port, the SSD to a slot for NVMe drives.
    Inside,
    /// The hard disk in a USB box, the SSD to a slot for NVMe drives.
    Box,
}

impl Wiring {
    /// The disks that the machine has from power on, with their ports.
    pub(crate) fn fixed(self, pair: &Pair, ssd: bool) -> Vec<(Port, &Disk)> {
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
    pub(crate) fn plugged(self, pair: &Pair, ssd: bool) -> Vec<&Disk> {
        match self {
            Self::HotPlug if ssd => vec![&pair.origin, &pair.ssd],
            Self::HotPlug => vec![&pair.origin],
            Self::Inside | Self::Box => Vec::new(),
        }
    }
}

/// A machine whose disks survive when it is switched off.
pub(crate) struct KeptMachine {
    pub(crate) vm: Option<Vm>,
    pub(crate) parts: Parts,
    pub(crate) pair: Pair,
    pub(crate) wiring: Wiring,
    /// The power supply of both disks and of the root disk, which lose their write caches at a cut. Without a supply they
    /// lose nothing.
    supply: Option<Supply>,
    pub(crate) dir: PathBuf,
    /// Checksums of the files that were on the disk at the beginning.
    pub(crate) files: String,
    /// Names of the files that were written since, with their checksums.
    pub(crate) written: Vec<(String, String)>,
    _scratch: Scratch,
}

impl KeptMachine {
    /// A machine with the project installed and a cache in write-through. It starts with the project and little else.
    pub(crate) fn new(run: &Run, wiring: Wiring) -> Result<Self> {
        let mut parts = Parts::get(run.cx)?;
        parts.append = SMALL;
        let root = vm_state::installed_root(run.cx, &parts)?;
        let scratch = Scratch::new()?;
        let pair = disks::pair(&scratch)?;
        let dir = scratch.path().join("machine");
        fs::create_dir(&dir)?;
        disks::copy(&root, &dir.join("root.ext4"))?;
        let fixed = wiring.fixed(&pair, true);
        let mut vm = Vm::power_on_with(run.cx, &parts, &dir, &fixed, None)?;
        vm.up(BOOT)?;
        for disk in wiring.plugged(&pair, true) {
            vm.plug(disk)?;
        }
        let (disk, ssd) = (vm.device(pair.origin.serial)?, vm.device(pair.ssd.serial)?);
        vm.agent.sh(ENTERED, SHORT)?;
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
            supply: None,
            dir,
            files,
            written: Vec::new(),
            _scratch: scratch,
        })
    }

    /// A machine with the project installed and both disks plugged in, without a cache. All of its disks lose their
    /// write caches at a power cut. It starts with the project and little else.
    pub(crate) fn supplied(run: &Run) -> Result<Self> {
        let mut parts = Parts::get(run.cx)?;
        let scratch = Scratch::new()?;
        let pair = disks::pair(&scratch)?;
        let dir = scratch.path().join("machine");
        fs::create_dir(&dir)?;
        parts.append = SMALL;
        let root = vm_state::installed_root(run.cx, &parts)?;
        let files = [&pair.origin, &pair.ssd].map(|disk| (disk.serial, disk.file.as_path()));
        let [origin, ssd] = files;
        let supply = Supply::new(scratch.path(), &[origin, ssd, (ROOT, &root)])?;
        let mut vm = Vm::installed_supplied(run.cx, &parts, &supply)?;
        for disk in [&pair.origin, &pair.ssd] {
            vm.plug_supplied(disk, &supply)?;
            vm.device(disk.serial)?;
        }
        let caches = vm
            .agent
            .sh("cat /sys/block/[sv]d?/queue/write_cache", SHORT)?;
        let volatile = caches.lines().filter(|cache| *cache == "write back");
        ensure!(
            volatile.count() == 3,
            "the disks have write caches {caches}"
        );
        vm.agent.sh(ENTERED, SHORT)?;
        vm.mount()?;
        let files = vm.checksums()?;
        Ok(Self {
            vm: Some(vm),
            parts,
            pair,
            wiring: Wiring::HotPlug,
            supply: Some(supply),
            dir,
            files,
            written: Vec::new(),
            _scratch: scratch,
        })
    }

    pub(crate) fn supply(&self) -> Result<&Supply> {
        self.supply.as_ref().context("the disks lose nothing")
    }

    /// Cuts the power of the machine at a moment that may have passed: its disks are as they were then, but for what they
    /// lose. `seed` says what they lose.
    pub(crate) fn cut_power(&mut self, run: &Run, moment: Snapshot, seed: u64) -> Result<()> {
        self.vm = None;
        self.supply = None;
        let socket = self.dir.join("power");
        let _ = fs::remove_dir_all(&socket);
        fs::create_dir(&socket)?;
        let (supply, cuts) = moment.cut(&socket, seed)?;
        for (disk, Cut { kept, lost }) in cuts {
            run.note(&format!(
                "cut: {disk} has lost {lost} sectors that were not flushed, and kept {kept}"
            ));
        }
        self.supply = Some(supply);
        Ok(())
    }

    pub(crate) fn vm(&mut self) -> Result<&mut Vm> {
        self.vm.as_mut().context("the machine is off")
    }

    pub(crate) fn sh(&mut self, script: &str) -> Result<String> {
        Ok(self.vm()?.agent.sh(script, LONG)?.trim().to_owned())
    }

    pub(crate) fn power_off(&mut self, run: &Run) -> Result<()> {
        let begun = Instant::now();
        let said = mem::take(&mut self.vm).map_or(Ok(String::new()), |vm| vm.off_by(POWER_OFF))?;
        run.note(&format!(
            "{said}\nswitched off in {} s",
            begun.elapsed().as_secs()
        ));
        Ok(())
    }

    /// Switches the machine on and waits until the start is over.
    pub(crate) fn power_on(&mut self, run: &Run, ssd: bool) -> Result<()> {
        let begun = Instant::now();
        // A machine that a failed test has left.
        self.vm = None;
        let fixed = self.wiring.fixed(&self.pair, ssd);
        let supply = self.supply.as_ref();
        let mut vm = Vm::power_on_with(run.cx, &self.parts, &self.dir, &fixed, supply)?;
        for disk in self.wiring.plugged(&self.pair, ssd) {
            match supply {
                Some(supply) => vm.plug_supplied(disk, supply)?,
                None => vm.plug(disk)?,
            }
        }
        vm.up(BOOT)?;
        let told = vm.agent.sh(STARTED, BOOT)?;
        run.note(&format!(
            "started in {} s, with {} s of processor time\n{told}",
            begun.elapsed().as_secs(),
            vm.processor_time()?.as_secs()
        ));
        self.vm = Some(vm);
        Ok(())
    }

    /// The device that the file system is mounted from.
    pub(crate) fn source(&mut self) -> Result<String> {
        self.sh(&format!(
            "findmnt --noheadings --output SOURCE {MOUNT_POINT} || true"
        ))
    }

    /// Saves a file of which a good part stays on the SSD only until the machine is off.
    pub(crate) fn leave_dirty(&mut self, name: &str) -> Result<u64> {
        self.throttle(SLOW)?;
        self.save(name)?;
        let dirty = self.sh(DIRTY)?.parse()?;
        ensure!(dirty >= LEFT, "only {dirty} sectors are on the SSD only");
        Ok(dirty)
    }

    /// Lets the hard disk accept so many bytes a second; 0: as many as it can.
    pub(crate) fn throttle(&mut self, bytes: u64) -> Result<()> {
        let disk = self.pair.origin.serial;
        self.vm()?.qmp.run(
            "block_set_io_throttle",
            json!({ "id": disk, "bps": 0, "bps_rd": 0, "bps_wr": bytes, "iops": 0, "iops_rd": 0, "iops_wr": 0 }),
        )?;
        Ok(())
    }

    /// Data that was on the SSD only when the machine went off must still be there, or must have been written back
    /// since this start.
    pub(crate) fn still_dirty(&mut self, run: &Run, before: u64) -> Result<()> {
        let (dirty, drained) = (self.sh(DIRTY)?.parse::<u64>()?, self.counter("drained")?);
        run.note(&format!(
            "{before} sectors dirty before, now {dirty}, and {drained} drained since"
        ));
        ensure!(
            dirty + drained >= LEFT,
            "{before} sectors were dirty, {dirty} are, {drained} were drained"
        );
        Ok(())
    }

    pub(crate) fn counter(&mut self, name: &str) -> Result<u64> {
        let value = self.sh(&COUNTER.replace("NAME", name))?;
        value
            .parse()
            .with_context(|| format!("counter {name}: {value}"))
    }

    /// Writes a file and syncs it, as an application does that saves.
    pub(crate) fn save(&mut self, name: &str) -> Result<()> {
        if self.written.len() == KEPT {
            let (oldest, _) = self.written.remove(0);
            self.sh(&format!("rm {MOUNT_POINT}/{oldest}"))?;
        }
        let sum = self.sh(&format!(
            "cd {MOUNT_POINT} && dd if=/dev/urandom of={name} bs=64k count=384 conv=fsync status=none && cksum {name}"
        ))?;
        self.note_written(name, sum);
        Ok(())
    }

    /// From now on the file must have this checksum.
    pub(crate) fn note_written(&mut self, name: &str, sum: String) {
        self.written.retain(|(before, _)| before != name);
        self.written.push((name.to_owned(), sum));
    }

    /// All files must have the contents that were written; they are read from the devices.
    pub(crate) fn all_there(&mut self) -> Result<()> {
        self.written_there()?;
        ensure!(self.vm()?.checksums()? == self.files, "the files differ");
        Ok(())
    }

    /// As [`Self::all_there`], without the files that were there at the beginning.
    pub(crate) fn written_there(&mut self) -> Result<()> {
        self.vm()?.drop_page_cache()?;
        for (name, sum) in self.written.clone() {
            let now = self.sh(&format!("cd {MOUNT_POINT} && cksum {name}"))?;
            ensure!(now == sum, "{name} was {sum} and is {now}");
        }
        Ok(())
    }
}

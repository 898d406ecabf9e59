// SPDX-License-Identifier: GPL-3.0-or-later
//! Debian's kernels in trouble: with disks that are pulled while they are in use, and with little memory.
//!
//! QEMU removes a disk as a person pulls its plug: requests under way end with errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::{LIMIT, MODULES, PROGRAMS, Target, boot, initramfs};
use crate::{suite, uml};
use tandem_guest::qemu::Qemu;
use tandem_guest::qmp::Qmp;
use tandem_harness::layer::Run;

/// Modules besides those of the functional suite.
const SCSI: [&str; 3] = ["virtio_pci", "virtio_scsi", "sd_mod"];

/// Program for the swap file.
const MKSWAP: &str = "/sbin/mkswap";

/// A disk of the guest: its name, which is also its serial number, its size in MiB, and its reported rotation rate.
struct Disk(&'static str, u64, u32);

const PULLED: [Disk; 2] = [Disk("disk", 64, 7200), Disk("ssd", 24, 1)];
const SWAPPED: [Disk; 2] = [Disk("disk", 512, 7200), Disk("ssd", 64, 1)];

impl Disk {
    /// QEMU's arguments to plug the disk in.
    fn device(&self) -> serde_json::Value {
        let Self(name, _, rotation) = self;
        json!({
            "driver": "scsi-hd", "id": name, "drive": format!("{name}-file"), "serial": name,
            "rotation_rate": rotation, "bus": "scsi.0",
        })
    }

    fn file(&self, run: &Run, release: &str) -> Result<PathBuf> {
        let Self(name, mib, _) = self;
        let file = run.cx.target.join(format!("trouble-{release}-{name}.img"));
        let _ = fs::remove_file(&file);
        fs::File::create(&file)?.set_len(mib << 20)?;
        Ok(file)
    }
}

/// Disks are pulled and plugged in again when the suite asks for it.
pub fn pulled(run: &mut Run, qemu: &Qemu, target: &Target, accel: [&str; 2]) -> Result<()> {
    guest(run, qemu, target, accel, ("pulled", ""), 1024, &PULLED)
}

/// A swap file and a loop file on the cached device, with less memory than they use. One mode and a sixteenth of the
/// pages run here, which takes a minute or two; User-mode Linux runs all of them.
pub fn memory(run: &mut Run, qemu: &Qemu, target: &Target, accel: [&str; 2]) -> Result<()> {
    guest(
        run,
        qemu,
        target,
        accel,
        ("memory", "write-back"),
        288,
        &SWAPPED,
    )
}

fn guest(
    run: &mut Run,
    qemu: &Qemu,
    target: &Target,
    accel: [&str; 2],
    (set, only): (&str, &str),
    mib: u32,
    disks: &[Disk],
) -> Result<()> {
    let release = &target.kernel.release;
    let modules: Vec<_> = SCSI.iter().chain(MODULES).copied().collect();
    let programs: Vec<_> = PROGRAMS
        .iter()
        .chain([&MKSWAP])
        .map(|program| (Path::new(*program), *program))
        .collect();
    let (initramfs, variables) = initramfs(run.cx, target, &modules, &[&target.disk], &programs)?;
    let only = match run.case {
        Some(_) => uml::only(run),
        None => only.to_owned(),
    };
    let socket = run.cx.target.join(format!("trouble-{release}.qmp"));
    let _ = fs::remove_file(&socket);
    let mut guest = qemu.command();
    guest.args([
        "-accel", accel[0], "-cpu", accel[1], "-machine", "q35", "-smp", "2",
    ]);
    guest.args(["-m", &mib.to_string(), "-device", "virtio-scsi-pci,id=scsi"]);
    guest
        .arg("-qmp")
        .arg(format!("unix:{},server=on,wait=off", socket.display()));
    for disk in disks {
        let file = disk.file(run, release)?;
        let node = json!({
            "driver": "raw", "node-name": format!("{}-file", disk.0),
            "file": { "driver": "file", "filename": file, "cache": { "no-flush": true } },
        });
        guest.args([
            "-blockdev",
            &node.to_string(),
            "-device",
            &disk.device().to_string(),
        ]);
    }
    boot(
        &mut guest,
        &target.kernel,
        &initramfs,
        &format!(
            "{variables} SUITE_SET={set} SUITE_SHARE=16 SUITE_ONLY={only} SUITE_DISK=disk SUITE_SSD=ssd oops=panic"
        ),
    );
    let mut hand = Hand {
        socket,
        qmp: None,
        result: Ok(()),
    };
    let ran = suite::cases_with(run, &mut guest, LIMIT, |line| hand.hear(line, disks));
    hand.result?;
    ran
}

/// The hand that pulls and plugs disks for the suite.
struct Hand {
    socket: PathBuf,
    qmp: Option<Qmp>,
    result: Result<()>,
}

impl Hand {
    fn hear(&mut self, line: &str, disks: &[Disk]) {
        let asked = line
            .strip_prefix("suite: ")
            .and_then(|rest| rest.split_once(' '));
        let Some((what @ ("pull" | "plug"), name)) = asked else {
            return;
        };
        let done = self.act(what, name.trim(), disks);
        if self.result.is_ok() {
            self.result = done.with_context(|| format!("cannot {what} {name}"));
        }
    }

    fn act(&mut self, what: &str, name: &str, disks: &[Disk]) -> Result<()> {
        let qmp = match &mut self.qmp {
            Some(qmp) => qmp,
            none => none.insert(Qmp::connect(&self.socket, Duration::from_secs(20))?),
        };
        let disk = disks.iter().find(|disk| disk.0 == name);
        let device = disk.context("no such disk")?.device();
        match what {
            "pull" => qmp.run("device_del", json!({ "id": name })),
            _ => qmp.run("device_add", device),
        }
        .map(drop)
    }
}

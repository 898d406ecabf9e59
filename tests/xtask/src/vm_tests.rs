// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests in the virtual machine: the main job by clicks, and what must hold when things go wrong.

mod bytes;
mod conformance;
mod kill;
mod refusals;
mod restart;
mod writeback;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::demo;
use crate::disks::{self, Pair, Scratch};
use crate::guest::LONG;
use crate::layer::{Bench, Layer};
use crate::stage;
use crate::vm::{Parts, Screen, Vm};

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        Layer {
            name: "vm-refusals",
            about: "what is refused in a real system, and who may not",
            run: refusals::run,
        },
        Layer {
            name: "vm-bytes",
            about: "no byte changes by itself: removal, and an SSD that is pulled out",
            run: bytes::run,
        },
        Layer {
            name: "vm-kill",
            about: "kill -9 of the service at every step of create and remove",
            run: kill::run,
        },
        Layer {
            name: "vm-restart",
            about: "the machine is switched off and on, with and without warning and SSD",
            run: restart::run,
        },
        Layer {
            name: "vm-conformance",
            about: "the service's conformance suite on the real engine",
            run: conformance::run,
        },
        Layer {
            name: "vm-writeback",
            about: "write-back by clicks, and an SSD that is pulled while it alone has data",
            run: writeback::run,
        },
        Layer {
            name: "vm-main",
            about: "the main job by clicks in the real app",
            run: main_job,
        },
    ]
}

fn main_job(bench: &mut Bench) -> Result<()> {
    let result = demo::once(bench.cx, Screen::Hidden, "main").map(drop);
    bench.check("wizard, cache, figures, removal, same bytes", result);
    let result = nothing_left();
    bench.check("no machine is left when xtask is killed", result);
    Ok(())
}

/// Kills an xtask that has a machine running, as the system does when memory runs out, and waits for the machine's end.
fn nothing_left() -> Result<()> {
    let mut xtask = Command::new(std::env::current_exe()?)
        .args(["vm", "echo it runs; sleep 600"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let pid = xtask.id();
    let output = xtask.stdout.take().context("xtask has an output")?;
    let runs = BufReader::new(output)
        .lines()
        .any(|line| line.is_ok_and(|line| line == "it runs"));
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    xtask.kill()?;
    xtask.wait()?;
    ensure!(runs, "xtask started no machine");
    let children = children.context("who is whose child is not told here")?;
    let children: Vec<_> = children.split_whitespace().collect();
    ensure!(children.len() == 1, "not one QEMU: {children:?}");
    let qemu = format!("/proc/{}/exe", children[0]);
    let end = Instant::now() + Duration::from_secs(10);
    while fs::read_link(&qemu).is_ok_and(|exe| exe.ends_with("qemu-system-x86_64")) {
        ensure!(Instant::now() < end, "QEMU outlives xtask");
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::remove_dir_all(std::env::temp_dir().join(format!("tandem-vm-{pid}-0")))?;
    Ok(())
}

/// A machine with the project installed and both disks plugged in, the partition mounted.
struct Scene {
    vm: Vm,
    disk: String,
    ssd: String,
    files: String,
    /// What is plugged in.
    pair: Pair,
    _scratch: Scratch,
}

impl Scene {
    fn new(bench: &Bench) -> Result<Self> {
        let parts = Parts::get(bench.cx)?;
        let stage = stage::build(bench.cx, &parts)?;
        let mut vm = Vm::start(bench.cx, &parts, Screen::Hidden)?;
        stage::install(&mut vm, &stage)?;
        let scratch = Scratch::new()?;
        let pair = disks::pair(&scratch)?;
        vm.plug(&pair.origin)?;
        vm.plug(&pair.ssd)?;
        let (disk, ssd) = (vm.device(pair.origin.serial)?, vm.device(pair.ssd.serial)?);
        vm.mount()?;
        let files = vm.checksums()?;
        Ok(Self {
            vm,
            disk: format!("{disk}1"),
            ssd,
            files,
            pair,
            _scratch: scratch,
        })
    }

    fn create(&mut self) -> Result<()> {
        let line = format!(
            "tandemctl create --yes --erase-ssd {} {}",
            self.disk, self.ssd
        );
        self.vm.agent.sh(&line, LONG).map(drop)
    }

    fn remove(&mut self) -> Result<()> {
        self.vm.agent.sh("tandemctl remove --yes", LONG).map(drop)
    }
}

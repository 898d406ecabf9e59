// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests in the virtual machine: the main job by clicks, and the promises that must hold when something
//! fails.

mod advice;
mod bytes;
mod conformance;
mod cut;
mod firmware;
mod install;
mod kept;
mod kill;
mod main_job;
mod moments;
mod refusals;
mod restart;
mod stack;
mod system;
mod writeback;

use anyhow::Result;

use crate::deb;
use crate::disks::{self, Pair, Scratch};
use crate::guest::LONG;
use crate::inputs::{Inputs, KMOD};
use crate::layer::{Bench, Layer, no_cases};
use crate::vm::{Parts, Screen, Vm};

/// Sources of the machine and of the data files in it.
const SOURCES: [&str; 5] = ["tests/vm", "data", "po", "meson.build", "meson_options.txt"];

const INPUTS: Inputs = Inputs {
    packages: &[],
    programs: &[
        "tandem",
        "tandem-tray",
        "tandemctl",
        "tandem-helper",
        "tandem-e2e",
    ],
    paths: &[&KMOD, &SOURCES],
    module: module_path!(),
};

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        Layer {
            name: "vm-refusals",
            about: "what is refused in a real system, and who may not",
            cases: refusals::cases,
            inputs: INPUTS,
            run: refusals::run,
        },
        Layer {
            name: "vm-firmware",
            about: "the key of the module is handed to the firmware of an EFI machine",
            cases: |_| Ok(vec![firmware::CASE.to_owned()]),
            inputs: INPUTS,
            run: firmware::run,
        },
        Layer {
            name: "vm-bytes",
            about: "no byte changes by itself: removal, and an SSD that is pulled out",
            cases: |_| Ok(bytes::CASES.map(|(name, _)| name.to_owned()).into()),
            inputs: INPUTS,
            run: bytes::run,
        },
        Layer {
            name: "vm-advice",
            about: "a disk is watched, and its cache hits as predicted",
            cases: |_| Ok(advice::CASES.map(|(name, _)| name.to_owned()).into()),
            inputs: INPUTS,
            run: advice::run,
        },
        Layer {
            name: "vm-kill",
            about: "kill -9 of the service at every step of create, remove and resize",
            cases: kill::cases,
            inputs: INPUTS,
            run: kill::run,
        },
        Layer {
            name: "vm-cut",
            about: "a power cut of all disks at every step of resize, create and remove",
            cases: cut::cases,
            inputs: INPUTS,
            run: cut::run,
        },
        Layer {
            name: "vm-restart",
            about: "the machine is switched off and on, with and without warning and SSD",
            cases: restart::cases,
            inputs: INPUTS,
            run: restart::run,
        },
        Layer {
            name: "vm-system",
            about: "the running system and a folder in use on caches, through real initial file systems",
            cases: system::cases,
            inputs: INPUTS,
            run: system::run,
        },
        Layer {
            name: "vm-dracut",
            about: "the same with initial file systems by dracut",
            cases: system::cases,
            inputs: INPUTS,
            run: system::dracut,
        },
        Layer {
            name: "vm-ports",
            about: "a disk on SATA and an SSD on NVMe, and the disk moves into a USB box",
            cases: restart::ports::cases,
            inputs: INPUTS,
            run: restart::ports::run,
        },
        Layer {
            name: "vm-stack",
            about: "an array or a volume below a cache, an encrypted volume above",
            cases: stack::cases,
            inputs: INPUTS,
            run: stack::run,
        },
        Layer {
            name: "vm-conformance",
            about: "the service's conformance suite on the real engine",
            cases: conformance::cases,
            inputs: Inputs {
                packages: &["tandem-simulated"],
                ..INPUTS
            },
            run: conformance::run,
        },
        Layer {
            name: "vm-writeback",
            about: "write-back by clicks, and an SSD that is pulled while it alone has data",
            cases: |_| Ok(writeback::PARTS.map(|(name, _)| name.to_owned()).into()),
            inputs: INPUTS,
            run: writeback::run,
        },
        Layer {
            name: "vm-install-12",
            about: "the Debian packages on a fresh Debian 12",
            cases: install::cases,
            inputs: Inputs {
                paths: &[&KMOD, &SOURCES, &deb::SOURCES],
                ..INPUTS
            },
            run: install::bookworm,
        },
        Layer {
            name: "vm-install-13",
            about: "the Debian packages on a fresh Debian 13",
            cases: install::cases,
            inputs: Inputs {
                paths: &[&KMOD, &SOURCES, &deb::SOURCES],
                ..INPUTS
            },
            run: install::trixie,
        },
        Layer {
            name: "vm-main",
            about: "the main job by clicks in the real app",
            cases: no_cases,
            inputs: INPUTS,
            run: main_job::run,
        },
    ]
}

/// A machine with the project installed and both disks plugged in, the partition mounted.
struct Scene {
    vm: Vm,
    disk: String,
    ssd: String,
    files: String,
    /// The disks that are plugged in.
    pair: Pair,
    _scratch: Scratch,
}

impl Scene {
    fn new(bench: &Bench) -> Result<Self> {
        let parts = Parts::get(bench.cx)?;
        let mut vm = Vm::installed(bench.cx, &parts, Screen::Hidden)?;
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

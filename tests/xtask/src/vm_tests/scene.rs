// SPDX-License-Identifier: GPL-3.0-or-later
//! The machine in which most layers begin.

use anyhow::Result;

use crate::disks::{self, Pair, Scratch};
use crate::guest::LONG;
use crate::layer::Bench;
use crate::vm::{Parts, Screen, Vm};

/// A machine with the project installed and both disks plugged in, the partition mounted.
pub(super) struct Scene {
    pub(super) vm: Vm,
    pub(super) disk: String,
    pub(super) ssd: String,
    pub(super) files: String,
    /// The disks that are plugged in.
    pub(super) pair: Pair,
    _scratch: Scratch,
}

impl Scene {
    pub(super) fn new(bench: &Bench) -> Result<Self> {
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

    pub(super) fn create(&mut self) -> Result<()> {
        let line = format!(
            "tandemctl create --yes --erase-ssd {} {}",
            self.disk, self.ssd
        );
        self.vm.agent.sh(&line, LONG).map(drop)
    }

    pub(super) fn remove(&mut self) -> Result<()> {
        self.vm.agent.sh("tandemctl remove --yes", LONG).map(drop)
    }
}

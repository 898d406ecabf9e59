// SPDX-License-Identifier: GPL-3.0-or-later
//! The machine in which most layers begin.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use super::kept::BOOT;
use tandem_guest::disks::{self, Pair, Scratch};
use tandem_guest::guest::LONG;
use tandem_guest::stage;
use tandem_guest::vm::{Parts, Screen, Vm};
use tandem_harness::layer::Run;

/// A machine with the project installed and both disks plugged in, the partition mounted.
pub(crate) struct Scene {
    pub(crate) vm: Vm,
    pub(crate) disk: String,
    pub(crate) ssd: String,
    pub(crate) files: String,
    /// The disks that are plugged in.
    pub(crate) pair: Pair,
    _scratch: Scratch,
}

/// A machine with the project installed whose root is a copy in `scratch`, so that the machine can be switched off and on.
/// Returns the folder of that root, too.
pub(crate) fn machine_with_root(
    run: &Run,
    parts: &Parts,
    scratch: &Scratch,
) -> Result<(PathBuf, Vm)> {
    let stage = stage::build(run.cx, parts)?;
    let dir = scratch.path().join("machine");
    fs::create_dir(&dir)?;
    parts.copy_root(&dir)?;
    let mut vm = Vm::power_on(run.cx, parts, &dir)?;
    vm.up(BOOT)?;
    stage::install(&mut vm, &stage)?;
    Ok((dir, vm))
}

impl Scene {
    pub(crate) fn new(run: &Run) -> Result<Self> {
        let parts = Parts::get(run.cx)?;
        let mut vm = Vm::installed(run.cx, &parts, Screen::Hidden)?;
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

    pub(crate) fn create(&mut self) -> Result<()> {
        let line = format!(
            "tandemctl create --yes --erase-ssd {} {}",
            self.disk, self.ssd
        );
        self.vm.agent.sh(&line, LONG).map(drop)
    }

    pub(crate) fn remove(&mut self) -> Result<()> {
        self.vm.agent.sh("tandemctl remove --yes", LONG).map(drop)
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A moment of a scenario: a machine that was stopped and saved together with its disks. Any number of machines go on from
//! there, each as if it were the only one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::disks::{self, Scratch};
use crate::vm::{Disk, Memory, Origin, Parts, Screen, Vm};
use crate::vm_state;
use tandem_harness::cx::Cx;

/// A saved machine and its disks.
pub struct Moment {
    /// The disks that are plugged in, in the order in which they were plugged in.
    disks: Vec<Disk>,
    /// Memory, devices' state, root disk, and the disks' contents.
    scratch: Scratch,
}

impl Moment {
    /// Takes a machine with the project installed and these disks plugged in, and saves it when `reach` ends.
    pub fn new(
        cx: &Cx,
        parts: &Parts,
        disks: &[&Disk],
        reach: impl FnOnce(&mut Vm) -> Result<()>,
    ) -> Result<Self> {
        let state = vm_state::installed_state(cx, parts)?;
        let scratch = Scratch::new()?;
        vm_state::copy(&state, scratch.path())?;
        fs::copy(state.join("devices"), scratch.path().join("devices"))?;
        let moved = moved(disks.iter().copied(), scratch.path())?;
        let mut vm = kept(cx, parts, scratch.path())?;
        vm.restore(scratch.path())?;
        moved.iter().try_for_each(|disk| vm.plug(disk))?;
        reach(&mut vm)?;
        vm.save(scratch.path())?;
        Ok(Self {
            disks: moved,
            scratch,
        })
    }

    /// Goes on from here, and saves a later moment when `reach` ends.
    pub fn later(
        &self,
        cx: &Cx,
        parts: &Parts,
        reach: impl FnOnce(&mut Vm) -> Result<()>,
    ) -> Result<Self> {
        let scratch = Scratch::new()?;
        vm_state::copy(self.scratch.path(), scratch.path())?;
        let disks = moved(self.disks.iter(), scratch.path())?;
        let mut vm = kept(cx, parts, scratch.path())?;
        disks.iter().try_for_each(|disk| vm.plug(disk))?;
        vm.restore(self.scratch.path())?;
        reach(&mut vm)?;
        vm.save(scratch.path())?;
        Ok(Self { disks, scratch })
    }

    /// A machine that goes on from here. Nothing that it does comes back here.
    pub fn go_on(&self, cx: &Cx, parts: &Parts) -> Result<Vm> {
        let dir = self.scratch.path();
        let origin = Origin {
            dir,
            memory: Memory::Saved,
            boot: None,
            supply: None,
        };
        let mut vm = Vm::launch(cx, parts, &origin, Screen::Hidden, &[])?;
        for disk in moved(self.disks.iter(), vm.dir())? {
            vm.plug(&disk)?;
        }
        vm.restore(dir)?;
        Ok(vm)
    }
}

/// A machine whose memory and root disk stay in `dir`.
fn kept(cx: &Cx, parts: &Parts, dir: &Path) -> Result<Vm> {
    let origin = Origin {
        dir,
        memory: Memory::SavedAndKept,
        boot: None,
        supply: None,
    };
    Vm::launch(cx, parts, &origin, Screen::Hidden, &[])
}

/// Copies of disks, in `dir`.
fn moved<'a>(disks: impl Iterator<Item = &'a Disk>, dir: &Path) -> Result<Vec<Disk>> {
    let copied = |disk: &Disk| {
        let file = disk.file.file_name().context("a disk has a file")?;
        let file = dir.join(file);
        disks::copy(&disk.file, &file)?;
        Ok(Disk {
            file,
            ..disk.clone()
        })
    };
    disks.map(copied).collect()
}

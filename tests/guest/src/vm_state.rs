// SPDX-License-Identifier: GPL-3.0-or-later
//! Saved states of the virtual machine, in the cache of xtask. In one state the desktop runs; in the other the project
//! is also installed. A machine starts from a saved state, unless a test is about the start of the machine itself.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::disks;
use crate::power::Supply;
use crate::stage;
use crate::vm::{Memory, Origin, Parts, Screen, Vm};
use tandem_harness::cx::{Cx, say};
use tandem_harness::hash;

/// Longest time from power on until the desktop runs, on a busy machine without KVM.
const BOOT_LIMIT: Duration = Duration::from_secs(240);
/// Longest time until a restored machine answers.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Script that runs after the boot. The guest's caches, which the script fills, are part of the saved state.
const READY: &str = include_str!("../machine/ready.sh");
/// Script that runs after the installation, with the same effect.
const WARM: &str = include_str!("../machine/warm.sh");
/// Part of the key of each state. After a change of this value, xtask no longer uses older states.
const STATE_VERSION: &str = "1";

impl Vm {
    /// A machine with its desktop session running, without the project.
    pub fn bare(cx: &Cx, parts: &Parts, screen: Screen) -> Result<Self> {
        Self::from_state(cx, parts, &booted(cx, parts)?, screen)
    }

    /// Builds the project, and returns a machine with its desktop session running and the project installed.
    pub fn installed(cx: &Cx, parts: &Parts, screen: Screen) -> Result<Self> {
        Self::from_state(cx, parts, &installed_state(cx, parts)?, screen)
    }

    /// The same machine with its root disk behind a supply: see [`installed_root`].
    pub fn installed_supplied(cx: &Cx, parts: &Parts, supply: &Supply) -> Result<Self> {
        let state = installed_state(cx, parts)?;
        let origin = Origin {
            dir: &state,
            memory: Memory::Saved,
            boot: None,
            supply: Some(supply),
        };
        let mut vm = Self::launch(cx, parts, &origin, Screen::Hidden, &[])?;
        vm.restore(&state)?;
        Ok(vm)
    }

    fn from_state(cx: &Cx, parts: &Parts, state: &Path, screen: Screen) -> Result<Self> {
        let start = Instant::now();
        let origin = Origin {
            dir: state,
            memory: Memory::Saved,
            boot: None,
            supply: None,
        };
        let mut vm = Self::launch(cx, parts, &origin, screen, &[])?;
        vm.restore(state)?;
        say(format!(
            "virtual machine restored in {:.1} s ({})",
            start.elapsed().as_secs_f32(),
            parts.accelerator()
        ));
        Ok(vm)
    }

    /// Reads the devices' state and lets the machine run.
    pub(crate) fn restore(&mut self, state: &Path) -> Result<()> {
        self.qmp.run("migrate-set-capabilities", capabilities())?;
        self.qmp.run(
            "migrate-incoming",
            json!({ "uri": format!("exec:cat {}", quoted(&state.join("devices"))) }),
        )?;
        self.qmp
            .until("query-status", |answer| Ok(answer["status"] != "inmigrate"))?;
        self.qmp.run("cont", json!({}))?;
        self.agent
            .sh("true", ANSWER_LIMIT)
            .context("the restored machine does not answer")
            .map(drop)
    }

    /// Stops the machine and keeps its devices' state beside memory and root disk.
    pub(crate) fn save(mut self, dir: &Path) -> Result<()> {
        self.qmp.run("stop", json!({}))?;
        self.qmp.run("migrate-set-capabilities", capabilities())?;
        self.qmp.run(
            "migrate",
            json!({ "uri": format!("exec:cat >{}", quoted(&dir.join("devices"))) }),
        )?;
        self.qmp
            .until("query-migrate", |answer| match answer["status"].as_str() {
                Some("completed") => Ok(true),
                Some("failed") => bail!("saving the machine failed: {answer}"),
                _ => Ok(false),
            })?;
        self.finish()
    }
}

/// The saved state of a machine with the project installed, made if the cache lacks it.
pub(crate) fn installed_state(cx: &Cx, parts: &Parts) -> Result<PathBuf> {
    let stage = stage::build(cx, parts)?;
    let key = hash::key([&key(parts), &stage.key, stage::INSTALL, WARM]);
    cx.newest("installed", &key, |dir| {
        say("installing the project in the virtual machine, which is saved for the next time");
        let start = Instant::now();
        let from = booted(cx, parts)?;
        copy(&from, dir)?;
        let origin = Origin {
            dir,
            memory: Memory::SavedAndKept,
            boot: None,
            supply: None,
        };
        let mut vm = Vm::launch(cx, parts, &origin, Screen::Hidden, &[])?;
        vm.restore(&from)?;
        stage::install(&mut vm, &stage)?;
        vm.agent.sh(WARM, ANSWER_LIMIT)?;
        vm.save(dir)?;
        say(format!(
            "installed and saved in {:.1} s",
            start.elapsed().as_secs_f32()
        ));
        Ok(())
    })
}

/// The root disk of a machine with the project installed. Nothing may change it.
pub fn installed_root(cx: &Cx, parts: &Parts) -> Result<PathBuf> {
    Ok(installed_state(cx, parts)?.join("root.ext4"))
}

/// The state after the boot, made if the cache lacks it.
fn booted(cx: &Cx, parts: &Parts) -> Result<PathBuf> {
    cx.recent("state", &key(parts), 2, |dir| {
        say(format!(
            "booting the virtual machine once to save it with its desktop running ({})",
            parts.accelerator()
        ));
        let start = Instant::now();
        parts.copy_root(dir)?;
        let origin = Origin {
            dir,
            memory: Memory::ToSave,
            boot: None,
            supply: None,
        };
        let mut vm = Vm::launch(cx, parts, &origin, Screen::Hidden, &[])?;
        vm.agent
            .sh(READY, BOOT_LIMIT)
            .context("the guest's desktop does not come up")?;
        vm.save(dir)?;
        say(format!(
            "virtual machine booted and saved in {} s",
            start.elapsed().as_secs()
        ));
        Ok(())
    })
}

fn key(parts: &Parts) -> String {
    hash::key([
        &parts.qemu.key,
        &parts.image.key,
        parts.accelerator(),
        STATE_VERSION,
        READY,
    ])
}

/// Copies memory and root disk of a state, for a machine that writes to them.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    for name in ["memory", "root.ext4"] {
        disks::copy(&from.join(name), &to.join(name))?;
    }
    Ok(())
}

/// QEMU leaves the memory out of the migration stream, because the memory is a file of the saved state.
fn capabilities() -> serde_json::Value {
    json!({ "capabilities": [{ "capability": "x-ignore-shared", "state": true }] })
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

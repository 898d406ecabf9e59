// SPDX-License-Identifier: GPL-3.0-or-later
//! Loads the kernel module.
//!
//! The sandbox of the service may not load modules, so `modprobe@dm_tandem.service` of systemd loads the module. The
//! exit code of that unit does not say why the kernel refused the module, so this code reads the reason from the
//! machine.

use crate::host::device_mapper::{DeviceMapper, blocking, step};
use crate::host::systemd;
use crate::host::traits::Module;
use crate::machine::kernels;
use crate::machine::memory;
use crate::machine::module::{built, is_usable, problem, refuses_unsigned, release};
use async_trait::async_trait;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_api::{Failure, Kind, ModuleProblem, ModuleState, SigningKey};
use zbus::Connection;

const LOADED: &str = "/sys/module/dm_tandem";
const UNIT: &str = "modprobe@dm_tandem.service";
/// The kernel has refused the module. A running kernel does not change the keys that it trusts.
static REFUSED: AtomicBool = AtomicBool::new(false);
/// Least available memory, in bytes, to load the module. The module takes far less, but with less memory the kernel is
/// about to kill programs.
const MIN_MEMORY: u64 = 16 << 20;

/// Whether the kernel can run a cache.
pub fn state() -> ModuleState {
    crate::waiting(look)
}

fn look() -> ModuleState {
    if Path::new(LOADED).exists() {
        ModuleState::Loaded
    } else if !built(&release()) {
        ModuleState::NotBuilt
    } else if refuses_unsigned() && !is_trusted() {
        ModuleState::Refused
    } else {
        ModuleState::Available
    }
}

/// Whether the kernel will accept the module, as far as can be told without loading it.
fn is_trusted() -> bool {
    let root = Path::new("/");
    let untrusted = [SigningKey::NotEnrolled, SigningKey::Pending];
    is_usable(root, &release(), true)
        && !REFUSED.load(Ordering::Relaxed)
        && !untrusted.contains(&problem::signing_key(root, true))
}

#[async_trait]
impl Module for DeviceMapper {
    fn kernel(&self) -> String {
        release()
    }

    async fn module_state(&self) -> ModuleState {
        state()
    }

    fn has_dm_cache(&self) -> bool {
        crate::waiting(|| kernels::has_dm_cache(Path::new("/"), &release()))
    }

    async fn module_problem(&self) -> (ModuleProblem, String) {
        let look = || problem::of(Path::new("/"), &release(), state());
        let none = (ModuleProblem::None, String::new());
        blocking(look).await.unwrap_or(none)
    }

    async fn signing_key(&self) -> SigningKey {
        let look = || problem::signing_key(Path::new("/"), refuses_unsigned());
        blocking(look).await.unwrap_or(SigningKey::Unknown)
    }

    async fn enroll_key(&self, password: &str) -> Result<(), Failure> {
        let password = password.to_owned();
        blocking(move || problem::enroll(Path::new("/"), &password))
            .await?
            .map_err(|e| step(&e))
    }

    async fn kernels_without_module(&self) -> Vec<String> {
        let root = Path::new("/");
        let signed = refuses_unsigned();
        crate::waiting(|| kernels::without_module(root, &release(), signed))
    }
}

/// Has systemd load the module.
///
/// # Errors
/// `ModuleNotBuilt`, `ModuleRefused`, `OutOfMemory`, `ModuleFailed`.
pub async fn load(connection: &Connection) -> Result<(), Failure> {
    if state() == ModuleState::Loaded {
        return Ok(());
    }
    let release = release();
    if !built(&release) {
        return Err(Failure::new(Kind::ModuleNotBuilt).name(release));
    }
    let started = systemd::start(connection, UNIT).await;
    if state() == ModuleState::Loaded {
        return Ok(());
    }
    let detail = started
        .err()
        .map_or_else(|| format!("{UNIT}: module not there"), |e| e.to_string());
    let failure = if refuses_unsigned() {
        REFUSED.store(true, Ordering::Relaxed);
        Failure::new(Kind::ModuleRefused)
    } else if memory::room().is_some_and(|room| room.available < MIN_MEMORY) {
        Failure::new(Kind::OutOfMemory)
    } else {
        Failure::new(Kind::ModuleFailed)
    };
    Err(failure.name(release).detail(detail))
}

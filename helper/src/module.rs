// SPDX-License-Identifier: GPL-3.0-or-later
//! Loads the kernel module, and finds out whether the module is there and why it cannot be loaded.
//!
//! The sandbox of the service may not load modules, so `modprobe@dm_tandem.service` of systemd loads the module. The
//! exit code of that unit does not say why the kernel refused the module, so this code reads the reason from the
//! machine.

pub mod problem;

use crate::mounts::systemd;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_api::{Failure, Kind, ModuleState, SigningKey};
use zbus::Connection;

const LOADED: &str = "/sys/module/dm_tandem";
const UNIT: &str = "modprobe@dm_tandem.service";
/// The kernel has refused the module. A running kernel does not change the keys that it trusts.
static REFUSED: AtomicBool = AtomicBool::new(false);
/// Least available memory, in KiB, to load the module. The module takes far less, but with less memory the kernel is
/// about to kill programs.
const MIN_MEMORY_KIB: u64 = 16 << 10;

/// Release of the running kernel.
pub fn release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

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
    } else if available_memory_kib().is_some_and(|kib| kib < MIN_MEMORY_KIB) {
        Failure::new(Kind::OutOfMemory)
    } else {
        Failure::new(Kind::ModuleFailed)
    };
    Err(failure.name(release).detail(detail))
}

/// Path of the module below the kernel's folder, from depmod's index.
fn path_in(index: &str) -> Option<&str> {
    let paths = index.lines().filter_map(|line| line.split(':').next());
    paths.into_iter().find(|path| {
        let file = path.rsplit('/').next().unwrap_or_default();
        file.strip_prefix("dm-tandem.ko")
            .is_some_and(|rest| matches!(rest, "" | ".xz" | ".zst" | ".gz"))
    })
}

/// File of the module for a kernel below `root`. DKMS calls its hooks before depmod has made the index.
fn file(root: &Path, release: &str) -> Option<PathBuf> {
    let folder = root.join("lib/modules").join(release);
    let index = crate::read_lossy(folder.join("modules.dep")).unwrap_or_default();
    let indexed = path_in(&index).map(str::to_owned);
    let built = ["", ".xz", ".zst", ".gz"].map(|end| format!("updates/dkms/dm-tandem.ko{end}"));
    let mut files = indexed
        .into_iter()
        .chain(built)
        .map(|path| folder.join(path));
    files.find(|file| file.is_file())
}

/// Whether a kernel below `root` has the module, with a signature if `signed`.
pub fn is_usable(root: &Path, release: &str, signed: bool) -> bool {
    file(root, release).is_some_and(|file| !signed || is_signed(&file))
}

fn built(release: &str) -> bool {
    is_usable(Path::new("/"), release, false)
}

/// Whether the file ends with a signature. Only the kernel knows whether it trusts the key. A compressed file counts as
/// signed: the load shows the truth.
fn is_signed(file: &Path) -> bool {
    let compressed = file.extension().is_none_or(|end| end != "ko");
    compressed || fs::read(file).is_ok_and(|b| b.ends_with(b"~Module signature appended~\n"))
}

/// Whether the kernel takes only modules that are signed with a key that it trusts.
pub fn refuses_unsigned() -> bool {
    let read = |path: &str| crate::read_lossy(path).unwrap_or_default();
    locked_down(&read("/sys/kernel/security/lockdown"))
        || read("/sys/module/module/parameters/sig_enforce").trim() == "Y"
}

/// The file shows all levels, with the one in force in brackets.
fn locked_down(levels: &str) -> bool {
    levels.contains("[integrity]") || levels.contains("[confidentiality]")
}

fn available_memory_kib() -> Option<u64> {
    let text = crate::read_lossy("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_is_found_wherever_it_lies() {
        assert_eq!(
            path_in("kernel/a.ko: b.ko\nupdates/dkms/dm-tandem.ko.xz: kernel/dm-mod.ko\n"),
            Some("updates/dkms/dm-tandem.ko.xz")
        );
        assert_eq!(path_in("extra/dm-tandem.ko:\n"), Some("extra/dm-tandem.ko"));
        assert_eq!(
            path_in("kernel/x.ko: extra/dm-tandem.ko\nextra/dm-tandem.kof:\n"),
            None
        );
    }

    #[test]
    fn lockdown_is_the_level_in_brackets() {
        assert!(!locked_down("[none] integrity confidentiality\n"));
        assert!(locked_down("none [integrity] confidentiality\n"));
        assert!(!locked_down(""));
    }
}

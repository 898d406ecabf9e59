// SPDX-License-Identifier: GPL-3.0-or-later
//! Finds out whether the kernel module is there, and whether the kernel would take the module.

pub mod problem;

use std::fs;
use std::path::{Path, PathBuf};
use tandem_api::distribution::{DKMS_FOLDER, MODULES};

/// Release of the running kernel.
pub fn release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
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
    let folder = root.join(MODULES).join(release);
    let index = crate::read_lossy(folder.join("modules.dep")).unwrap_or_default();
    let indexed = path_in(&index).map(str::to_owned);
    let built = ["", ".xz", ".zst", ".gz"].map(|end| format!("{DKMS_FOLDER}/dm-tandem.ko{end}"));
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

/// Whether a kernel of this machine has the module.
pub fn built(release: &str) -> bool {
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

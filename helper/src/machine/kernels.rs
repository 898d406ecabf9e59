// SPDX-License-Identifier: GPL-3.0-or-later
//! The kernels that may start next, and whether they can run a cache.
//!
//! Versions are not compared: the kernels that count are the running one and those whose images are not older than its
//! image. An old kernel that is kept beside them may lack the module for ever, and says nothing about the next start.

use crate::machine::module;
use std::fs;
use std::path::Path;
use std::time::SystemTime;
use tandem_api::distribution::{KERNEL_PREFIX, KERNELS, MODULES};

/// Releases of the kernels below `root` that may start next and have no module that they accept. `running`: release of
/// the running kernel. `signed`: the machine refuses modules without a signature.
pub fn without_module(root: &Path, running: &str, signed: bool) -> Vec<String> {
    let boot = root.join(KERNELS);
    let built = |release: &str| -> Option<SystemTime> {
        let image = fs::metadata(boot.join(format!("{KERNEL_PREFIX}{release}"))).ok()?;
        image.modified().ok()
    };
    let oldest = built(running);
    let entries = fs::read_dir(&boot).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut lacking: Vec<_> = names
        .filter_map(|name| Some(name.strip_prefix(KERNEL_PREFIX)?.to_owned()))
        .filter(|release| built(release) >= oldest)
        // An image without modules is no kernel of this system.
        .filter(|release| root.join(MODULES).join(release).is_dir())
        .filter(|release| !module::is_usable(root, release, signed))
        .collect();
    lacking.sort();
    lacking
}

/// Whether a kernel below `root` has dm-cache and its policy, as modules or built in.
pub fn has_dm_cache(root: &Path, release: &str) -> bool {
    has(root, release, &["dm-cache", "dm-cache-smq"])
}

/// Whether a kernel below `root` has compressed memory, as a module or built in.
pub fn has_zram(root: &Path, release: &str) -> bool {
    has(root, release, &["zram"])
}

/// Whether a kernel below `root` has all these drivers, as modules or built in.
fn has(root: &Path, release: &str, drivers: &[&str]) -> bool {
    let folder = root.join(MODULES).join(release);
    let indexes = ["modules.dep", "modules.builtin"];
    let text: String = indexes
        .iter()
        .filter_map(|index| crate::read_lossy(folder.join(index)).ok())
        .collect();
    let is_there = |name: &&str| {
        let file = format!("/{name}.ko");
        let mut paths = text.lines().filter_map(|line| line.split(':').next());
        paths.any(|path| {
            let end = path.find(&file).and_then(|at| path.get(at + file.len()..));
            matches!(end, Some("" | ".xz" | ".zst" | ".gz"))
        })
    };
    drivers.iter().all(is_there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir(root.path().join("boot")).unwrap();
            Self(root)
        }

        /// Installs a kernel that was built in this hour.
        fn kernel(&self, release: &str, hour: u64, module: Option<&[u8]>) {
            let image = self.0.path().join(format!("boot/vmlinuz-{release}"));
            let file = fs::File::create(image).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(hour * 3600);
            file.set_modified(at).unwrap();
            let dkms = self
                .0
                .path()
                .join(format!("lib/modules/{release}/updates/dkms"));
            fs::create_dir_all(&dkms).unwrap();
            if let Some(module) = module {
                fs::write(dkms.join("dm-tandem.ko"), module).unwrap();
            }
        }

        fn lacking(&self, running: &str, signed: bool) -> Vec<String> {
            without_module(self.0.path(), running, signed)
        }
    }

    #[test]
    fn a_new_kernel_needs_the_module_and_an_old_one_does_not() {
        let machine = Machine::new();
        machine.kernel("6.1.9", 1, None);
        machine.kernel("6.1.10", 2, Some(b"x"));
        assert!(machine.lacking("6.1.10", false).is_empty());
        machine.kernel("6.12", 3, None);
        assert_eq!(machine.lacking("6.1.10", false), ["6.12"]);
        // The image of a kernel whose modules are gone.
        fs::write(machine.0.path().join("boot/vmlinuz-7.0"), "").unwrap();
        assert_eq!(machine.lacking("6.1.10", false), ["6.12"]);
        machine.kernel("6.12", 3, Some(b"x"));
        assert!(machine.lacking("6.1.10", false).is_empty());
    }

    #[test]
    fn where_signatures_are_asked_for_the_module_must_have_one() {
        let machine = Machine::new();
        machine.kernel("6.1", 1, Some(b"x~Module signature appended~\n"));
        machine.kernel("6.2", 2, Some(b"x"));
        assert!(machine.lacking("6.1", false).is_empty());
        assert_eq!(machine.lacking("6.1", true), ["6.2"]);
    }

    #[test]
    fn without_the_image_of_the_running_kernel_all_kernels_count() {
        let machine = Machine::new();
        machine.kernel("6.1", 1, None);
        assert_eq!(machine.lacking("built-by-hand", false), ["6.1"]);
    }

    #[test]
    fn dm_cache_needs_its_policy() {
        let machine = Machine::new();
        machine.kernel("6.1.0", 1, None);
        let root = machine.0.path();
        let folder = root.join("lib/modules/6.1.0");
        assert!(!has_dm_cache(root, "6.1.0"));
        let cache = "kernel/drivers/md/dm-cache.ko.xz: kernel/drivers/md/dm-bufio.ko.xz\n";
        fs::write(folder.join("modules.dep"), cache).unwrap();
        assert!(!has_dm_cache(root, "6.1.0"));
        let policy = "kernel/drivers/md/dm-cache-smq.ko\n";
        fs::write(folder.join("modules.builtin"), policy).unwrap();
        assert!(has_dm_cache(root, "6.1.0"));
        assert!(!has_dm_cache(root, "6.2.0"));
        assert!(!has_zram(root, "6.1.0"));
        let zram = "kernel/drivers/block/zram/zram.ko.xz: kernel/mm/zsmalloc.ko\n";
        fs::write(folder.join("modules.dep"), zram).unwrap();
        assert!(has_zram(root, "6.1.0"));
    }
}

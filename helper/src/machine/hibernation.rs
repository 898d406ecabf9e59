// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether the machine may hibernate.
//!
//! The kernel reads the image of a hibernated machine before anything is mounted and before caches are assembled. An
//! image behind a cache could be found only by assembling the cache, and that changes what the sleeping machine knows
//! of it.
//!
//! The initial file system assembles the cache of the root file system after the image was looked for. An initial file
//! system that an older version has made does that before: the sleeping machine would come back with an older index than
//! the one that is on the SSD by then. So a machine whose root file system is on a cache, or will be at its next start,
//! does not hibernate either. No other cache is assembled that early.
//!
//! systemd's units for hibernation ask [`obstacle`] first (data/systemd/hibernation.conf). The service tells systemd before
//! that ([`tell_systemd`]), so that a desktop does not offer what would fail, and a battery that is empty ends in another way.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::machine::mounts::device;
use crate::machine::mounts::nodes::device_number;
use crate::machine::mounts::table::{Mounts, unescape};
use crate::machine::store::{FOLDER, Store};
use crate::model::action::DM_UUID_PREFIX;
use crate::read_lossy;

/// More devices than that below each other are a loop in a damaged sysfs.
const DEPTH: usize = 16;

/// Why the machine must not hibernate.
#[derive(Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The image of the machine would lie on a cache: the swap file or swap device, or `resume=`.
    Image(PathBuf),
    /// The initial file system assembles the cache of the root file system.
    System,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(swap) => write!(
                f,
                "The computer cannot hibernate: {} lies on a hard disk with a Tandem cache, and the computer could not \
                 read its memory from there when it starts. Nothing is lost. Use a swap partition on a disk without a \
                 cache, or suspend the computer instead.",
                swap.display()
            ),
            Self::System => f.write_str(
                "The computer cannot hibernate: its system is on a hard disk with a Tandem cache. If that cache starts \
                 before the computer reads its memory, what is in memory does not match the cache any more. Nothing is lost. Suspend the computer instead, or remove the cache of the system and \
                 restart.",
            ),
        }
    }
}

/// Why the machine must not hibernate; none if it may. `root` is `/`; tests have other roots.
#[must_use]
pub fn obstacle(root: &Path) -> Option<Obstacle> {
    let image = image_on_cache(root).map(Obstacle::Image);
    image.or_else(|| system_on_cache(root).then_some(Obstacle::System))
}

/// Where systemd reads what it may do, each time that a program asks.
const SETTINGS: &str = "run/systemd/sleep.conf.d/50-tandem.conf";
const FORBIDDEN: &str =
    "[Sleep]\nAllowHibernation=no\nAllowHybridSleep=no\nAllowSuspendThenHibernate=no\n";

/// Tells systemd whether this machine may hibernate now. `root`: see [`obstacle`].
///
/// # Errors
/// If the file cannot be written or removed.
pub fn tell_systemd(root: &Path) -> io::Result<()> {
    let path = root.join(SETTINGS);
    if obstacle(root).is_none() {
        return match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        };
    }
    if read_lossy(&path).is_ok_and(|told| told == FORBIDDEN) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, FORBIDDEN)?;
    // systemd's own programs run as root, and a person may want to read it.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
}

/// Whether a start of this machine puts a cache below its root file system. The record counts beside the mount: the next
/// start is the one that reads the image.
fn system_on_cache(root: &Path) -> bool {
    let folder = root.join(FOLDER.trim_start_matches('/'));
    let mut records = Store::open_untidied(&folder).caches().into_iter();
    if records.any(|record| record.in_initramfs) {
        return true;
    }
    device_below(root, Path::new("/")).is_some_and(|number| lies_on_cache(root, &number))
}

/// A line of /proc/swaps.
#[derive(Debug, PartialEq, Eq)]
struct Swap {
    path: PathBuf,
    is_file: bool,
    priority: i32,
}

/// The swap file or swap device that would take the image of the machine, if it lies on a cache.
///
/// systemd writes the image to the swap with the highest priority, or to the device that the kernel was told at its
/// start (`resume=`). Compressed memory (zram) takes no image.
fn image_on_cache(root: &Path) -> Option<PathBuf> {
    let told = read_lossy(root.join("sys/power/resume")).unwrap_or_default();
    if lies_on_cache(root, told.trim()) {
        return Some(PathBuf::from("resume="));
    }
    let swaps = swaps(&read_lossy(root.join("proc/swaps")).unwrap_or_default());
    let highest = swaps.iter().map(|swap| swap.priority).max()?;
    swaps
        .into_iter()
        .filter(|swap| swap.priority == highest)
        .find(|swap| device_of(root, swap).is_some_and(|number| lies_on_cache(root, &number)))
        .map(|swap| swap.path)
}

fn swaps(text: &str) -> Vec<Swap> {
    let swap = |line: &str| {
        let mut fields = line.split_whitespace();
        let (path, kind) = (fields.next()?, fields.next()?);
        let swap = Swap {
            path: PathBuf::from(unescape(path)),
            is_file: kind == "file",
            priority: fields.nth(2)?.parse().ok()?,
        };
        let is_memory = path.starts_with("/dev/zram");
        (!is_memory).then_some(swap)
    };
    text.lines().skip(1).filter_map(swap).collect()
}

/// The device that a swap is on.
fn device_of(root: &Path, swap: &Swap) -> Option<String> {
    let path = root.join(swap.path.strip_prefix("/").unwrap_or(&swap.path));
    let data = fs::metadata(path).ok()?;
    if !swap.is_file {
        return Some(device_number(data.rdev()));
    }
    let files = device_number(data.dev());
    if rustix::fs::major(data.dev()) != 0 {
        return Some(files);
    }
    // Btrfs has numbers of its own, and others for its files than for its mounts.
    device_below(root, &swap.path)
}

/// The device that the mount with this path is on.
fn device_below(root: &Path, path: &Path) -> Option<String> {
    let mounts = Mounts::parse(&read_lossy(root.join("proc/self/mountinfo")).unwrap_or_default());
    device::number(root, mounts.containing(path.to_str()?)?)
}

/// Whether the device is the mapping of a cache, or lies above one. False for a number that no device has.
fn lies_on_cache(root: &Path, number: &str) -> bool {
    folder_lies_on_cache(&root.join("sys/dev/block").join(number), DEPTH)
}

fn folder_lies_on_cache(folder: &Path, depth: usize) -> bool {
    if depth == 0 {
        return false;
    }
    if read_lossy(folder.join("dm/uuid")).is_ok_and(|uuid| uuid.starts_with(DM_UUID_PREFIX)) {
        return true;
    }
    // The device of a partition is one folder up.
    let whole = folder.join("partition").exists().then(|| folder.join(".."));
    let below = fs::read_dir(folder.join("slaves")).into_iter().flatten();
    whole
        .into_iter()
        .chain(below.filter_map(|entry| Some(entry.ok()?.path())))
        .any(|folder| folder_lies_on_cache(&folder, depth - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::action::Pair;
    use crate::model::record::CacheRecord;
    use std::os::unix::fs::symlink;
    use tandem_api::Mode;

    const HEAD: &str = "Filename\tType\tSize\tUsed\tPriority\n";

    /// A machine whose block devices are described below a folder.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(swaps: &str) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            machine.put("proc/swaps", &format!("{HEAD}{swaps}"));
            machine
        }

        fn root(&self) -> &Path {
            self.0.path()
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// The device `number` is `name`, which lies over `below`.
        fn device(&self, number: &str, name: &str, dm_uuid: &str, below: &[&str]) {
            let folder = format!("sys/devices/{name}");
            self.put(&format!("{folder}/size"), "8");
            if !dm_uuid.is_empty() {
                self.put(&format!("{folder}/dm/uuid"), dm_uuid);
            }
            let slaves = self.root().join(&folder).join("slaves");
            fs::create_dir_all(&slaves).unwrap();
            for below in below {
                symlink(format!("../../{below}"), slaves.join(below)).unwrap();
            }
            let links = self.root().join("sys/dev/block");
            fs::create_dir_all(&links).unwrap();
            let link = links.join(number);
            symlink(format!("../../devices/{name}"), link).unwrap();
        }

        /// The device that the files of this machine are on, as mountinfo of the real machine has it.
        fn files(&self) -> String {
            device_number(fs::metadata(self.root()).unwrap().dev())
        }
    }

    #[test]
    fn a_swap_file_on_a_cache_takes_no_image() {
        let machine = Machine::new("/my\\040swap file 1 0 -2\n/dev/zram0 partition 1 0 100\n");
        machine.put("my swap", "");
        assert_eq!(image_on_cache(machine.root()), None);
        let files = machine.files();
        if files.starts_with("0:") {
            return;
        }
        machine.device(&files, "dm-1", "CRYPT-LUKS2-1", &["dm-0"]);
        assert_eq!(image_on_cache(machine.root()), None);
        machine.device("253:0", "dm-0", "TANDEM-1", &["sda1"]);
        assert_eq!(
            image_on_cache(machine.root()),
            Some(PathBuf::from("/my swap"))
        );
    }

    // promise 35: programs/tandem_helper::machine::hibernation::tests::a_machine_whose_system_is_on_a_cache_does_not_hibernate
    #[test]
    fn a_machine_whose_system_is_on_a_cache_does_not_hibernate() {
        let machine = Machine::new("");
        assert_eq!(obstacle(machine.root()), None);
        let mounted = |kind: &str, number: &str, source: &str| {
            let line = format!("1 0 {number} / / rw - {kind} {source} rw\n");
            machine.put("proc/self/mountinfo", &line);
            obstacle(machine.root())
        };
        machine.device("8:1", "sda1", "", &[]);
        machine.device("253:0", "dm-0", "TANDEM-1", &["sda1"]);
        machine.device("253:1", "dm-1", "LVM-1", &["md0"]);
        machine.device("9:0", "md0", "", &["sdb1", "dm-2"]);
        machine.device("8:17", "sdb1", "", &[]);
        machine.device("253:2", "dm-2", "CRYPT-LUKS2-1", &["dm-0"]);
        let system = Some(Obstacle::System);
        assert_eq!(mounted("ext4", "8:1", "/dev/sda1"), None);
        assert_eq!(mounted("ext4", "253:0", "/dev/dm-0"), system);
        // An encrypted device over the cache is a part of an array with a volume group.
        assert_eq!(mounted("ext4", "253:1", "/dev/mapper/vg-root"), system);
        for (name, number) in [("sda1", "8:1"), ("dm-0", "253:0")] {
            machine.put(&format!("dev/{name}"), "");
            machine.put(&format!("sys/class/block/{name}/dev"), number);
        }
        assert_eq!(mounted("btrfs", "0:39", "/dev/sda1"), None);
        assert_eq!(mounted("btrfs", "0:39", "/dev/dm-0"), system);
        assert_eq!(mounted("overlay", "0:39", "/dev/dm-0"), None);
    }

    #[test]
    fn a_cache_is_found_below_fifteen_devices_and_a_circle_ends() {
        let machine = Machine::new("");
        machine.device("253:0", "dm-0", "TANDEM-1", &[]);
        for above in 1..DEPTH {
            let below = format!("dm-{}", above - 1);
            machine.device(
                &format!("253:{above}"),
                &format!("dm-{above}"),
                "LVM-1",
                &[&below],
            );
        }
        let top = format!("253:{}", DEPTH - 1);
        assert!(lies_on_cache(machine.root(), &top));
        machine.device("9:0", "md0", "", &["md1"]);
        machine.device("9:1", "md1", "", &["md0"]);
        assert!(!lies_on_cache(machine.root(), "9:0"));
    }

    #[test]
    fn the_record_of_a_cache_below_the_system_counts_as_well() {
        let machine = Machine::new("");
        let folder = machine.root().join(&FOLDER[1..]);
        fs::create_dir_all(&folder).unwrap();
        let store = Store::open(&folder).unwrap();
        let pair = |digit: &str| Pair {
            uuid: digit.repeat(32),
            ..Pair::nowhere(Mode::Writethrough)
        };
        // The cache of another disk is assembled after the image is read.
        store.save_cache(&CacheRecord::new(pair("a"))).unwrap();
        assert_eq!(obstacle(machine.root()), None);
        let told = || {
            tell_systemd(machine.root()).unwrap();
            fs::read_to_string(machine.root().join(SETTINGS)).unwrap_or_default()
        };
        assert_eq!(told(), "");
        let system = CacheRecord::prepared(pair("b"), "boot".into(), true);
        store.save_cache(&system).unwrap();
        assert_eq!(obstacle(machine.root()), Some(Obstacle::System));
        for _ in 0..2 {
            assert!(told().contains("\nAllowHibernation=no\n"));
        }
        store.drop_cache(&pair("b").uuid).unwrap();
        assert_eq!(told(), "");
        let told = Obstacle::System.to_string();
        assert!(told.contains("cannot hibernate") && told.contains("Nothing is lost"));
    }

    // promise 35: programs/tandem_helper::machine::hibernation::tests::the_early_start_comes_after_the_image_was_looked_for
    #[test]
    fn the_early_start_comes_after_the_image_was_looked_for() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
        let read = |path: &str| fs::read_to_string(data.join(path)).unwrap();
        let stages = fs::read_dir(data.join("initramfs-tools/scripts")).unwrap();
        let stages = stages.map(|stage| stage.unwrap().path());
        let ours: Vec<_> = stages
            .filter(|stage| stage.join("tandem").exists())
            .collect();
        assert_eq!(ours, [data.join("initramfs-tools/scripts/local-premount")]);
        let script = data.join("initramfs-tools/scripts/local-premount/tandem");
        let mut asked = std::process::Command::new("sh");
        let before = asked.arg(script).arg("prereqs").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&before.stdout), "resume\n");
        // The hook runs in this unit, which the drop-in puts behind the target.
        let setup = read("dracut/90tandem/module-setup.sh");
        assert!(setup.contains("inst_hook pre-mount 50 "));
        let place = "$systemdsystemunitdir/dracut-pre-mount.service.d/50-tandem.conf";
        let installs = format!("inst_simple \"$moddir/after-resume.conf\" \"{place}\"");
        assert!(setup.contains(&installs));
        let drop_in = read("dracut/90tandem/after-resume.conf");
        assert!(drop_in.ends_with("[Unit]\nAfter=local-fs-pre.target\n"));
    }

    #[test]
    fn a_swap_file_on_a_btrfs_is_found_by_its_mount() {
        let machine = Machine::new("/data/swap file 1 0 -2\n");
        let on = |source: &str| {
            let line = format!(
                "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:39 / /data rw - btrfs {source} rw\n"
            );
            machine.put("proc/self/mountinfo", &line);
            device_below(machine.root(), Path::new("/data/swap"))
        };
        machine.put("dev/dm-0", "");
        machine.put("sys/class/block/dm-0/dev", "253:0\n");
        assert_eq!(on("/dev/dm-0").as_deref(), Some("253:0"));
        assert_eq!(on("/dev/gone"), None);
        assert_eq!(on("/data/image"), None);
    }

    #[test]
    fn only_the_swap_of_the_highest_priority_counts() {
        let machine = Machine::new("/low file 1 0 -3\n/high file 1 0 -2\n");
        machine.put("low", "");
        machine.device(&machine.files(), "dm-0", "TANDEM-1", &[]);
        // There is no /high here: the swap that would take the image is on an unknown device.
        assert_eq!(image_on_cache(machine.root()), None);
        machine.put("high", "");
        assert!(image_on_cache(machine.root()).is_some() || machine.files().starts_with("0:"));
    }

    #[test]
    fn the_device_that_the_kernel_was_told_counts_as_well() {
        let machine = Machine::new("");
        machine.put("sys/power/resume", "0:0\n");
        assert_eq!(image_on_cache(machine.root()), None);
        machine.put("sys/power/resume", "253:0\n");
        machine.device("253:0", "dm-0", "TANDEM-1", &[]);
        assert_eq!(
            image_on_cache(machine.root()),
            Some(PathBuf::from("resume="))
        );
    }

    #[test]
    fn a_loop_of_devices_ends() {
        let machine = Machine::new("");
        machine.put("sys/power/resume", "253:0\n");
        machine.device("253:0", "dm-0", "LVM-1", &["dm-0"]);
        assert_eq!(image_on_cache(machine.root()), None);
    }
}

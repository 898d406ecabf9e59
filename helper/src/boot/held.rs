// SPDX-License-Identifier: GPL-3.0-or-later
//! Lets the machine start without the file system of a held disk. A mount that fails would stop the start; a mount
//! that is left out does not.

use super::late::lock_folder;
use crate::action::Pair;
use crate::machine::BlockDevice;
use crate::mounts::systemd::mount_unit;
use crate::mounts::table;
use crate::state::cache_file;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

const UNITS: &str = "/run/systemd/system";
const DROP_IN: &str = "50-tandem.conf";
/// File in that folder that says that systemd has read all drop-ins.
const TOLD: &str = ".tandem-told";
/// Longest wait for another program that makes systemd read the drop-ins. On a slow machine systemd takes a second.
const READING: Duration = Duration::from_secs(5);
/// Words before the mount point in the first line of a drop-in.
const POINT: &str = "# Mounted at ";

/// Makes systemd leave out the fstab entries that lead to held disks now, as long as the disks are held. An entry that is
/// left out already stays so. Of two entries with one mount point the first counts, as for systemd.
///
/// # Errors
/// The first error, after everything else was left out. If systemd cannot be reached, these mounts fail, because the
/// disk is in use; the next call tries it again.
pub fn leave_out(held: &[(&Pair, &BlockDevice)]) -> io::Result<()> {
    let mut result = Ok(());
    let mut drop_ins: Vec<(String, String, String)> = Vec::new();
    for (pair, disk) in held {
        let points = table::points_at_start(&disk.number).unwrap_or_else(|e| {
            result = Err(e);
            Vec::new()
        });
        for point in points {
            let point = resolved(&point);
            let unit = mount_unit(&point);
            if drop_ins.iter().all(|(known, ..)| *known != unit) {
                drop_ins.push((unit, drop_in(pair, disk, &point), point));
            }
        }
    }
    let reload = || systemctl(&["daemon-reload"]);
    result.and(write_and_tell(Path::new(UNITS), &drop_ins, reload))
}

/// Writes the drop-ins that are not there yet into the folder of units, and makes systemd read them. The start and udev's
/// programs do this at the same time. They take turns, because the start waits for each reading.
fn write_and_tell(
    units: &Path,
    drop_ins: &[(String, String, String)],
    reload: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    if drop_ins.is_empty() {
        return Ok(());
    }
    let _lock = lock_folder(units, READING);
    let mut result = Ok(());
    let told = units.join(TOLD);
    for (unit, text, point) in drop_ins {
        let folder = units.join(format!("{unit}.d"));
        let file = folder.join(DROP_IN);
        if fs::read_to_string(&file).is_ok_and(|known| known == *text) {
            continue;
        }
        // From now on until systemd has read the new file.
        let _ = fs::remove_file(&told);
        match fs::create_dir_all(&folder).and_then(|()| fs::write(&file, text)) {
            Ok(()) => tracing::info!("{point} is left out as long as its cache is not there"),
            Err(e) => result = Err(e),
        }
    }
    if !told.exists() {
        reload()?;
        fs::write(&told, "")?;
    }
    result
}

/// The mount point as systemd names it: without a symbolic link, and with single slashes. The last folder is not
/// followed if it is none: a look into it could mount something.
fn resolved(point: &str) -> String {
    let path: PathBuf = Path::new(point).components().collect();
    let is_link = fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
    let real = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !is_link => {
            fs::canonicalize(parent).map(|parent| parent.join(name))
        }
        _ => fs::canonicalize(&path),
    };
    let real = real.unwrap_or(path);
    real.to_str().unwrap_or(point).to_owned()
}

/// Runs systemctl, which uses systemd's own socket: the bus does not run yet.
pub(super) fn systemctl(arguments: &[&str]) -> io::Result<()> {
    let status = Command::new("/bin/systemctl").args(arguments).status()?;
    if status.success() {
        return Ok(());
    }
    let what = arguments.join(" ");
    Err(io::Error::other(format!("systemctl {what}: {status}")))
}

/// The mounts that were left out because of this cache in this boot: each unit with its mount point. Only the system
/// writes that folder.
pub fn left_out(pair: &Pair) -> Vec<(String, String)> {
    let cache = format!("/dev/mapper/{}\n", pair.name());
    let unit = |entry: io::Result<fs::DirEntry>| {
        let folder = entry.ok()?;
        let name = folder.file_name().into_string().ok()?;
        let unit = name.strip_suffix(".d")?;
        let text = fs::read_to_string(folder.path().join(DROP_IN)).ok()?;
        let point = text.lines().next()?.strip_prefix(POINT)?.to_owned();
        text.contains(&cache).then(|| (unit.to_owned(), point))
    };
    let units = fs::read_dir(UNITS);
    units.map_or_else(|_| Vec::new(), |all| all.filter_map(unit).collect())
}

/// Text of the drop-in. Its conditions allow the mount again as soon as the cache is assembled, the disk is released, or
/// nothing is on record of the cache any more: another cache may hold the disk then.
fn drop_in(pair: &Pair, disk: &BlockDevice, point: &str) -> String {
    format!(
        "{POINT}{point}\n\
         # What was written last to this file system may be on an SSD only.\n\
         [Unit]\n\
         ConditionPathExists=|/dev/mapper/{}\n\
         ConditionPathExists=|!{}\n\
         ConditionPathExistsGlob=|!/sys/class/block/{}/holders/*\n",
        pair.name(),
        cache_file(&pair.uuid),
        disk.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tandem_api::Mode;

    #[test]
    fn a_mount_point_is_named_as_systemd_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir(real.join("var")).unwrap();
        std::os::unix::fs::symlink("var", real.join("mnt")).unwrap();
        std::os::unix::fs::symlink("var", real.join("var/link")).unwrap();
        let named = |point: &str| resolved(&format!("{}/{point}", real.display()));
        let expected = |point: &str| real.join(point).to_str().unwrap().to_owned();
        assert_eq!(named("mnt/photos"), expected("var/photos"));
        assert_eq!(named("mnt//photos/"), expected("var/photos"));
        assert_eq!(named("mnt"), expected("var"));
        assert_eq!(named("not/there"), expected("not/there"));
        assert_eq!(resolved("/"), "/");
    }

    #[test]
    fn two_programs_make_systemd_read_the_drop_ins_once() {
        let folder = tempfile::tempdir().unwrap();
        let drop_ins = [("srv.mount".to_owned(), "text".to_owned(), "/srv".to_owned())];
        let (reading, is_read) = (AtomicUsize::new(0), Barrier::new(2));
        let reload = || {
            reading.fetch_add(1, Ordering::Relaxed);
            // The other program begins only now.
            is_read.wait();
            std::thread::sleep(Duration::from_millis(100));
            Ok(())
        };
        std::thread::scope(|scope| {
            let first = scope.spawn(|| write_and_tell(folder.path(), &drop_ins, reload));
            is_read.wait();
            let again = || {
                reading.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            write_and_tell(folder.path(), &drop_ins, again).unwrap();
            first.join().unwrap().unwrap();
        });
        assert_eq!(reading.into_inner(), 1);
    }

    #[test]
    fn a_mount_is_allowed_when_nothing_is_on_record_of_its_cache() {
        let pair = Pair::nowhere(Mode::Writeback);
        let text = drop_in(&pair, &BlockDevice::default(), "/srv/my photos");
        assert!(text.starts_with("# Mounted at /srv/my photos\n"), "{text}");
        let record = format!(
            "\nConditionPathExists=|!/var/lib/tandem/caches/{}.cache.json\n",
            pair.uuid
        );
        assert!(text.contains(&record), "{text}");
    }
}

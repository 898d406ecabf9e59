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
/// File in that folder that says that systemd has not read all drop-ins.
const UNREAD: &str = ".tandem-unread";
/// File in that folder that says that the start of the machine is under way: no file system of fstab is mounted before
/// the start ends, and the start makes systemd read the drop-ins if a disk is still held then.
const STARTING: &str = ".tandem-starting";
/// Longest wait for another program that makes systemd read the drop-ins. On a slow machine systemd takes a second.
const READING: Duration = Duration::from_secs(5);
/// Words before the mount point in the first line of a drop-in.
const POINT: &str = "# Mounted at ";

/// Begins a start of the machine: until [`end_start`], systemd does not read what is left out. The reading takes systemd
/// up to a second, and is not needed for a disk whose cache is there before the start ends.
///
/// # Errors
/// The file cannot be made. Then each drop-in is read at once.
pub fn begin_start() -> io::Result<()> {
    fs::create_dir_all(UNITS)?;
    fs::write(Path::new(UNITS).join(STARTING), "")
}

/// Ends a start of the machine. `is_held`: a disk may still be held, so that systemd has to read the drop-ins now, before
/// it mounts anything.
///
/// # Errors
/// systemd cannot be reached. Then mounts of held disks fail.
pub fn end_start(is_held: bool) -> io::Result<()> {
    end_start_in(Path::new(UNITS), is_held, reload)
}

fn end_start_in(
    units: &Path,
    is_held: bool,
    reload: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    // The file goes before the lock is taken. So a program that finds the file has written its drop-in before this reads.
    let ended = match fs::remove_file(units.join(STARTING)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    };
    let _lock = lock_folder(units, READING);
    let is_read = if is_held { read(units, reload) } else { Ok(()) };
    ended.and(is_read)
}

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
    result.and(write_and_read(Path::new(UNITS), &drop_ins, reload))
}

fn reload() -> io::Result<()> {
    systemctl(&["daemon-reload"])
}

/// Writes the drop-ins that are not there yet into the folder of units, and makes systemd read them unless the start of
/// the machine is under way. The start and udev's programs do this at the same time, and take turns.
fn write_and_read(
    units: &Path,
    drop_ins: &[(String, String, String)],
    reload: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    if drop_ins.is_empty() {
        return Ok(());
    }
    let _lock = lock_folder(units, READING);
    let mut result = Ok(());
    for (unit, text, point) in drop_ins {
        let folder = units.join(format!("{unit}.d"));
        let file = folder.join(DROP_IN);
        if fs::read_to_string(&file).is_ok_and(|known| known == *text) {
            continue;
        }
        let written = fs::write(units.join(UNREAD), "")
            .and_then(|()| fs::create_dir_all(&folder))
            .and_then(|()| fs::write(&file, text));
        match written {
            Ok(()) => tracing::info!("{point} is left out as long as its cache is not there"),
            Err(e) => result = Err(e),
        }
    }
    if !units.join(STARTING).exists() {
        read(units, reload)?;
    }
    result
}

/// Makes systemd read the drop-ins, unless it has read all of them.
fn read(units: &Path, reload: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let unread = units.join(UNREAD);
    if !unread.exists() {
        return Ok(());
    }
    reload()?;
    fs::remove_file(&unread)
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
            let first = scope.spawn(|| write_and_read(folder.path(), &drop_ins, reload));
            is_read.wait();
            let again = || {
                reading.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            write_and_read(folder.path(), &drop_ins, again).unwrap();
            first.join().unwrap().unwrap();
        });
        assert_eq!(reading.into_inner(), 1);
    }

    #[test]
    fn systemd_reads_nothing_for_a_disk_whose_cache_is_there_before_the_start_ends() {
        let folder = tempfile::tempdir().unwrap();
        let units = folder.path();
        let srv = [("srv.mount".to_owned(), "text".to_owned(), "/srv".to_owned())];
        let mnt = [("mnt.mount".to_owned(), "text".to_owned(), "/mnt".to_owned())];
        let reading = AtomicUsize::new(0);
        let reload = || {
            reading.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        // What the start and udev's programs write, for caches that are there when the start ends; then the same for
        // disks that stay held.
        for (is_held, expected) in [(false, 0), (true, 1)] {
            fs::write(units.join(STARTING), "").unwrap();
            write_and_read(units, &srv, reload).unwrap();
            write_and_read(units, &mnt, reload).unwrap();
            assert_eq!(reading.load(Ordering::Relaxed), 0);
            assert_eq!(
                fs::read_to_string(units.join("mnt.mount.d/50-tandem.conf")).unwrap(),
                "text"
            );
            end_start_in(units, is_held, reload).unwrap();
            assert_eq!(reading.load(Ordering::Relaxed), expected);
        }
        // Everything is read; what comes after the start is read at once.
        end_start_in(units, true, reload).unwrap();
        write_and_read(units, &srv, reload).unwrap();
        assert_eq!(reading.load(Ordering::Relaxed), 1);
        let home = [(
            "home.mount".to_owned(),
            "text".to_owned(),
            "/home".to_owned(),
        )];
        write_and_read(units, &home, reload).unwrap();
        assert_eq!(reading.into_inner(), 2);
    }

    #[test]
    fn a_reading_that_failed_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let srv = [("srv.mount".to_owned(), "text".to_owned(), "/srv".to_owned())];
        let fails = || Err(io::Error::other("no systemd"));
        write_and_read(folder.path(), &srv, fails).unwrap_err();
        let mut is_read = false;
        let reload = || {
            is_read = true;
            Ok(())
        };
        end_start_in(folder.path(), true, reload).unwrap();
        assert!(is_read);
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

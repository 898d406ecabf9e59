// SPDX-License-Identifier: GPL-3.0-or-later
//! Lets the machine start without the file system of a held disk. A mount that fails would stop the start; a mount
//! that is left out does not.

use crate::machine::blocks::BlockDevice;
use crate::machine::marks::locked;
use crate::machine::mounts::table;
use crate::machine::mounts::units::mount_unit;
use crate::machine::store::cache_file;
use crate::model::action::Pair;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

const UNITS: &str = "/run/systemd/system";
const DROP_IN: &str = "50-tandem.conf";
/// File in that folder that says that systemd has not read all drop-ins.
const UNREAD: &str = ".tandem-unread";
/// File in that folder that says that the first start of this boot is under way: before its end, systemd mounts network
/// file systems at most.
const STARTING: &str = ".tandem-starting";
/// File in that folder that says that the first start is over. A unit that failed is run again while systemd mounts, so a
/// later start must not put off the reading.
const FIRST_OVER: &str = ".tandem-first-over";
/// File in that folder that the programs lock. Only root may open the file, so that no user can make the others wait.
const LOCK: &str = ".tandem-lock";
/// Longest wait for another program that makes systemd read the drop-ins. On a slow machine systemd takes a second.
const READING: Duration = Duration::from_secs(5);
/// Words before the mount point in the first line of a drop-in.
const POINT: &str = "# Mounted at ";

/// Begins the first start of this boot: until [`end_start`], systemd does not read what is left out. The reading takes
/// systemd up to a second, and is not needed for a disk whose cache is there before the start ends.
///
/// # Errors
/// The file cannot be made. Then each drop-in is read at once.
pub fn begin_start() -> io::Result<()> {
    begin_start_in(Path::new(UNITS))
}

fn begin_start_in(units: &Path) -> io::Result<()> {
    if units.join(FIRST_OVER).exists() {
        return Ok(());
    }
    fs::create_dir_all(units)?;
    fs::write(units.join(STARTING), "")
}

/// Ends a start of the machine. `may_be_held`: a disk may still be held, so that systemd has to read the drop-ins now,
/// before it mounts anything. Otherwise, if systemd has not read a drop-in, all are deleted.
///
/// # Errors
/// systemd cannot be reached, also not in a second attempt: then mounts of held disks fail. Or a file cannot be changed.
pub fn end_start(may_be_held: bool) -> io::Result<()> {
    end_start_in(Path::new(UNITS), may_be_held, reload)
}

fn end_start_in(
    units: &Path,
    may_be_held: bool,
    reload: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let lock = lock(units);
    // Disks are held also after a start that was killed before it began here.
    let ended = unless_missing(fs::remove_file(units.join(STARTING)))
        .and_then(|()| fs::write(units.join(FIRST_OVER), ""));
    let unread = lock.is_none() || units.join(UNREAD).exists();
    let done = match may_be_held {
        _ if !unread => Ok(()),
        true => read(units, &reload).or_else(|_| read(units, &reload)),
        false => delete_drop_ins(units),
    };
    ended.and(done)
}

/// Deletes all drop-ins of this boot. No disk is held, so none is needed.
fn delete_drop_ins(units: &Path) -> io::Result<()> {
    for (folder, text) in drop_ins_in(units) {
        if text.starts_with(POINT) {
            fs::remove_file(folder.join(DROP_IN))?;
            // Another program may have a drop-in for the same mount.
            let _ = fs::remove_dir(folder);
        }
    }
    unless_missing(fs::remove_file(units.join(UNREAD)))
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|e| match e.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(e),
    })
}

/// A lock against the other programs that write drop-ins or make systemd read them; `None` if another program keeps the
/// lock too long.
fn lock(units: &Path) -> Option<File> {
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    locked(options.open(units.join(LOCK)).ok()?, READING)
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
    reload: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    if drop_ins.is_empty() {
        return Ok(());
    }
    let lock = lock(units);
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
    // Without the lock, another program may have made systemd read before this one wrote.
    let unread = lock.is_none() || units.join(UNREAD).exists();
    if unread && !units.join(STARTING).exists() {
        read(units, &reload)?;
    }
    result
}

/// Makes systemd read the drop-ins.
fn read(units: &Path, reload: &impl Fn() -> io::Result<()>) -> io::Result<()> {
    reload()?;
    unless_missing(fs::remove_file(units.join(UNREAD)))
}

/// The drop-ins of mounts: each folder with the text of the file in it. Only the system writes there.
fn drop_ins_in(units: &Path) -> Vec<(PathBuf, String)> {
    let drop_in = |entry: io::Result<fs::DirEntry>| {
        let folder = entry.ok()?.path();
        let text = fs::read_to_string(folder.join(DROP_IN)).ok()?;
        Some((folder, text))
    };
    let entries = fs::read_dir(units);
    entries.map_or_else(|_| Vec::new(), |all| all.filter_map(drop_in).collect())
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
pub(crate) fn systemctl(arguments: &[&str]) -> io::Result<()> {
    let status = Command::new("/bin/systemctl").args(arguments).status()?;
    if status.success() {
        return Ok(());
    }
    let what = arguments.join(" ");
    Err(io::Error::other(format!("systemctl {what}: {status}")))
}

/// The mounts that were left out because of this cache in this boot: each unit with its mount point.
pub fn left_out(pair: &Pair) -> Vec<(String, String)> {
    let cache = format!("/dev/mapper/{}\n", pair.name());
    let unit = |(folder, text): (PathBuf, String)| {
        let name = folder.file_name()?.to_str()?;
        let unit = name.strip_suffix(".d")?.to_owned();
        let point = text.lines().next()?.strip_prefix(POINT)?.to_owned();
        text.contains(&cache).then_some((unit, point))
    };
    let drop_ins = drop_ins_in(Path::new(UNITS)).into_iter();
    drop_ins.filter_map(unit).collect()
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

    /// A drop-in for the mount of this folder.
    fn drop_in_of(name: &str) -> [(String, String, String); 1] {
        let text = format!("{POINT}/{name}\n");
        [(format!("{name}.mount"), text, format!("/{name}"))]
    }

    #[test]
    fn systemd_reads_what_is_left_out_only_for_a_disk_that_may_be_held_when_the_start_ends() {
        for may_be_held in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let units = folder.path();
            let file = |name: &str| units.join(format!("{name}.mount.d")).join(DROP_IN);
            let reading = AtomicUsize::new(0);
            let reload = || {
                reading.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            begin_start_in(units).unwrap();
            // The start and udev's programs write.
            for name in ["srv", "mnt"] {
                write_and_read(units, &drop_in_of(name), reload).unwrap();
                assert!(file(name).exists());
            }
            assert_eq!(reading.load(Ordering::Relaxed), 0);
            end_start_in(units, may_be_held, reload).unwrap();
            let expected = usize::from(may_be_held);
            assert_eq!(reading.load(Ordering::Relaxed), expected);
            // systemd says of a unit with an unread file that it has changed.
            assert_eq!(file("srv").exists(), may_be_held);
            // What comes after that is read at once, also while the unit runs again.
            begin_start_in(units).unwrap();
            write_and_read(units, &drop_in_of("srv"), reload).unwrap();
            write_and_read(units, &drop_in_of("home"), reload).unwrap();
            assert_eq!(reading.load(Ordering::Relaxed), 2);
            end_start_in(units, true, reload).unwrap();
            assert_eq!(reading.into_inner(), 2, "everything is read");
        }
    }

    #[test]
    fn a_start_after_one_that_was_killed_before_it_began_puts_off_no_reading() {
        let folder = tempfile::tempdir().unwrap();
        let reading = AtomicUsize::new(0);
        let reload = || {
            reading.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        end_start_in(folder.path(), true, reload).unwrap();
        assert_eq!(reading.load(Ordering::Relaxed), 0);
        begin_start_in(folder.path()).unwrap();
        write_and_read(folder.path(), &drop_in_of("srv"), reload).unwrap();
        assert_eq!(reading.into_inner(), 1);
    }

    #[test]
    fn a_reading_that_failed_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let reading = AtomicUsize::new(0);
        // Each other attempt fails.
        let reload = || match reading.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Err(io::Error::other("no systemd")),
            _ => Ok(()),
        };
        let srv = drop_in_of("srv");
        write_and_read(folder.path(), &srv, reload).unwrap_err();
        write_and_read(folder.path(), &srv, reload).unwrap();
        begin_start_in(folder.path()).unwrap();
        write_and_read(folder.path(), &drop_in_of("mnt"), reload).unwrap();
        end_start_in(folder.path(), true, reload).unwrap();
        assert_eq!(reading.into_inner(), 4);
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

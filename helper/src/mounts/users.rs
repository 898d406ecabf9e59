// SPDX-License-Identifier: GPL-3.0-or-later
//! Who keeps a file system busy: every process with an open file, a folder, a program or a mapped
//! library on it, or with a mount of it in a namespace of its own.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tandem_api::FileUser;

/// Programs that are named; more do not help a person.
const MOST: usize = 50;

/// Users of the file system with these device numbers (`st_dev`), without ourselves. Blocks.
pub fn of(devices: &BTreeSet<u64>) -> Vec<FileUser> {
    let passwd = crate::read_lossy("/etc/passwd").unwrap_or_default();
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let ourselves = std::process::id();
    let mut users: Vec<_> = processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != ourselves)
        .filter(|pid| uses(&Path::new("/proc").join(pid.to_string()), devices))
        .filter_map(|pid| describe(pid, &passwd))
        .take(MOST)
        .collect();
    users.sort();
    users
}

/// Processes come and go while we look: what cannot be read does not count.
fn uses(process: &Path, devices: &BTreeSet<u64>) -> bool {
    let on_it = |path: &Path| fs::metadata(path).is_ok_and(|m| devices.contains(&m.dev()));
    ["cwd", "root", "exe"]
        .iter()
        .any(|link| on_it(&process.join(link)))
        || fs::read_dir(process.join("fd"))
            .is_ok_and(|mut fds| fds.any(|fd| fd.is_ok_and(|fd| on_it(&fd.path()))))
        || crate::read_lossy(process.join("maps")).is_ok_and(|maps| {
            maps.lines()
                .any(|line| maps_line(line).is_some_and(|d| devices.contains(&d)))
        })
}

/// Device of a line of `/proc/<pid>/maps`: `address perms offset major:minor inode path`.
fn maps_line(line: &str) -> Option<u64> {
    let (major, minor) = line.split_ascii_whitespace().nth(3)?.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    Some(rustix::fs::makedev(number(major)?, number(minor)?))
}

fn describe(pid: u32, passwd: &str) -> Option<FileUser> {
    let process = Path::new("/proc").join(pid.to_string());
    let command = crate::read_lossy(process.join("comm"))
        .ok()?
        .trim_end()
        .to_owned();
    let uid = fs::metadata(&process).ok()?.uid();
    Some(FileUser {
        pid,
        command,
        uid,
        user: login(uid, passwd),
    })
}

fn login(uid: u32, passwd: &str) -> String {
    let number = uid.to_string();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    name.unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_with_an_open_file_is_found_by_name() {
        let folder = std::env::temp_dir().join(format!("tandem-users-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = fs::File::create(folder.join("open")).unwrap();
        let device = file.metadata().unwrap().dev();
        let mut child = Command::new("/bin/sleep")
            .arg0("sleep")
            .arg("60")
            .stdin(Stdio::from(file))
            .spawn()
            .unwrap();
        // Half the machine has a file open on this file system, so the one process is asked for.
        let process = Path::new("/proc").join(child.id().to_string());
        let by = |link: &str| fs::metadata(process.join(link)).is_ok_and(|m| m.dev() == device);
        let found = by("fd/0") && uses(&process, &BTreeSet::from([device]));
        let described = describe(child.id(), &fs::read_to_string("/etc/passwd").unwrap()).unwrap();
        // The device numbers of no file system of ours.
        let none = of(&BTreeSet::from([rustix::fs::makedev(0xfff, 0xfffff)]));
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(none.is_empty(), "{none:?}");
        assert!(found);
        assert_eq!(described.command, "sleep");
        assert_eq!(described.uid, rustix::process::getuid().as_raw());
        assert!(!described.user.is_empty());
    }

    #[test]
    fn a_mapped_library_counts() {
        let line = "7f00-7f01 r-xp 00000000 fe:01 4242   /lib/x.so";
        assert_eq!(maps_line(line), Some(rustix::fs::makedev(0xfe, 1)));
        assert_eq!(maps_line("garbage"), None);
    }

    #[test]
    fn a_user_without_a_name_is_a_number() {
        let passwd = "root:x:0:0::/root:/bin/sh\nanna:x:1000:1000::/home/anna:/bin/sh\n";
        assert_eq!(login(1000, passwd), "anna");
        assert_eq!(login(77, passwd), "77");
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Finds the users of a file system: each process with an open file, a folder, a program or a mapped library on it,
//! each process in a mount namespace that keeps its own mount of it, swap files, and files behind loop devices.
//!
//! This code never accesses the file systems: a file system on a server that is gone would block the service for ever.
//! The kernel's texts name mounts by number, and this code compares the numbers.

use super::table::{Entry, Mounts};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tandem_api::{FileUser, plain};

/// Number of users that are named. A longer list does not help a person.
const MAX_USERS: usize = 50;

/// A file system as the mount tables of all namespaces show it.
pub struct Wanted<'a> {
    /// Numbers (`major:minor`) that its mounts may have.
    pub numbers: BTreeSet<String>,
    /// Names that its device may have as the source of a Btrfs mount.
    pub nodes: &'a [Option<String>],
    /// Where it is mounted.
    pub points: Vec<String>,
}

impl Wanted<'_> {
    fn is(&self, entry: &Entry) -> bool {
        self.numbers.contains(&entry.device) || entry.is_named(self.nodes)
    }
}

/// A mount namespace.
struct Namespace {
    mounts: Mounts,
    /// The namespace keeps its mount when the machine unmounts the file system.
    keeps: bool,
    named: bool,
}

/// Users of a file system, without this process.
pub fn of(wanted: Wanted<'_>) -> Vec<FileUser> {
    let mut users = processes(Path::new("/proc"), wanted, std::process::id());
    users.sort();
    users
}

fn processes(proc: &Path, mut wanted: Wanted<'_>, ourselves: u32) -> Vec<FileUser> {
    let passwd = crate::read_lossy("/etc/passwd").unwrap_or_default();
    let table = |pid: &str| {
        let text = crate::read_lossy(proc.join(pid).join("mountinfo")).unwrap_or_default();
        Mounts::parse(&text)
    };
    let namespace = |pid: &str| fs::read_link(proc.join(pid).join("ns/mnt")).ok();
    let machine = table("1");
    // Btrfs gives each mount a number that its device does not have.
    let points = &wanted.points;
    let at = |e: &&Entry| points.contains(&e.mount.point);
    let numbers: Vec<_> = machine.0.iter().filter(at).map(|e| &e.device).collect();
    wanted.numbers.extend(numbers.into_iter().cloned());

    let mut pids: Vec<u32> = fs::read_dir(proc)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != ourselves)
        .collect();
    pids.sort_unstable();
    let home = namespace("1");
    let mut namespaces = BTreeMap::new();
    for pid in &pids {
        let pid = pid.to_string();
        // A process that has ended meanwhile has no link.
        let Some(name) = namespace(&pid) else {
            continue;
        };
        namespaces.entry(name).or_insert_with_key(|name| {
            let mounts = table(&pid);
            let keeps = Some(name) != home.as_ref() && keeps(&mounts, &machine, &wanted);
            Namespace {
                mounts,
                keeps,
                named: false,
            }
        });
    }
    let all = namespaces.values().flat_map(|n| &n.mounts.0);
    let ids: BTreeSet<u64> = all.filter(|e| wanted.is(e)).map(|e| e.id).collect();
    let mut users = Vec::new();
    for pid in pids {
        if users.len() == MAX_USERS {
            break;
        }
        let process = proc.join(pid.to_string());
        let mut counts = false;
        if let Some(space) = namespace(&pid.to_string()).and_then(|n| namespaces.get_mut(&n)) {
            counts = uses(&process, &ids, &wanted, &space.mounts);
            // One process of a namespace stands for it.
            if space.keeps && !space.named {
                (counts, space.named) = (true, true);
            }
        }
        if counts {
            users.extend(describe(&process, pid, &passwd));
        }
    }
    users
}

/// Whether a namespace keeps a mount of the file system when the machine unmounts its own mount. That is so if the
/// parent mount receives from no peer group and has no peer on the machine.
fn keeps(mounts: &Mounts, machine: &Mounts, wanted: &Wanted<'_>) -> bool {
    mounts.0.iter().filter(|e| wanted.is(e)).any(|entry| {
        let around = mounts.0.iter().find(|e| e.id == entry.parent);
        let follows = around.is_some_and(|around| {
            let peer = |e: &Entry| e.shared.is_some() && e.shared == around.shared;
            around.follows || machine.0.iter().any(peer)
        });
        !follows
    })
}

/// Processes begin and end during the search, so a process that cannot be read does not count.
fn uses(process: &Path, ids: &BTreeSet<u64>, wanted: &Wanted<'_>, mounts: &Mounts) -> bool {
    let lies_on_it = |link: &str| {
        let path = fs::read_link(process.join(link)).ok();
        let path = path.as_deref().and_then(Path::to_str);
        path.and_then(|path| mounts.containing(path))
            .is_some_and(|e| ids.contains(&e.id))
    };
    let open = |info: fs::DirEntry| {
        let text = crate::read_lossy(info.path()).unwrap_or_default();
        let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
        number
            .and_then(|n| n.trim().parse().ok())
            .is_some_and(|id| ids.contains(&id))
    };
    ["cwd", "root"].into_iter().any(lies_on_it)
        || fs::read_dir(process.join("fdinfo"))
            .is_ok_and(|mut all| all.any(|info| info.is_ok_and(open)))
        || crate::read_lossy(process.join("maps")).is_ok_and(|maps| {
            maps.lines()
                .any(|line| maps_line(line).is_some_and(|d| wanted.numbers.contains(&d)))
        })
}

/// Device of a line of `/proc/<pid>/maps`: `address perms offset major:minor inode path`.
fn maps_line(line: &str) -> Option<String> {
    let (major, minor) = line.split_ascii_whitespace().nth(3)?.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    Some(format!("{}:{}", number(major)?, number(minor)?))
}

fn describe(process: &Path, pid: u32, passwd: &str) -> Option<FileUser> {
    let command = crate::read_lossy(process.join("comm"))
        .ok()?
        .trim_end()
        .to_owned();
    let uid = fs::metadata(process).ok()?.uid();
    Some(FileUser {
        pid,
        command: plain(&command),
        uid,
        user: plain(&login(uid, passwd)),
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

/// Files on these mount points that the kernel itself keeps open: for swap, or behind a loop device.
pub fn files(points: &[String]) -> Vec<FileUser> {
    let Ok(mounts) = Mounts::read() else {
        return Vec::new();
    };
    let swaps = crate::read_lossy("/proc/swaps").unwrap_or_default();
    let loops = fs::read_dir("/sys/block").into_iter().flatten();
    let loops = loops
        .filter_map(|entry| crate::read_lossy(entry.ok()?.path().join("loop/backing_file")).ok());
    kernels(&mounts, points, &swaps, loops)
}

fn kernels(
    mounts: &Mounts,
    points: &[String],
    swaps: &str,
    loops: impl Iterator<Item = String>,
) -> Vec<FileUser> {
    let swaps = swaps.lines().filter_map(|line| {
        let (path, rest) = line.split_once(' ')?;
        (rest.split_ascii_whitespace().next()? == "file")
            .then(|| (super::table::unescape(path), "swap"))
    });
    let loops = loops.map(|path| (path.trim_end().to_owned(), "loop"));
    swaps
        .chain(loops)
        .filter(|(path, _)| {
            mounts
                .containing(path)
                .is_some_and(|e| points.contains(&e.mount.point))
        })
        .map(|(command, user)| FileUser {
            pid: 0,
            command: plain(&command),
            uid: 0,
            user: user.to_owned(),
        })
        .collect()
}

/// What the user with this uid may know of these programs. Root knows all of them; of another user's programs
/// everybody else knows only that there are some. `None`: what everybody may know.
pub fn visible_to(uid: Option<u32>, users: Vec<FileUser>) -> Vec<FileUser> {
    if uid == Some(0) {
        return users;
    }
    let mut all: Vec<_> = users
        .into_iter()
        .map(|user| match user.pid {
            pid if pid == 0 || Some(user.uid) == uid => user,
            _ => FileUser {
                pid: 0,
                command: String::new(),
                uid: u32::MAX,
                user: String::new(),
            },
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests;

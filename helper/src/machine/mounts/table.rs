// SPDX-License-Identifier: GPL-3.0-or-later
//! The mount table of the machine, fstab and the records of mount(8), as libmount reads them.

use super::libmount;
use super::nodes::{is_node, link, named, node_number, optional};
use crate::model::facts::{Mount, Mounter, StartEntry, StartTable};
use std::fs;
use std::path::Path;
use tandem_api::distribution::UNLOCKED_EARLY;

/// The option of an entry in fstab or crypttab whose device is on the network.
const ON_NETWORK: &str = "_netdev";
/// The mount table of process 1. The service's own table is a copy inside its sandbox.
pub const MOUNTINFO: &str = "/proc/1/mountinfo";
/// Option in fstab: systemd mounts the file system in the initial file system.
const MOUNTED_EARLY: &str = "x-initrd.mount";

/// A line of the mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Number of the mount, unique across all namespaces.
    pub id: u64,
    /// Number of the parent mount.
    pub parent: u64,
    /// The peer group that shares mounts and unmounts with this mount, if there is one.
    pub shared: Option<u64>,
    /// The mount receives the mounts and unmounts of a peer group.
    pub follows: bool,
    /// `major:minor` as the kernel gives it. For Btrfs this is not the number of the device.
    pub device: String,
    /// Source as the mounting program named it, usually a device node.
    pub source: String,
    /// The file system can be written, be it through another mount.
    pub writable: bool,
    /// The rest.
    pub mount: Mount,
}

impl Entry {
    /// Whether the source of this mount is one of these device nodes.
    ///
    /// Only Btrfs needs this: its mounts do not have the number of a device. Any user can choose the source text of a
    /// FUSE mount, and of many mounts in a namespace of the user.
    pub fn is_named(&self, nodes: &[Option<String>]) -> bool {
        self.mount.fstype == "btrfs" && nodes.iter().flatten().any(|node| *node == self.source)
    }
}

/// How the file system on a device is used, as far as the mounts of process 1 show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uses {
    /// It is mounted nowhere. Another process may have it mounted elsewhere.
    Unseen,
    /// Each mount is read-only.
    Read,
    /// It can be written.
    Written,
}

/// Everything that is mounted, in the order of mounting.
#[derive(Debug, Clone, Default)]
pub struct Mounts(pub Vec<Entry>);

/// Undoes the octal escapes of space, tab, newline and backslash in the kernel's tables and in crypttab.
pub(crate) fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let octal = text.get(at + 1..at + 4).filter(|_| byte == b'\\');
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(value) => {
                out.push(value);
                at += 4;
            }
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Joins the options of a mount and of its file system; `rw` of both is one, and a read-only mount of
/// a writable file system is read-only.
fn join_options(mount: &str, system: &str) -> String {
    let read_only = mount.split(',').chain(system.split(',')).any(|o| o == "ro");
    let rest = mount
        .split(',')
        .chain(system.split(','))
        .filter(|o| !matches!(*o, "ro" | "rw" | ""));
    let mut all = vec![if read_only { "ro" } else { "rw" }];
    for option in rest {
        if !all.contains(&option) {
            all.push(option);
        }
    }
    all.join(",")
}

impl Mounts {
    /// The machine's mounts now.
    ///
    /// # Errors
    /// If the table or fstab cannot be read; without fstab it is empty.
    pub fn read() -> std::io::Result<Self> {
        crate::waiting(|| {
            let table = libmount::mounts(Path::new(MOUNTINFO))?;
            let passwd = crate::read_lossy("/etc/passwd").unwrap_or_default();
            Ok(Self::of_tables(table, &fstab()?, &passwd, &node_number))
        })
    }

    /// The mounts in the text of a mount table, without facts from fstab and mount(8).
    pub fn parse(table: &str) -> Self {
        let table = libmount::parse(table).unwrap_or_else(|e| {
            tracing::error!("cannot read a mount table: {e}");
            Vec::new()
        });
        Self::of_tables(table, &[], "", &|_| None)
    }

    /// From the mount table, fstab and the text of passwd. `number` gives the `major:minor` of a device node or of a
    /// link to one.
    fn of_tables(
        table: Vec<libmount::Entry>,
        fstab: &[libmount::Entry],
        passwd: &str,
        number: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let entry = |e: libmount::Entry| -> Entry {
            let tag = |name: &str| {
                let mut tags = e.propagation.split(' ');
                tags.find_map(|tag| tag.strip_prefix(name))
                    .map(str::to_owned)
            };
            let of_device = |node: &str| {
                let found = number(node);
                // Any other source than that of Btrfs may be a text that a user chose, and lead to a file system that
                // does not answer.
                let named = e.fstype == "btrfs" && is_node(&e.source);
                let is = |device: &String| {
                    *device == e.device || named && number(&e.source).as_ref() == Some(device)
                };
                found.as_ref().is_some_and(is)
            };
            let mounter = mounter(&e, fstab, passwd, &of_device);
            Entry {
                id: e.id,
                parent: e.parent,
                shared: tag("shared:").and_then(|group| group.parse().ok()),
                follows: tag("master:").is_some(),
                device: e.device,
                source: e.source,
                writable: !libmount::has_option(&e.fs_options, "ro"),
                mount: Mount {
                    point: e.target,
                    root: e.root,
                    fstype: e.fstype,
                    options: join_options(&e.vfs_options, &e.fs_options),
                    mounter,
                },
            }
        };
        Self(table.into_iter().map(entry).collect())
    }

    /// Mounts of the device with this number, and of a Btrfs under one of these nodes.
    pub fn of<'a>(
        &'a self,
        device: &'a str,
        nodes: &'a [Option<String>],
    ) -> impl Iterator<Item = &'a Mount> {
        self.0
            .iter()
            .filter(move |e| e.device == device || e.is_named(nodes))
            .map(|e| &e.mount)
    }

    /// How the file system on a device is used, by the `major:minor` of the device.
    pub fn uses(&self, device: &str) -> Uses {
        self.uses_by(device, &node_number)
    }

    /// `number` gives the `major:minor` of a device node: the source of a mount of Btrfs may be any name of the device.
    fn uses_by(&self, device: &str, number: &dyn Fn(&str) -> Option<String>) -> Uses {
        let is_of = |e: &&Entry| {
            let is_source = || is_node(&e.source) && number(&e.source).as_deref() == Some(device);
            e.device == device || (e.mount.fstype == "btrfs" && is_source())
        };
        let of: Vec<_> = self.0.iter().filter(is_of).collect();
        match () {
            () if of.iter().any(|e| e.writable) => Uses::Written,
            () if of.is_empty() => Uses::Unseen,
            () => Uses::Read,
        }
    }

    /// The mount that contains a path. Of several mounts at one point the topmost counts.
    pub fn containing(&self, path: &str) -> Option<&Entry> {
        let inside = |e: &&Entry| {
            let point = e.mount.point.trim_end_matches('/');
            path.strip_prefix(point)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // Of several equally long mount points the last mount covers the others.
        self.0
            .iter()
            .filter(inside)
            .max_by_key(|e| e.mount.point.trim_end_matches('/').len())
    }

    /// Whether a file system is mounted at a point. An automount that waits for its first access does not count.
    pub fn covered(&self, point: &str) -> bool {
        let covers = |e: &Entry| e.mount.point == point && e.mount.fstype != "autofs";
        self.0.iter().any(covers)
    }

    /// A mount point in the folder `point`.
    pub fn inside(&self, point: &str) -> Option<&str> {
        let mut points = self.0.iter().map(|e| e.mount.point.as_str());
        points.find(|other| {
            let rest = other.strip_prefix(point);
            rest.is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// Mount points of others that lie below one of these.
    pub fn below(&self, mounts: &[Mount]) -> Vec<String> {
        let inside = |point: &str| {
            mounts.iter().any(|m| {
                point
                    .strip_prefix(m.point.as_str())
                    .is_some_and(|rest| rest.starts_with('/'))
                    || (m.point == "/" && point != "/")
            })
        };
        let own = |point: &str| mounts.iter().any(|m| m.point == point);
        let points = self.0.iter().map(|e| e.mount.point.clone());
        points
            .filter(|point| inside(point) && !own(point))
            .collect()
    }
}

/// Where the system mounts the device with this number at its start.
///
/// # Errors
/// If fstab cannot be read.
pub fn points_at_start(number: &str) -> std::io::Result<Vec<String>> {
    let mut fstab = fstab()?;
    fstab.retain(|entry| {
        at_start(entry)
            && node(entry).and_then(|node| node_number(&node)).as_deref() == Some(number)
    });
    Ok(fstab.into_iter().map(|entry| entry.target).collect())
}

/// Whether systemd mounts the fstab entry of this point at the first access.
///
/// # Errors
/// If fstab cannot be read.
pub fn automounts(point: &str) -> std::io::Result<bool> {
    let automounts = |e: &libmount::Entry| e.has_option("x-systemd.automount");
    Ok(fstab()?
        .iter()
        .any(|entry| same_point(&entry.target, point) && automounts(entry)))
}

/// Whether the system waits at its start for a device that is not there yet. `handled`: whether udev has handled the
/// block device with this number.
///
/// # Errors
/// If fstab or crypttab is there and cannot be read.
pub fn waits_at_start(handled: impl Fn(&str) -> bool) -> std::io::Result<bool> {
    let (mut fstab, crypttab) = (fstab()?, optional(StartTable::Crypttab.file())?);
    let crypttab = without_network(&mut fstab, &crypttab);
    let mut entries = all_entries(&fstab, &crypttab).filter(|(_, entry)| entry.at_start);
    Ok(entries.any(|(node, _)| is_awaited(&node, node_number(&node), &handled)))
}

/// Leaves out the entries for which systemd waits only when the network is up. Returns the crypttab.
fn without_network(fstab: &mut Vec<libmount::Entry>, crypttab: &str) -> String {
    fstab.retain(|entry| !entry.has_option(ON_NETWORK));
    let here = |line: &&str| {
        let options = line.split_ascii_whitespace().nth(3).unwrap_or_default();
        !libmount::has_option(options, ON_NETWORK)
    };
    let lines: Vec<_> = crypttab.lines().filter(here).collect();
    lines.join("\n")
}

/// Whether systemd waits for a node, which leads to the block device with this number. The link may be left from the
/// initial file system. systemd waits until udev has handled the device anew.
fn is_awaited(node: &str, number: Option<String>, handled: impl Fn(&str) -> bool) -> bool {
    fs::metadata(node).is_err() || number.is_some_and(|number| !handled(&number))
}

/// The entries of fstab; none if there is no such file.
pub(super) fn fstab() -> std::io::Result<Vec<libmount::Entry>> {
    match libmount::fstab(Path::new(StartTable::Fstab.file())) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

/// The entries of fstab and crypttab that name a device, each with the node of the device or a link to it.
pub(super) fn all_entries<'a>(
    fstab: &'a [libmount::Entry],
    crypttab: &'a str,
) -> impl Iterator<Item = (String, StartEntry)> + 'a {
    let mounted = fstab.iter().filter_map(|entry| {
        let found = StartEntry {
            table: StartTable::Fstab,
            target: entry.target.clone(),
            spec: entry.source.clone(),
            at_start: at_start(entry),
            early: entry.has_option(MOUNTED_EARLY),
        };
        Some((node(entry)?, found))
    });
    mounted.chain(crypttab.lines().filter_map(unlock))
}

/// The entries of crypttab that name a device, each with the name of the unlocked device and the field that names the
/// device.
pub fn unlocked(crypttab: &str) -> Vec<(String, String)> {
    let entries = crypttab.lines().filter_map(unlock);
    entries
        .map(|(_, entry)| (entry.target, entry.spec))
        .collect()
}

/// An entry of crypttab, with the node or the link that it names.
fn unlock(line: &str) -> Option<(String, StartEntry)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [name, spec, rest @ ..] = words.as_slice() else {
        return None;
    };
    if name.starts_with('#') {
        return None;
    }
    let spec = unescape(spec);
    let node = named(&spec)?;
    let options = rest.get(1).copied().unwrap_or_default();
    let has = |option: &str| libmount::has_option(options, option);
    let early = UNLOCKED_EARLY.iter().any(|option| has(option));
    let entry = StartEntry {
        table: StartTable::Crypttab,
        target: unescape(name),
        spec,
        at_start: early || !has("noauto"),
        early,
    };
    Some((node, entry))
}

/// Whether systemd mounts an entry of fstab at the start or at a later access. systemd ignores `noauto` beside
/// `x-systemd.automount`.
fn at_start(entry: &libmount::Entry) -> bool {
    let mounts = ["x-systemd.automount", MOUNTED_EARLY];
    !entry.has_option("noauto") || mounts.iter().any(|option| entry.has_option(option))
}

/// The device node or link in an entry of fstab.
fn node(entry: &libmount::Entry) -> Option<String> {
    match &entry.tag {
        Some((tag, value)) => link(tag, value),
        None => is_node(&entry.source).then(|| entry.source.clone()),
    }
}

/// Whether two mount points are the same, with or without a slash at the end.
pub fn same_point(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Which program mounted. An entry of fstab counts only if it means the device that is mounted there: a person may have
/// mounted another one by hand, and the entry would not bring that back.
fn mounter(
    mount: &libmount::Entry,
    fstab: &[libmount::Entry],
    passwd: &str,
    of_device: &dyn Fn(&str) -> bool,
) -> Mounter {
    let ours = |e: &&libmount::Entry| {
        same_point(&e.target, &mount.target) && node(e).is_some_and(|node| of_device(&node))
    };
    if let Some(entry) = fstab.iter().find(ours) {
        return Mounter::Fstab(entry.source.clone());
    }
    let by_udisks = mount
        .user_options
        .split(',')
        .any(|option| option == "uhelper=udisks2");
    if by_udisks {
        Mounter::Udisks(owner(&mount.target, passwd))
    } else {
        Mounter::Other
    }
}

/// Name of the folder below /media or /run/media: UDisks2 gives each user a folder with the user's name.
pub(super) fn user_folder(point: &str) -> Option<&str> {
    let rest = point
        .strip_prefix("/run/media/")
        .or_else(|| point.strip_prefix("/media/"))?;
    rest.split('/').next()
}

/// Uid of the user whose folder holds the mount point; root if there is none.
fn owner(point: &str, passwd: &str) -> u32 {
    let uid = user_folder(point).and_then(|name| {
        passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
        })
    });
    uid.unwrap_or(0)
}

#[cfg(test)]
mod tests;

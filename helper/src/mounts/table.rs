// SPDX-License-Identifier: GPL-3.0-or-later
//! The mount table of the machine, fstab and the records of mount(8). Parsing is pure.

use crate::facts::{Mount, Mounter};
use std::collections::BTreeSet;
use std::fs;

/// The mount table of the first process: ours is a copy inside our sandbox.
pub const MOUNTINFO: &str = "/proc/1/mountinfo";
const FSTAB: &str = "/etc/fstab";
const CRYPTTAB: &str = "/etc/crypttab";
/// Options that only mount(8) knows, such as who mounted.
const UTAB: &str = "/run/mount/utab";

/// A line of the mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Number of the mount, which no other one has in any namespace.
    pub id: u64,
    /// Number of the mount that it lies in.
    pub parent: u64,
    /// Peer group in which mounts and unmounts happen alike, if it is in one.
    pub shared: Option<u64>,
    /// Follows the mounts and unmounts of a peer group.
    pub follows: bool,
    /// `major:minor` as the kernel gives it; for Btrfs not that of the device.
    pub device: String,
    /// Source as it was named, usually a device node.
    pub source: String,
    /// The rest.
    pub mount: Mount,
}

/// Everything that is mounted, in the order of mounting.
#[derive(Debug, Clone, Default)]
pub struct Mounts(pub Vec<Entry>);

/// Undoes the octal escapes of space, tab, newline and backslash.
pub(super) fn unescape(text: &str) -> String {
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
        let table = crate::read_lossy(MOUNTINFO)?;
        let fstab = match crate::read_lossy(FSTAB) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            other => other?,
        };
        let utab = crate::read_lossy(UTAB).unwrap_or_default();
        let passwd = crate::read_lossy("/etc/passwd").unwrap_or_default();
        Ok(Self::parse(&table, &fstab, &utab, &passwd, &node_number))
    }

    /// From the texts of the mount table, fstab, utab and passwd. `number` gives the `major:minor` of
    /// a device node or of a link to one.
    pub fn parse(
        table: &str,
        fstab: &str,
        utab: &str,
        passwd: &str,
        number: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let entry = |line: &str| -> Option<Entry> {
            let (left, right) = line.split_once(" - ")?;
            let left: Vec<&str> = left.split(' ').collect();
            let [id, parent, device, root, point, options, ref tags @ ..] = left[..] else {
                return None;
            };
            let tag = |name: &str| tags.iter().find_map(|tag| tag.strip_prefix(name));
            let right: Vec<&str> = right.split(' ').collect();
            let [fstype, source, system] = right[..] else {
                return None;
            };
            let point = unescape(point);
            let source = unescape(source);
            let of_device = |spec: &str| {
                let found = spec_node(spec).and_then(|node| number(&node));
                found.is_some_and(|found| {
                    found == device || number(&source).as_ref() == Some(&found)
                })
            };
            let mounter = mounter(&point, fstab, utab, passwd, &of_device);
            Some(Entry {
                id: id.parse().ok()?,
                parent: parent.parse().ok()?,
                shared: tag("shared:").and_then(|group| group.parse().ok()),
                follows: tag("master:").is_some(),
                device: device.to_owned(),
                source,
                mount: Mount {
                    point,
                    root: unescape(root),
                    fstype: fstype.to_owned(),
                    options: join_options(options, system),
                    mounter,
                },
            })
        };
        Self(table.lines().filter_map(entry).collect())
    }

    /// Mounts of the device with this number or under one of these nodes.
    pub fn of<'a>(
        &'a self,
        device: &'a str,
        nodes: &'a [Option<String>],
    ) -> impl Iterator<Item = &'a Mount> {
        let named = |e: &Entry| nodes.iter().flatten().any(|node| *node == e.source);
        self.0
            .iter()
            .filter(move |e| e.device == device || named(e))
            .map(|e| &e.mount)
    }

    /// The mount that a path lies in, the one on top if there are several.
    pub fn around(&self, path: &str) -> Option<&Entry> {
        let inside = |e: &&Entry| {
            let point = e.mount.point.trim_end_matches('/');
            path.strip_prefix(point)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // Of equally long ones the last, which covers the others.
        self.0
            .iter()
            .filter(inside)
            .max_by_key(|e| e.mount.point.trim_end_matches('/').len())
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

/// Numbers of the devices that the system mounts or unlocks at its start.
///
/// # Errors
/// If fstab or crypttab is there and cannot be read.
pub fn used_at_start() -> std::io::Result<BTreeSet<String>> {
    Ok(numbers(&optional(FSTAB)?, &optional(CRYPTTAB)?))
}

/// Those of them that it unlocks.
///
/// # Errors
/// If crypttab is there and cannot be read.
pub fn unlocked_at_start() -> std::io::Result<BTreeSet<String>> {
    Ok(numbers("", &optional(CRYPTTAB)?))
}

fn numbers(fstab: &str, crypttab: &str) -> BTreeSet<String> {
    early(fstab, crypttab)
        .filter_map(|spec| node_number(&spec_node(&spec)?))
        .collect()
}

/// Where the system mounts the device with this number at its start.
///
/// # Errors
/// If fstab cannot be read.
pub fn points_at_start(number: &str) -> std::io::Result<Vec<String>> {
    let fstab = crate::read_lossy(FSTAB)?;
    let leads = |line: &&str| {
        let spec = early(line, "").next();
        let node = spec.and_then(|spec| spec_node(&spec));
        node.and_then(|node| node_number(&node)).as_deref() == Some(number)
    };
    let point = |line: &str| line.split_ascii_whitespace().nth(1).map(unescape);
    Ok(fstab.lines().filter(leads).filter_map(point).collect())
}

/// Whether the system waits at its start for a device that is not there yet.
///
/// # Errors
/// If fstab or crypttab is there and cannot be read.
pub fn waits_at_start() -> std::io::Result<bool> {
    let (fstab, crypttab) = (optional(FSTAB)?, optional(CRYPTTAB)?);
    let mut nodes = early(&fstab, &crypttab).filter_map(|spec| spec_node(&spec));
    Ok(nodes.any(|node| fs::metadata(node).is_err()))
}

fn optional(path: &str) -> std::io::Result<String> {
    match crate::read_lossy(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
}

/// First fields of fstab and second ones of crypttab, without the entries that wait for somebody to ask.
fn early<'a>(fstab: &'a str, crypttab: &'a str) -> impl Iterator<Item = String> + 'a {
    let entry = |line: &'a str, spec: usize, options: usize| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let waits = |options: &&str| options.split(',').any(|option| option == "noauto");
        let late = words.get(options).is_some_and(waits);
        (!line.trim_start().starts_with('#') && !late)
            .then(|| words.get(spec).map(|spec| unescape(spec)))
            .flatten()
    };
    let mounted = fstab.lines().filter_map(move |line| entry(line, 0, 3));
    let unlocked = crypttab.lines().filter_map(move |line| entry(line, 1, 3));
    mounted.chain(unlocked)
}

/// `major:minor` of the block device that a node or a link leads to.
fn node_number(node: &str) -> Option<String> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let metadata = fs::metadata(node)
        .ok()
        .filter(|m| m.file_type().is_block_device())?;
    let number = metadata.rdev();
    Some(format!(
        "{}:{}",
        rustix::fs::major(number),
        rustix::fs::minor(number)
    ))
}

/// Node or link that a first field of fstab means.
fn spec_node(spec: &str) -> Option<String> {
    let Some((tag, value)) = spec.split_once('=') else {
        return spec.starts_with('/').then(|| spec.to_owned());
    };
    let folder = match tag {
        "UUID" => "by-uuid",
        "LABEL" => "by-label",
        "PARTUUID" => "by-partuuid",
        "PARTLABEL" => "by-partlabel",
        _ => return None,
    };
    Some(format!("/dev/disk/{folder}/{}", value.trim_matches('"')))
}

/// Who mounted at a point. An entry of fstab counts only if it means the device that is there:
/// somebody may have mounted another one by hand, and the entry would not bring that back.
fn mounter(
    point: &str,
    fstab: &str,
    utab: &str,
    passwd: &str,
    of_device: &dyn Fn(&str) -> bool,
) -> Mounter {
    let line = fstab.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (spec, at) = (words.next()?, words.next()?);
        let ours = !spec.starts_with('#')
            && unescape(at).trim_end_matches('/') == point.trim_end_matches('/')
            && of_device(&unescape(spec));
        ours.then(|| unescape(spec))
    });
    if let Some(spec) = line {
        return Mounter::Fstab(spec);
    }
    let by_udisks = utab.lines().any(|line| {
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
        field("TARGET=").is_some_and(|target| unescape(target) == point)
            && field("OPTS=").is_some_and(|opts| opts.split(',').any(|o| o == "uhelper=udisks2"))
    });
    if by_udisks {
        Mounter::Udisks(owner(point, passwd))
    } else {
        Mounter::Other
    }
}

/// Uid of the user whose name is the folder below /media or /run/media; root if there is none.
fn owner(point: &str, passwd: &str) -> u32 {
    let rest = point
        .strip_prefix("/run/media/")
        .or_else(|| point.strip_prefix("/media/"));
    let name = rest.and_then(|rest| rest.split('/').next());
    let uid = name.and_then(|name| {
        passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
        })
    });
    uid.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
40 22 8:1 / /media/anna/My\\040Disk rw,nosuid,nodev,relatime shared:20 - ext4 /dev/sda1 rw,stripe=4
41 22 8:17 / /srv/data ro,relatime - ext4 /dev/sdb1 rw
42 41 8:33 / /srv/data/inner rw - ext4 /dev/sdc1 rw
45 22 8:65 / /by/hand rw - ext4 /dev/sde1 rw
43 22 0:50 /@home /home rw,relatime - btrfs /dev/sdd1 rw,subvolid=257,subvol=/@home
44 22 8:1 /part /mnt/bind rw - ext4 /dev/sda1 rw,stripe=4
garbage
";
    const FSTAB: &str = "# none\nUUID=ab /srv/data ext4 ro 0 2\n/dev/sdd1 /home/ btrfs subvol=@home 0 0\nLABEL=other /by/hand ext4 defaults 0 0\n";
    const UTAB: &str =
        "ID=1 SRC=/dev/sda1 TARGET=/media/anna/My\\040Disk ROOT=/ OPTS=uhelper=udisks2\n";
    const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nanna:x:1000:1000::/home/anna:/bin/sh\n";

    fn mounts() -> Mounts {
        let number = |node: &str| {
            let number = match node {
                "/dev/disk/by-uuid/ab" => "8:17",
                "/dev/sdd1" => "8:49",
                "/dev/disk/by-label/other" => "9:9",
                _ => return None,
            };
            Some(number.to_owned())
        };
        Mounts::parse(TABLE, FSTAB, UTAB, PASSWD, &number)
    }

    #[test]
    fn who_mounted_what_is_found() {
        let all = mounts();
        assert_eq!(all.0.len(), 7);
        // The entry for that place means another device.
        let sde: Vec<_> = all.of("8:65", &[]).collect();
        assert_eq!(sde[0].mounter, Mounter::Other);
        let sda: Vec<_> = all.of("8:1", &[]).collect();
        assert_eq!(sda[0].point, "/media/anna/My Disk");
        assert_eq!(sda[0].options, "rw,nosuid,nodev,relatime,stripe=4");
        assert_eq!(sda[0].mounter, Mounter::Udisks(1000));
        assert_eq!(
            (sda[1].root.as_str(), &sda[1].mounter),
            ("/part", &Mounter::Other)
        );
        let sdb: Vec<_> = all.of("8:17", &[]).collect();
        assert_eq!(sdb[0].mounter, Mounter::Fstab("UUID=ab".into()));
        assert_eq!(sdb[0].options, "ro,relatime");
        let sdd = [Some("/dev/sdd1".to_owned())];
        let sdd: Vec<_> = all.of("8:49", &sdd).collect();
        assert_eq!(sdd[0].mounter, Mounter::Fstab("/dev/sdd1".into()));
    }

    #[test]
    fn what_the_start_uses_is_known() {
        let fstab = "# UUID=no /no ext4 defaults 0 0\n\
                     UUID=a / ext4 errors=remount-ro 0 1\n\
                     UUID=b /late ext4 noauto,nofail 0 2\n\
                     /dev/sdx1\t/x\text4\n";
        let crypttab = "home UUID=c none luks\nlater UUID=d none luks,noauto\n\n";
        let found: Vec<_> = early(fstab, crypttab).collect();
        assert_eq!(found, ["UUID=a", "/dev/sdx1", "UUID=c"]);
    }

    #[test]
    fn what_lies_below_is_found() {
        let all = mounts();
        let sdb: Vec<_> = all.of("8:17", &[]).cloned().collect();
        assert_eq!(all.below(&sdb), ["/srv/data/inner"]);
        let sda: Vec<_> = all.of("8:1", &[]).cloned().collect();
        assert!(all.below(&sda).is_empty());
    }
}

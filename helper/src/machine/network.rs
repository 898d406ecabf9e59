// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks on the network, as sysfs shows them: iSCSI, NBD and Ceph RBD.

use crate::machine::sysfs::{SYSFS, line, whole_disk};
use crate::machine::volumes::drives_below;
use std::fs;
use std::path::{Path, PathBuf};

/// What a server on the network shows as a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name for people: the IQN and LUN, the pool and image, or what the NBD client calls its connection.
    pub name: String,
    /// What stays the same in each connection, in place of a serial number. Empty if the kernel knows no such thing.
    /// Also empty for iSCSI: such a disk has the WWN and serial number of SCSI.
    pub serial: String,
}

/// Whether a device, or a drive below it, is on the network.
pub fn is_below(name: &str) -> bool {
    let drives = drives_below(name);
    drives.iter().any(|drive| of(drive).is_some())
}

/// What the device, or the drive that it is a partition of, shows from the network; none for any other device.
pub fn of(name: &str) -> Option<Target> {
    read(Path::new(SYSFS), &whole_disk(name))
}

/// The same for a whole drive in this sysfs.
fn read(sys: &Path, drive: &str) -> Option<Target> {
    let folder = sys.join("class/block").join(drive);
    if drive.starts_with("nbd") {
        let backend = line(folder.join("backend")).unwrap_or_default();
        return Some(named("NBD", &backend));
    }
    if let Some(number) = drive.strip_prefix("rbd") {
        return Some(rbd(&sys.join("bus/rbd/devices").join(number)));
    }
    iscsi(sys, &fs::canonicalize(folder).ok()?)
}

/// A target with one name for people and programs, which may be empty.
fn named(kind: &str, name: &str) -> Target {
    Target {
        name: format!("{kind} {name}").trim().to_owned(),
        serial: match name {
            "" => String::new(),
            _ => format!("{kind}-{name}"),
        },
    }
}

fn rbd(folder: &Path) -> Target {
    let word = |file: &str| line(folder.join(file)).unwrap_or_default();
    let path = [word("pool"), word("pool_ns"), word("name")];
    let path: Vec<_> = path.into_iter().filter(|part| !part.is_empty()).collect();
    // The names of a pool and an image can change. An image keeps its id, which is unique in its pool.
    let ids = [word("cluster_fsid"), word("pool_id"), word("image_id")];
    let complete = ids.iter().all(|id| !id.is_empty());
    Target {
        name: format!("RBD {}", path.join("/")).trim().to_owned(),
        serial: match complete {
            true => format!("RBD-{}", ids.join("-")),
            false => String::new(),
        },
    }
}

/// `real`: the folder of the drive below `devices/`. The session is one of the folders above it.
fn iscsi(sys: &Path, real: &Path) -> Option<Target> {
    let folders: Vec<_> = real.iter().filter_map(|folder| folder.to_str()).collect();
    let is_session = |folder: &&&str| {
        let number = folder.strip_prefix("session").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let session = folders.iter().find(is_session)?;
    let session: PathBuf = sys.join("class/iscsi_session").join(session);
    // .../HOST:CHANNEL:ID:LUN/block/NAME
    let address = folders.iter().rev().nth(2).unwrap_or(&"");
    let lun = address.rsplit(':').next().unwrap_or_default();
    let target = line(session.join("targetname")).unwrap_or_default();
    Some(Target {
        name: match target.as_str() {
            "" => "iSCSI".to_owned(),
            _ => format!("{target} LUN {lun}"),
        },
        serial: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A sysfs with these files.
    fn sysfs(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let sys = std::env::temp_dir().join(format!("tandem-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&sys);
        fs::create_dir_all(sys.join("class/block")).unwrap();
        for (path, text) in files {
            let path = sys.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        sys
    }

    #[test]
    fn nbd_is_known_by_what_its_client_says() {
        let sys = sysfs(
            "nbd",
            &[
                ("class/block/nbd0/backend", "films@nas"),
                ("class/block/nbd1/size", "0"),
            ],
        );
        let target = read(&sys, "nbd0").unwrap();
        assert_eq!(
            (target.name.as_str(), target.serial.as_str()),
            ("NBD films@nas", "NBD-films@nas")
        );
        let target = read(&sys, "nbd1").unwrap();
        assert_eq!((target.name.as_str(), target.serial.as_str()), ("NBD", ""));
        fs::remove_dir_all(sys).unwrap();
    }

    #[test]
    fn rbd_is_known_by_its_cluster_and_image() {
        let folder = "bus/rbd/devices/3";
        let files = [
            ("pool", "slow"),
            ("pool_ns", ""),
            ("name", "films"),
            ("cluster_fsid", "5b1e"),
            ("pool_id", "2"),
            ("image_id", "10ab"),
        ];
        let files: Vec<_> = files
            .map(|(file, text)| (format!("{folder}/{file}"), text))
            .into();
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let sys = sysfs("rbd", &files);
        let target = read(&sys, "rbd3").unwrap();
        assert_eq!(target.name, "RBD slow/films");
        assert_eq!(target.serial, "RBD-5b1e-2-10ab");
        fs::remove_file(sys.join(folder).join("image_id")).unwrap();
        assert_eq!(read(&sys, "rbd3").unwrap().serial, "");
        fs::remove_dir_all(sys).unwrap();
    }

    #[test]
    fn iscsi_is_known_by_the_session_above_the_disk() {
        let disk = "devices/platform/host2/session1/target2:0:0/2:0:0:4/block/sdb";
        let local = "devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda";
        let size = |folder| format!("{folder}/size");
        let (of_disk, of_local) = (size(disk), size(local));
        let name = (
            "class/iscsi_session/session1/targetname",
            "iqn.2026-01.org.example:films",
        );
        let sys = sysfs("iscsi", &[(&of_disk, "1"), (&of_local, "1"), name]);
        for (name, folder) in [("sdb", disk), ("sda", local)] {
            symlink(sys.join(folder), sys.join("class/block").join(name)).unwrap();
        }
        let target = read(&sys, "sdb").unwrap();
        assert_eq!(target.name, "iqn.2026-01.org.example:films LUN 4");
        assert_eq!(target.serial, "");
        assert_eq!(read(&sys, "sda"), None);
        assert_eq!(read(&sys, "sdz"), None);
        fs::remove_dir_all(sys).unwrap();
    }
}

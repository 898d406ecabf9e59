// SPDX-License-Identifier: GPL-3.0-or-later
//! The units of systemd that mount a device, beside those that systemd makes from fstab: written by a person or a
//! program, or made by systemd-gpt-auto-generator from the types of the partitions.

use super::device;
use super::nodes::named;
use super::table::{MOUNTINFO, Mounts};
use crate::model::facts::{StartEntry, StartTable};
use crate::read_lossy;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of systemd's units. The first one with a unit of a name counts.
const FOLDERS: [&str; 8] = [
    "run/systemd/generator.early",
    "etc/systemd/system",
    "run/systemd/system",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
    "run/systemd/generator.late",
];
/// A unit with this line was made from fstab, whose entries are looked at themselves.
const FROM_FSTAB: &str = "SourcePath=/etc/fstab";
/// A unit with this line was made from the type of a partition. systemd finds such partitions by the device of `/`, and
/// finds none where that is a mapping over two drives. So the unit counts for the device of `/` as well.
const FROM_GPT: &str = "Documentation=man:systemd-gpt-auto-generator(8)";

/// Name of the mount unit of a mount point, as `systemd-escape --path --suffix=mount` gives it.
pub fn mount_unit(point: &str) -> String {
    let trimmed = point.trim_matches('/');
    if trimmed.is_empty() {
        return "-.mount".to_owned();
    }
    let mut name = String::new();
    for (at, byte) in trimmed.bytes().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if at == 0 => name.push_str("\\x2e"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' => name.push(byte.into()),
            _ => name.push_str(&format!("\\x{byte:02x}")),
        }
    }
    name + ".mount"
}

/// The mount units that name a device, each with the node of the device or a link to it. A unit counts whether or not
/// anything starts it now. `root` is `/`; tests have other roots.
pub fn read(root: &Path) -> Vec<(String, StartEntry)> {
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let mounts = Mounts::parse(&read_lossy(below(MOUNTINFO)).unwrap_or_default());
    let system = mounts
        .containing("/")
        .and_then(|entry| device::number(root, entry));
    let mut known = BTreeSet::new();
    let mut all = Vec::new();
    for folder in FOLDERS {
        let files = fs::read_dir(root.join(folder)).into_iter().flatten();
        let mut units: Vec<_> = files.filter_map(|file| unit(file.ok()?.path())).collect();
        units.sort();
        for (name, path) in units {
            if !known.insert(name.clone()) {
                continue;
            }
            let text = read_lossy(&path).unwrap_or_default();
            let Some((node, entry)) = entry(&text, &format!("/{folder}/{name}")) else {
                continue;
            };
            let by_type = text.lines().any(|line| line == FROM_GPT);
            let number = system.as_ref().filter(|_| by_type);
            all.extend(number.map(|number| (format!("/dev/block/{number}"), entry.clone())));
            all.push((node, entry));
        }
    }
    all
}

/// The name and the path of a mount unit.
fn unit(path: PathBuf) -> Option<(String, PathBuf)> {
    let name = path.file_name()?.to_str()?.to_owned();
    name.ends_with(".mount").then_some((name, path))
}

/// The entry of a unit, with the node or the link that it names. `path`: of the unit.
fn entry(text: &str, path: &str) -> Option<(String, StartEntry)> {
    let mut lines = text.lines().map(str::trim);
    if lines.clone().any(|line| line == FROM_FSTAB) {
        return None;
    }
    // The last of several such lines counts.
    let spec = lines.rfind(|line| line.starts_with("What="))?;
    let spec = spec.trim_start_matches("What=").trim();
    let entry = StartEntry {
        table: StartTable::MountUnit,
        target: path.to_owned(),
        spec: spec.to_owned(),
        at_start: true,
        early: false,
    };
    Some((named(spec)?, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_that_mount_a_device_are_found_each_once() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            "etc/systemd/system/srv.mount",
            "[Mount]\nWhat=/dev/sdx\n What = no\nWhat=/dev/sda1\n",
        );
        put("usr/lib/systemd/system/srv.mount", "What=/dev/sdb1\n");
        put("usr/lib/systemd/system/tmp.mount", "What=tmpfs\n");
        put("usr/lib/systemd/system/x.service", "What=/dev/sdb1\n");
        put(
            "run/systemd/generator/data.mount",
            "SourcePath=/etc/fstab\nWhat=/dev/sdc1\n",
        );
        // systemd-gpt-auto-generator makes this one.
        put(
            "run/systemd/generator.late/home.mount",
            &format!("[Unit]\n{FROM_GPT}\n[Mount]\nWhat=/dev/sda4\nWhere=/home\n"),
        );
        put("proc/1/mountinfo", "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n");
        put("run/systemd/system/music.mount", "What=UUID=0a\n");
        std::os::unix::fs::symlink(
            "/dev/null",
            root.path().join("etc/systemd/system/off.mount"),
        )
        .unwrap();
        put("usr/lib/systemd/system/off.mount", "What=/dev/sdd1\n");
        let found = read(root.path()).into_iter();
        let texts = |(node, e): (String, StartEntry)| [node, e.target, e.spec];
        let expected = [
            ["/dev/sda1", "/etc/systemd/system/srv.mount", "/dev/sda1"],
            [
                "/dev/disk/by-uuid/0a",
                "/run/systemd/system/music.mount",
                "UUID=0a",
            ],
            // systemd would find nothing by the types of partitions where the system is on a mapping.
            [
                "/dev/block/8:2",
                "/run/systemd/generator.late/home.mount",
                "/dev/sda4",
            ],
            [
                "/dev/sda4",
                "/run/systemd/generator.late/home.mount",
                "/dev/sda4",
            ],
        ];
        assert_eq!(found.map(texts).collect::<Vec<_>>(), expected);
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! By which name the boot loader has the kernel find the root file system. The kernel gives names such as `/dev/sda1` in
//! the order in which it finds the disks, so another disk may have that name at the next start.

use super::libmount;
use super::nodes::{is_node, link, optional};
use crate::model::facts::{StartEntry, StartTable};
use std::path::Path;
use tandem_api::distribution::{
    GRUB_MENU, KERNEL_PREFIX, KERNELS, UPDATE_GRUB, initial_file_systems,
};

/// Files with command lines that another program has made, or a person.
const MADE: [&str; 2] = [GRUB_MENU, "/etc/kernel/cmdline"];
/// GRUB's settings with words of the command line.
const COMMAND_LINES: [&str; 2] = ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"];
/// GRUB's settings to name the device of the root file system in the command line, and not its UUID. Above a cache that
/// device is the mapping.
const BY_DEVICE: [&str; 2] = ["GRUB_DISABLE_LINUX_UUID", "GRUB_DISABLE_UUID"];
/// The value with which they are in force.
const IN_FORCE: &str = "true";

/// The files of a machine that matter here.
#[derive(Debug, Default)]
struct Files {
    /// The command line of the running kernel.
    command_line: String,
    /// What is mounted as `/`.
    mounted: String,
    /// The settings of GRUB; empty where nothing makes its menu from them.
    settings: String,
    /// Each of [`MADE`]; empty if it is not there.
    made: [String; 2],
}

impl Files {
    /// The word of the command line that names the root file system. The last one counts.
    fn root(&self) -> Option<&str> {
        let words = self.command_line.split_ascii_whitespace();
        words.rev().find(|word| word.starts_with("root="))
    }
}

/// The names of this machine's root file system that do not name its content, each with the node or the link that the
/// name leads to. `same`: whether two of these lead to one device. A setting that leads to another device than the
/// running system is on is left out: a name that follows that device would start the wrong one for good.
///
/// # Errors
/// If the command line or the settings of GRUB are there and cannot be read.
pub fn read(same: impl Fn(&str, &str) -> bool) -> std::io::Result<Vec<(String, StartEntry)>> {
    let mut files = Files {
        command_line: optional(StartTable::CommandLine.file())?,
        mounted: root_source()?,
        ..Files::default()
    };
    if Path::new(UPDATE_GRUB).exists() {
        files.settings = optional(StartTable::Grub.file())?;
    }
    if files
        .root()
        .and_then(node)
        .is_some_and(|node| is_kernel_name(&node))
    {
        // A file that cannot be read says nothing against the name of this start.
        files.made = MADE.map(|file| optional(file).unwrap_or_default());
    }
    let mut all = entries(&files, same);
    if !has_initial_file_systems(&Path::new("/").join(KERNELS)) {
        all.iter_mut().for_each(|(_, entry)| by_hand(entry));
    }
    Ok(all)
}

/// What is mounted as `/`, as the kernel tells it.
fn root_source() -> std::io::Result<String> {
    let mounts = libmount::mounts(Path::new("/proc/self/mountinfo"))?;
    let root = mounts.into_iter().rev().find(|mount| mount.target == "/");
    Ok(root.map_or_else(String::new, |mount| mount.source))
}

/// Whether each kernel in this folder has an initial file system. A kernel without one does not know `root=UUID=`.
fn has_initial_file_systems(boot: &Path) -> bool {
    let entries = std::fs::read_dir(boot).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut releases = names.filter_map(|name| Some(name.strip_prefix(KERNEL_PREFIX)?.to_owned()));
    releases.all(|release| {
        let files = initial_file_systems(&release);
        files.iter().any(|file| boot.join(file).exists())
    })
}

/// Leaves the change of a setting to the person.
fn by_hand(entry: &mut StartEntry) {
    if entry.table == StartTable::Grub {
        entry.target = entry.table.file().to_owned();
        entry.table = StartTable::CommandLine;
    }
}

fn entries(files: &Files, same: impl Fn(&str, &str) -> bool) -> Vec<(String, StartEntry)> {
    let root = files.root();
    let is_root = |found: &String| root.and_then(node).is_some_and(|root| same(&root, found));
    let entry = |node: String, table, target: &str, spec: &str| {
        let found = StartEntry {
            table,
            target: target.to_owned(),
            spec: spec.to_owned(),
            at_start: true,
            early: false,
        };
        (node, found)
    };
    let mut all = Vec::new();
    for (setting, word) in settings(&files.settings) {
        let node = match word == IN_FORCE {
            true => root.and_then(node),
            false => node(&word).filter(|node| is_kernel_name(node)),
        };
        let node = node.filter(is_root);
        all.extend(node.map(|node| entry(node, StartTable::Grub, &setting, &word)));
    }
    // A setting may say the same word twice. One change is for both.
    all.dedup();
    // The kernel was not told what to mount: dracut or systemd has found a device by the name of this start, or by the
    // kind of its partition, and with a cache would wait for the mapping before that is there.
    if root.is_none() && is_node(&files.mounted) {
        let mounted = files.mounted.clone();
        all.push(entry(mounted, StartTable::CommandLine, "", ""));
    }
    let Some((root, node)) = root.and_then(|root| Some((root, node(root)?))) else {
        return all;
    };
    let has = |text: &&String| text.split_ascii_whitespace().any(|word| word == root);
    // A menu of GRUB without that name was made since this kernel was started.
    let is_made_anew = !files.made[0].is_empty() && !files.made.iter().any(|text| has(&text));
    if is_kernel_name(&node) && all.is_empty() && !is_made_anew {
        let file = MADE.iter().zip(&files.made).find(|(_, text)| has(text));
        let file = file.map_or("", |(path, _)| path);
        all.push(entry(node, StartTable::CommandLine, file, root));
    }
    all
}

/// The settings of GRUB that say how the root file system is found, each with the word that says it.
pub fn settings(text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((setting, value)) = line.split_once('=') else {
            continue;
        };
        let setting = setting.trim_end_matches('+');
        let is_end = |c: char| c.is_ascii_whitespace() || c == '"' || c == '\'';
        let mut words = without_comment(value)
            .split(is_end)
            .filter(|word| !word.is_empty());
        if COMMAND_LINES.contains(&setting) {
            let roots = words.filter(|word| word.starts_with("root="));
            all.extend(roots.map(|word| (setting.to_owned(), word.to_owned())));
        } else if BY_DEVICE.contains(&setting) {
            all.extend(
                words
                    .next()
                    .map(|word| (setting.to_owned(), word.to_owned())),
            );
        }
    }
    all
}

/// The value of a setting without the comment behind it: from a `#` on that begins a word outside of quotes.
fn without_comment(value: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in value.char_indices() {
        match quote {
            None if c == '#' && before.is_ascii_whitespace() => return &value[..at],
            None if c == '"' || c == '\'' => quote = Some(c),
            Some(end) if c == end => quote = None,
            _ => (),
        }
        before = c;
    }
    value
}

/// The node or the link of a word such as `root=/dev/sda1` or `root=UUID=0a`.
fn node(word: &str) -> Option<String> {
    let name = word.strip_prefix("root=")?;
    match name.split_once('=') {
        Some((tag, value)) => link(tag, value.trim_matches('"')),
        None => is_node(name).then(|| name.to_owned()),
    }
}

/// Whether a node has the name that the kernel gives it. A link below a folder, as `/dev/mapper/music-songs`, is made by
/// what is on the device, and an array has the number that it was given.
fn is_kernel_name(node: &str) -> bool {
    let name = node.strip_prefix("/dev/");
    name.is_some_and(|name| !name.contains('/') && !name.starts_with("md"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that are found, as file, target and word.
    fn found(command_line: &str, settings: &str, menu: &str, cmdline: &str) -> Vec<[String; 3]> {
        let files = Files {
            command_line: command_line.to_owned(),
            settings: settings.to_owned(),
            mounted: "/dev/sda1".to_owned(),
            made: [menu.to_owned(), cmdline.to_owned()],
        };
        let found = entries(&files, same).into_iter();
        let texts = |(_, e): (String, StartEntry)| [e.table.file().to_owned(), e.target, e.spec];
        found.map(texts).collect()
    }

    /// The running system is on one disk, which has two names.
    fn same(one: &str, other: &str) -> bool {
        let number = |node: &str| match node {
            "/dev/disk/by-uuid/0a" => "/dev/sda1".to_owned(),
            other => other.to_owned(),
        };
        number(one) == number(other)
    }

    fn texts(file: &str, target: &str, spec: &str) -> [String; 3] {
        [file, target, spec].map(str::to_owned)
    }

    const BY_UUID: &str = "BOOT_IMAGE=/vmlinuz root=UUID=0a ro quiet";
    const BY_NAME: &str = "BOOT_IMAGE=/vmlinuz root=UUID=0a root=/dev/sda1 ro";

    #[test]
    fn a_name_by_content_needs_no_change() {
        assert!(found(BY_UUID, "GRUB_CMDLINE_LINUX=\"quiet\"\n", "", "").is_empty());
        let settings = "GRUB_DISABLE_LINUX_UUID=false\n#GRUB_DISABLE_LINUX_UUID=true\n";
        assert!(found(BY_UUID, settings, "", "").is_empty());
        for root in [
            "/dev/mapper/music-root",
            "/dev/disk/by-uuid/0a",
            "/dev/md0",
            "LABEL=x",
        ] {
            assert!(
                found(&format!("root={root}"), "", "", "").is_empty(),
                "{root}"
            );
        }
    }

    #[test]
    fn a_command_line_that_names_no_root_file_system_has_to_name_it() {
        assert_eq!(found("quiet", "", "", ""), [texts("/proc/cmdline", "", "")]);
        // Not on a device.
        let files = Files {
            mounted: "rootfs".to_owned(),
            ..Files::default()
        };
        assert!(entries(&files, same).is_empty());
    }

    #[test]
    fn grubs_settings_are_found() {
        let grub = |setting: &str, word: &str| texts("/etc/default/grub", setting, word);
        let settings = "GRUB_CMDLINE_LINUX=\"console=tty0 root=/dev/sda1\"\n\
                        GRUB_CMDLINE_LINUX_DEFAULT='quiet root=UUID=0a'\n\
                        GRUB_DISABLE_LINUX_UUID=\"true\"\nGRUB_DISABLE_UUID=true\n";
        let expected = [
            grub("GRUB_CMDLINE_LINUX", "root=/dev/sda1"),
            grub("GRUB_DISABLE_LINUX_UUID", "true"),
            grub("GRUB_DISABLE_UUID", "true"),
        ];
        assert_eq!(found(BY_NAME, settings, "", ""), expected);
        // The settings count at the next start, whatever this one has used. The others are about the system's disk.
        assert_eq!(found(BY_UUID, settings, "", ""), expected);
        let files = Files {
            command_line: BY_UUID.to_owned(),
            settings: "GRUB_DISABLE_LINUX_UUID=true".to_owned(),
            ..Files::default()
        };
        assert_eq!(entries(&files, same)[0].0, "/dev/disk/by-uuid/0a");
    }

    #[test]
    fn a_word_counts_once_for_each_setting_and_not_in_a_comment() {
        let settings = "GRUB_CMDLINE_LINUX=\"root=/dev/sda1 a#b root=/dev/sda1\"\n\
                        GRUB_CMDLINE_LINUX_DEFAULT=quiet # root=/dev/sda1\n\
                        GRUB_DISABLE_LINUX_UUID= # true\n";
        let once = [texts(
            "/etc/default/grub",
            "GRUB_CMDLINE_LINUX",
            "root=/dev/sda1",
        )];
        assert_eq!(found(BY_NAME, settings, "", ""), once);
    }

    #[test]
    fn a_setting_for_another_disk_than_the_running_one_is_not_touched() {
        let settings = "GRUB_CMDLINE_LINUX=\"root=/dev/sdb1\"\n";
        assert!(found(BY_UUID, settings, "", "").is_empty());
        // And it does not explain the name of this start.
        let line = [texts("/proc/cmdline", "", "root=/dev/sda1")];
        assert_eq!(found(BY_NAME, settings, "", ""), line);
    }

    #[test]
    fn a_kernel_without_an_initial_file_system_leaves_the_change_to_the_person() {
        let boot = tempfile::tempdir().unwrap();
        let add = |name: &str| std::fs::write(boot.path().join(name), "").unwrap();
        assert!(has_initial_file_systems(boot.path()));
        add("vmlinuz-6.1");
        assert!(!has_initial_file_systems(boot.path()));
        add("initrd.img-6.1");
        assert!(has_initial_file_systems(boot.path()));
        add("vmlinuz-6.99-mine");
        assert!(!has_initial_file_systems(boot.path()));
        add("initramfs-6.99-mine.img");
        assert!(has_initial_file_systems(boot.path()));
        let mut entry = StartEntry {
            table: StartTable::Grub,
            target: "GRUB_CMDLINE_LINUX".to_owned(),
            spec: "root=/dev/sda1".to_owned(),
            at_start: true,
            early: false,
        };
        by_hand(&mut entry);
        let now = (entry.table.file(), entry.target.as_str());
        assert_eq!(now, ("/proc/cmdline", "/etc/default/grub"));
    }

    #[test]
    fn a_name_that_no_setting_explains_has_to_be_changed_by_hand() {
        let line = |file: &str| [texts("/proc/cmdline", file, "root=/dev/sda1")];
        assert_eq!(found(BY_NAME, "", "", ""), line(""));
        let made = format!("\tlinux\t/vmlinuz {BY_NAME} quiet\n");
        assert_eq!(found(BY_NAME, "", &made, ""), line("/boot/grub/grub.cfg"));
        assert_eq!(found(BY_NAME, "", "", BY_NAME), line("/etc/kernel/cmdline"));
        let both = found(BY_NAME, "", "linux /vmlinuz root=UUID=0a", BY_NAME);
        assert_eq!(both, line("/etc/kernel/cmdline"));
        // A menu that was made since: /dev/sda11 is another name.
        assert!(
            found(
                BY_NAME,
                "",
                "linux /vmlinuz root=UUID=0a\nlinux /old root=/dev/sda11",
                ""
            )
            .is_empty()
        );
    }
}

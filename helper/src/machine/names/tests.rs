// SPDX-License-Identifier: GPL-3.0-or-later
use super::*;

const FSTAB: &str = "# /dev/sda1 /srv ext4\n\
                     UUID=aa / ext4 errors=remount-ro 0 1\n\
                     \t/dev/sda1  /srv\text4 defaults,x-of=/dev/sda1 0 2 # data\n\
                     /dev/sda1 none swap sw 0 0\n";
const CRYPTTAB: &str = "# safe /dev/sda1 none\n\
                        safe   /dev/sda1\tnone luks,header=/dev/sda1\n\
                        other /dev/sda11 none luks\n";
const GRUB: &str = "# GRUB_CMDLINE_LINUX=\"root=/dev/sda1\"\n\
                    GRUB_CMDLINE_LINUX_DEFAULT='quiet root=/dev/sda1'\n\
                    GRUB_CMDLINE_LINUX=\"root=/dev/sda11 root=/dev/sda1\"\n\
                    export GRUB_DISABLE_LINUX_UUID=\"true\" # by hand\n";

fn change(table: StartTable, entry: &str, before: &str, after: &str) -> NameChange {
    NameChange {
        file: table.file().to_owned(),
        entry: entry.to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
    }
}

fn in_fstab(point: &str) -> NameChange {
    change(StartTable::Fstab, point, "/dev/sda1", "UUID=0a-1b")
}

#[test]
fn one_field_of_one_line_is_replaced() {
    let new = edited(StartTable::Fstab, FSTAB, &[in_fstab("/srv")]).unwrap();
    let wanted = FSTAB.replace("\t/dev/sda1  /srv", "\tUUID=0a-1b  /srv");
    assert_eq!(new, wanted);
    assert!(is_changed(StartTable::Fstab, &new, &[in_fstab("/srv")]));
    assert!(!is_changed(StartTable::Fstab, FSTAB, &[in_fstab("/srv")]));

    let safe = change(StartTable::Crypttab, "safe", "/dev/sda1", "UUID=0a-1b");
    let new = edited(StartTable::Crypttab, CRYPTTAB, &[safe]).unwrap();
    assert_eq!(
        new,
        CRYPTTAB.replace("safe   /dev/sda1", "safe   UUID=0a-1b")
    );
}

#[test]
fn the_settings_of_grub_are_changed_word_by_word() {
    let of =
        |setting: &str, before: &str, after: &str| change(StartTable::Grub, setting, before, after);
    let root = "root=/dev/sda1";
    let changes = [
        of("GRUB_CMDLINE_LINUX_DEFAULT", root, "root=UUID=0a"),
        of("GRUB_CMDLINE_LINUX", root, "root=UUID=0a"),
        of("GRUB_DISABLE_LINUX_UUID", "true", "false"),
    ];
    let new = edited(StartTable::Grub, GRUB, &changes).unwrap();
    let wanted = GRUB
        .replace("quiet root=/dev/sda1'", "quiet root=UUID=0a'")
        .replace("sda11 root=/dev/sda1\"", "sda11 root=UUID=0a\"")
        .replace("\"true\"", "\"false\"");
    assert_eq!(new, wanted);
    // A part of a longer word is another word.
    let part = of("GRUB_CMDLINE_LINUX", "root=/dev/sda", "root=UUID=0a");
    edited(StartTable::Grub, GRUB, &[part]).unwrap_err();
}

#[test]
fn a_word_of_grubs_settings_is_changed_as_often_as_it_is_there_and_in_no_comment() {
    let text = "GRUB_CMDLINE_LINUX=\"root=/dev/sda1 ro root=/dev/sda1\" # not root=/dev/sda1\n\
                GRUB_CMDLINE_LINUX+=' root=/dev/sda1'\n";
    let root = change(
        StartTable::Grub,
        "GRUB_CMDLINE_LINUX",
        "root=/dev/sda1",
        "root=UUID=0a",
    );
    let new = edited(StartTable::Grub, text, &[root]).unwrap();
    let wanted = "GRUB_CMDLINE_LINUX=\"root=UUID=0a ro root=UUID=0a\" # not root=/dev/sda1\n\
                  GRUB_CMDLINE_LINUX+=' root=UUID=0a'\n";
    assert_eq!(new, wanted);
}

#[test]
fn a_line_that_is_not_there_or_not_alone_is_not_changed() {
    let edited = |text: &str, point: &str| edited(StartTable::Fstab, text, &[in_fstab(point)]);
    edited(FSTAB, "/home").unwrap_err();
    let twice = format!("{FSTAB}/dev/sda1 /srv ext4 ro\n");
    edited(&twice, "/srv").unwrap_err();
    let spaces = FSTAB.replace("/srv\t", "/srv/my\\040disk/\t");
    let new = edited(&spaces, "/srv/my disk");
    assert!(new.unwrap().contains("UUID=0a-1b  /srv/my"));
    let quoted = FSTAB.replace("\t/dev/sda1 ", "\"/dev/sda1\" ");
    edited(&quoted, "/srv").unwrap_err();
}

/// The root folder of a system with a fstab, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tandem-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("etc/default")).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join("etc").join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn run(&self, changes: &[NameChange], backup: &str, undo: bool) -> io::Result<()> {
        let request = Request {
            changes: changes.to_vec(),
            backup: backup.to_owned(),
            undo,
        };
        write_request(&self.0.join(REQUEST), &request).unwrap();
        change_as_requested(&self.0, &self.0)
    }

    fn files(&self) -> Vec<std::ffi::OsString> {
        let names = fs::read_dir(self.0.join("etc")).unwrap();
        let mut names: Vec<_> = names.map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_file_of_before_is_kept_and_never_overwritten() {
    let folder = Folder::new("names");
    let fstab = folder.path("fstab");
    fs::write(&fstab, FSTAB).unwrap();
    fs::set_permissions(&fstab, fs::Permissions::from_mode(0o640)).unwrap();
    let before = folder.files();
    folder.run(&[in_fstab("/home")], "old", false).unwrap_err();
    assert_eq!(folder.text("fstab"), FSTAB);
    assert_eq!(folder.files(), before);

    folder.run(&[in_fstab("/srv")], "old", false).unwrap();
    assert!(folder.text("fstab").contains("UUID=0a-1b  /srv"));
    assert_eq!(fs::metadata(&fstab).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(folder.text("old"), FSTAB);

    fs::write(&fstab, FSTAB).unwrap();
    folder.run(&[in_fstab("/srv")], "old", false).unwrap_err();
    assert_eq!(folder.text("fstab"), FSTAB);

    assert_eq!(free_backup(&fstab).unwrap(), "fstab.before-tandem");
    fs::write(folder.path("fstab.before-tandem"), "").unwrap();
    assert_eq!(free_backup(&fstab).unwrap(), "fstab.before-tandem-2");

    // A link leads to a file that another program looks after.
    fs::rename(&fstab, folder.path("real")).unwrap();
    std::os::unix::fs::symlink("real", &fstab).unwrap();
    folder.run(&[in_fstab("/srv")], "older", false).unwrap_err();
}

#[test]
fn a_change_is_undone_unless_the_file_was_changed_since() {
    let folder = Folder::new("undo");
    let grub = folder.path("default/grub");
    let changes = [change(
        StartTable::Grub,
        "GRUB_DISABLE_LINUX_UUID",
        "true",
        "false",
    )];
    fs::write(&grub, GRUB).unwrap();
    folder.run(&changes, "old", false).unwrap();
    let changed = folder.text("default/grub");
    assert_ne!(changed, GRUB);
    fs::write(&grub, format!("{changed}GRUB_TIMEOUT=1\n")).unwrap();
    folder.run(&changes, "old", true).unwrap_err();
    assert!(folder.text("default/grub").ends_with("GRUB_TIMEOUT=1\n"));
    fs::write(&grub, &changed).unwrap();
    folder.run(&changes, "old", true).unwrap();
    assert_eq!(folder.text("default/grub"), GRUB);
    assert!(!folder.path("default/old").exists());
}

#[test]
fn no_file_but_the_known_ones_is_changed() {
    let folder = Folder::new("other");
    fs::write(folder.path("passwd"), FSTAB).unwrap();
    let other = NameChange {
        file: "/etc/passwd".to_owned(),
        ..change(StartTable::Fstab, "/", "UUID=aa", "UUID=bb")
    };
    folder
        .run(std::slice::from_ref(&other), "old", false)
        .unwrap_err();
    fs::write(folder.path("fstab"), FSTAB).unwrap();
    folder
        .run(&[in_fstab("/srv"), other], "old", false)
        .unwrap_err();
    folder.run(&[], "old", false).unwrap_err();
    assert_eq!(folder.text("passwd"), FSTAB);
    assert_eq!(folder.text("fstab"), FSTAB);
}

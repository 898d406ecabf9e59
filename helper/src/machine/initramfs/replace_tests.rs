// SPDX-License-Identifier: GPL-3.0-or-later
//! `data/tandem-initramfs`, which replaces initial file systems, run with programs that take the place of the tools.

use crate::program_for_test;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Places that the script names.
const PLACES: [&str; 9] = [
    "/usr/sbin/",
    "/usr/bin/dracut",
    "/boot/",
    "/efi/",
    "/etc/initramfs",
    "/etc/machine-id",
    "/lib/modules/",
    "/run/",
    "/proc/",
];
const IMAGE: &str = "boot/initrd.img-6.1";

/// A machine below a folder, with one kernel and its initial file system.
struct Machine(tempfile::TempDir);

impl Machine {
    /// Both tools do `more` before they write the file that is asked for.
    fn new(more: &str) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.put("lib/modules/6.1/modules.dep", "");
        // Left over from a kernel that was removed.
        machine.put("lib/modules/6.0/modules.dep", "");
        machine.put(IMAGE, "old");
        machine.put("etc/machine-id", "ab");
        machine.put("run/marker", "");
        machine.put("etc/initramfs/post-update.d/loader", "");
        let made = |file: &str| format!("{more}\necho new >\"{file}\"\necho \"$*\" >>$root/log");
        machine.program("usr/sbin/mkinitramfs", &made("$2"));
        machine.program("usr/bin/dracut", &made("$2"));
        machine.program("path/run-parts", "echo \"$*\" >>$root/log");
        machine.program("path/sleep", "rm -r $root/proc/7");
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn program(&self, path: &str, text: &str) {
        let text = format!("#!/bin/sh\nroot={}\n{text}\n", self.0.path().display());
        program_for_test::make(&self.path(path), &text);
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/tandem-initramfs");
        let mut text = fs::read_to_string(script).unwrap();
        for place in PLACES {
            text = text.replace(place, &format!("{}{place}", self.0.path().display()));
        }
        let path = format!("{}/path:/usr/bin:/bin", self.0.path().display());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(text).arg("sh").args(arguments);
        shell.env("PATH", path).output().unwrap()
    }

    /// What was called, without the machine's folder.
    fn called(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        let below = format!("{}/", self.0.path().display());
        log.lines().map(|line| line.replace(&below, "")).collect()
    }

    /// The files in the folder of the kernels, and what the initial file system says.
    fn boot(&self) -> (Vec<String>, String) {
        let files = fs::read_dir(self.path("boot")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let image = fs::read_to_string(self.path(IMAGE)).unwrap_or_default();
        (names.collect(), image.trim_end().to_owned())
    }
}

/// The folder with the old or a new initial file system, and nothing else.
fn only(text: &str) -> (Vec<String>, String) {
    (vec!["initrd.img-6.1".to_owned()], text.to_owned())
}

const MADE: &str = "-o boot/initrd.img-6.1.tandem-new 6.1";
const TOLD: &str = "--arg=6.1 --arg=boot/initrd.img-6.1 etc/initramfs/post-update.d";

#[test]
fn a_new_file_is_whole_before_it_takes_the_place_of_the_old_one() {
    let is_untouched = "[ \"$(cat $root/boot/initrd.img-6.1)\" = old ] || exit 1";
    let machine = Machine::new(is_untouched);
    let ran = machine.run(&["mkinitramfs"]);
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(machine.boot(), only("new"));
    assert_eq!(machine.called(), [MADE, TOLD]);
    let machine = Machine::new(is_untouched);
    // dracut's options stand before its file.
    machine.program(
        "usr/bin/dracut",
        "echo new >\"$4\"; echo \"$*\" >>$root/log",
    );
    assert!(
        machine
            .run(&["dracut", "--omit", "tandem"])
            .status
            .success()
    );
    assert_eq!(machine.boot(), only("new"));
    let made = "--force --omit tandem boot/initrd.img-6.1.tandem-new 6.1";
    assert_eq!(machine.called(), [made]);
}

#[test]
fn a_tool_that_fails_leaves_the_old_file() {
    for more in ["echo half >\"$2\"; exit 1", ": >\"$2\"; exit 0"] {
        let machine = Machine::new(more);
        let ran = machine.run(&["mkinitramfs"]);
        assert!(!ran.status.success());
        assert!(String::from_utf8_lossy(&ran.stderr).contains("is as before"));
        assert_eq!(machine.boot(), only("old"));
        assert!(machine.called().is_empty());
    }
}

#[test]
fn a_file_that_the_package_manager_made_meanwhile_is_made_again() {
    let once = "[ -e $root/once ] || { : >$root/once; echo theirs >$root/boot/new; mv $root/boot/new $root/boot/initrd.img-6.1; }";
    let machine = Machine::new(once);
    let ran = machine.run(&["mkinitramfs"]);
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(machine.boot(), only("new"));
    assert_eq!(machine.called(), [MADE, MADE, TOLD]);
    // The kernel is removed while its file is made.
    let machine = Machine::new("rm $root/boot/initrd.img-6.1");
    assert!(!machine.run(&["mkinitramfs"]).status.success());
    assert!(machine.boot().0.is_empty());
}

#[test]
fn another_program_that_has_begun_is_waited_for() {
    for name in ["mkinitramfs", "dracut"] {
        let machine = Machine::new("[ ! -e $root/proc/7/comm ] || exit 1");
        machine.put("proc/7/comm", name);
        let ran = machine.run(&["mkinitramfs"]);
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(machine.boot(), only("new"));
        // One that does not end.
        let machine = Machine::new("");
        machine.put("proc/7/comm", name);
        machine.program("path/sleep", "");
        let ran = machine.run(&["mkinitramfs"]);
        assert!(String::from_utf8_lossy(&ran.stderr).contains("does not end"));
        assert!(!ran.status.success());
        assert_eq!(machine.boot(), only("old"));
    }
}

#[test]
fn a_setting_of_the_person_is_kept() {
    let machine = Machine::new("");
    let settings = "etc/initramfs-tools/update-initramfs.conf";
    machine.put(settings, "update_initramfs=no");
    assert!(!machine.run(&["mkinitramfs"]).status.success());
    assert_eq!(machine.boot(), only("old"));
    machine.put(settings, "update_initramfs=yes");
    assert!(machine.run(&["mkinitramfs"]).status.success());
    assert_eq!(machine.boot(), only("new"));
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A machine on which the service has moved anna's disk to the mapping `dm-0`.

use super::*;

/// What the service has moved, and the mount that it made.
const MOVED: &str = "90 1 253:0 / /media/anna/Data rw - ext4 /dev/mapper/tandem-1 rw\n";

struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for (name, number) in [("dm-0", "253:0"), ("sda1", "8:1"), ("sdc1", "8:33")] {
            machine.put(&format!("sys/class/block/{name}/dev"), number);
        }
        machine.put("run/udev/data/b253:0", "S:mapper/tandem-1\nI:7\n");
        machine.put("run/tandem/moved.json", "");
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The service has just moved anna's mount, and the table is this.
    fn moved(table: &str) -> Self {
        let machine = Self::new();
        machine.record(table, "253:0", "/media/anna/Data", "anna");
        machine
    }

    fn record(&self, table: &str, number: &str, point: &str, user: &str) {
        let mounts = Mounts::parse(table);
        record_in(self.0.path(), &mounts, number, point, user).unwrap();
        self.put("proc/1/mountinfo", table);
    }

    fn may(&self, node: &str, user: &str) -> bool {
        may_unmount(self.0.path(), node, user)
    }
}

#[test]
fn a_user_unmounts_the_mount_that_was_moved_and_nobody_else_does() {
    let machine = Machine::moved(MOVED);
    assert!(machine.may("/dev/dm-0", "anna"));
    assert!(machine.may("/dev/mapper/tandem-1", "anna"));
    for user in ["ben", "nobody", ""] {
        assert!(!machine.may("/dev/dm-0", user), "{user}");
    }
    for node in [
        "/dev/sda1",
        "/dev/sdz",
        "/dev/../dm-0",
        "/dev/./dm-0",
        "dm-0",
        "",
    ] {
        assert!(!machine.may(node, "anna"), "{node}");
    }
    // Another device claims the link as well, or alone.
    let claimed = ["b253:0", "b8:33"].map(|file| format!("run/udev/data/{file}"));
    machine.put(&claimed[1], "S:mapper/tandem-1\n");
    assert!(!machine.may("/dev/mapper/tandem-1", "anna"));
    machine.put(&claimed[0], "");
    assert!(!machine.may("/dev/mapper/tandem-1", "anna"));
    // The file system is moved back to the plain disk.
    machine.record(
        "91 1 8:1 / /media/anna/Data rw - ext4 /dev/sda1 rw\n",
        "8:1",
        "/media/anna/Data",
        "anna",
    );
    assert!(machine.may("/dev/sda1", "anna") && !machine.may("/dev/dm-0", "anna"));
    let mode = fs::metadata(machine.0.path().join("run/tandem/moved.json"));
    assert_eq!(mode.unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn the_text_of_a_fuse_mount_gives_no_right() {
    // Source and options are what the user eve has chosen: the disk of ben, and that the service has moved it for eve.
    let bens = "80 1 8:33 / /media/ben/Disk rw - ext4 /dev/sdc1 rw\n";
    let eves = "95 1 0:50 / /home/eve/x rw - fuse.x /dev/sdc1 rw,x-tandem.user=eve\n\
                96 1 0:51 / /media/eve/Disk rw - fuseblk /dev/sdc1 rw,x-tandem.user=eve\n";
    let machine = Machine::moved(&format!("{MOVED}{bens}{eves}"));
    for node in ["/dev/sdc1", "/dev/dm-0"] {
        assert!(!machine.may(node, "eve"), "{node}");
    }
    assert!(machine.may("/dev/dm-0", "anna"), "they do not hinder anna");
    // Not recorded either: anna has mounted over her disk before the service looks.
    let over = "96 90 0:51 / /media/anna/Data rw - fuse.x /dev/mapper/tandem-1 rw\n";
    let machine = Machine::new();
    machine.record(over, "253:0", "/media/anna/Data", "anna");
    assert!(!machine.may("/dev/dm-0", "anna"));
    let block = MOVED.replace("ext4", "fuseblk");
    assert!(!Machine::moved(&block).may("/dev/dm-0", "anna"));
}

#[test]
fn another_mount_of_the_device_keeps_the_right_from_the_user() {
    let machine = Machine::moved(MOVED);
    for other in [
        // UDisks2 may unmount this one first.
        "97 1 253:0 / /srv/backup rw - ext4 /dev/mapper/tandem-1 rw\n",
        "97 1 253:0 /sub /media/anna/Data rw - ext4 /dev/mapper/tandem-1 rw\n",
    ] {
        machine.put("proc/1/mountinfo", &format!("{MOVED}{other}"));
        assert!(!machine.may("/dev/dm-0", "anna"), "{other}");
    }
    // The number of the mount, the point or the file system is another: somebody has mounted anew.
    for (from, to) in [
        ("90 1", "98 1"),
        ("/media/anna/Data", "/media/ben/Data"),
        ("253:0", "253:1"),
        ("- ext4", "- fuseblk"),
    ] {
        machine.put("proc/1/mountinfo", &MOVED.replace(from, to));
        assert!(!machine.may("/dev/dm-0", "anna"), "{to}");
    }
    machine.put("proc/1/mountinfo", "");
    assert!(!machine.may("/dev/dm-0", "anna"), "nothing is mounted");
}

#[test]
fn a_btrfs_counts_by_the_number_of_its_file_system() {
    let btrfs = "90 1 0:39 / /media/anna/Data rw - btrfs /dev/dm-0 rw\n";
    let machine = Machine::new();
    machine.put("dev/dm-0", "");
    machine.record(btrfs, "253:0", "/media/anna/Data", "anna");
    assert!(machine.may("/dev/dm-0", "anna"));
    let other = "99 1 0:39 /sub /srv/backup rw - btrfs /dev/other-name rw\n";
    machine.put("proc/1/mountinfo", &format!("{btrfs}{other}"));
    assert!(!machine.may("/dev/dm-0", "anna"));
}

#[test]
fn a_record_forgets_mounts_that_are_gone() {
    let machine = Machine::moved(MOVED);
    let other = "91 1 8:33 / /media/ben/Disk rw - ext4 /dev/sdc1 rw\n";
    machine.record(other, "8:33", "/media/ben/Disk", "ben");
    let kept = read(machine.0.path());
    assert_eq!(kept.len(), 1);
    assert!(machine.may("/dev/sdc1", "ben"));
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Users are found in a `/proc` that a test has made, and in the real one.

use super::*;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The machine: the disk 8:1 at /data, in a tree whose mounts are peers of group 1.
const MACHINE: &str = "\
20 1 8:2 / / rw shared:1 - ext4 /dev/sda2 rw
30 20 8:1 / /data rw shared:7 - ext4 /dev/sda1 rw
31 20 0:50 / /net rw shared:9 - nfs server:/ rw
";

struct Proc(PathBuf);

impl Drop for Proc {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Proc {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tandem-proc-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let this = Self(path);
        this.process(1, "init", "mnt:[1]", MACHINE, "/", &[]);
        this
    }

    fn process(&self, pid: u32, comm: &str, ns: &str, mounts: &str, cwd: &str, files: &[u64]) {
        let folder = self.0.join(pid.to_string());
        fs::create_dir_all(folder.join("ns")).unwrap();
        fs::create_dir_all(folder.join("fdinfo")).unwrap();
        symlink(ns, folder.join("ns/mnt")).unwrap();
        symlink(cwd, folder.join("cwd")).unwrap();
        symlink("/", folder.join("root")).unwrap();
        fs::write(folder.join("mountinfo"), mounts).unwrap();
        fs::write(folder.join("comm"), format!("{comm}\n")).unwrap();
        for (fd, id) in files.iter().enumerate() {
            let text = format!("pos:\t0\nflags:\t02\nmnt_id:\t{id}\n");
            fs::write(folder.join(format!("fdinfo/{fd}")), text).unwrap();
        }
    }

    fn users(&self) -> Vec<String> {
        let wanted = Wanted {
            numbers: BTreeSet::from(["8:1".to_owned()]),
            nodes: &[Some("/dev/sda1".to_owned())],
            points: vec!["/data".to_owned()],
        };
        let users = processes(&self.0, wanted, 99);
        users.into_iter().map(|u| u.command).collect()
    }
}

#[test]
fn open_files_and_folders_count_and_those_elsewhere_do_not() {
    let proc = Proc::new("open");
    let home = |pid, comm, cwd, files: &[u64]| {
        proc.process(pid, comm, "mnt:[1]", MACHINE, cwd, files);
    };
    home(10, "reader", "/", &[20, 30]);
    home(11, "shell", "/data/x", &[20]);
    home(12, "elsewhere", "/database", &[20, 31]);
    home(99, "ourselves", "/data", &[30]);
    fs::write(
        proc.0.join("12/maps"),
        "7f00-7f01 r-xp 00000000 08:02 4242   /lib/x.so\n",
    )
    .unwrap();
    home(13, "program", "/", &[]);
    fs::write(
        proc.0.join("13/maps"),
        "7f00-7f01 r-xp 00000000 08:01 4242   /data/x.so\n",
    )
    .unwrap();
    assert_eq!(proc.users(), ["reader", "shell", "program"]);
}

#[test]
fn a_namespace_that_keeps_its_mount_is_named_by_one_process() {
    let proc = Proc::new("spaces");
    // A container: nothing is passed on to it.
    let private = "\
40 1 8:2 / / rw - ext4 /dev/sda2 rw
41 40 8:1 / /volume rw - ext4 /dev/sda1 rw
";
    proc.process(20, "containerd-shim", "mnt:[2]", private, "/", &[]);
    proc.process(21, "in-the-same", "mnt:[2]", private, "/", &[]);
    // A service of systemd: what is unmounted on the machine goes there too.
    let follows = "\
50 1 8:2 / / rw master:1 - ext4 /dev/sda2 rw
51 50 8:1 / /data rw master:7 - ext4 /dev/sda1 rw
";
    proc.process(22, "service", "mnt:[3]", follows, "/", &[]);
    let peer = "\
60 1 8:2 / / rw shared:1 - ext4 /dev/sda2 rw
61 60 8:1 / /data rw shared:7 - ext4 /dev/sda1 rw
";
    proc.process(23, "peer", "mnt:[4]", peer, "/", &[]);
    // Peers among themselves only.
    let apart = peer.replace("shared:1", "shared:77");
    proc.process(24, "apart", "mnt:[5]", &apart, "/", &[]);
    let without = "70 1 8:2 / / rw - ext4 /dev/sda2 rw\n";
    proc.process(25, "without", "mnt:[6]", without, "/", &[]);
    assert_eq!(proc.users(), ["containerd-shim", "apart"]);
    // An open file in a namespace that follows counts as one anywhere.
    proc.process(26, "inside", "mnt:[3]", follows, "/data", &[]);
    assert_eq!(proc.users(), ["containerd-shim", "apart", "inside"]);
}

#[test]
fn a_real_process_with_an_open_file_is_found_by_name() {
    let folder = std::env::temp_dir().join(format!("tandem-users-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = fs::File::create(folder.join("open")).unwrap();
    let mut child = Command::new("/bin/sleep")
        .arg("60")
        .stdin(Stdio::from(file))
        .spawn()
        .unwrap();
    // Half the machine has a file open on this file system, so the one process is asked for.
    let process = Path::new("/proc").join(child.id().to_string());
    let text = fs::read_to_string(process.join("mountinfo")).unwrap();
    let mounts = Mounts::parse(&text);
    let around = mounts.containing(folder.to_str().unwrap()).unwrap();
    let nothing = Wanted {
        numbers: BTreeSet::new(),
        nodes: &[],
        points: vec![],
    };
    let found = uses(&process, &BTreeSet::from([around.id]), &nothing, &mounts);
    let not = uses(&process, &BTreeSet::from([u64::MAX]), &nothing, &mounts);
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let described = describe(&process, child.id(), &passwd).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert!(found && !not);
    assert_eq!(described.command, "sleep");
    assert_eq!(described.uid, rustix::process::getuid().as_raw());
    assert!(!described.user.is_empty());
    assert!(of(nothing).is_empty());
}

#[test]
fn a_user_without_a_name_is_a_number() {
    let passwd = "root:x:0:0::/root:/bin/sh\nanna:x:1000:1000::/home/anna:/bin/sh\n";
    assert_eq!(login(1000, passwd), "anna");
    assert_eq!(login(77, passwd), "77");
    assert_eq!(maps_line("garbage"), None);
}

#[test]
fn the_name_of_a_process_is_plain_text() {
    let process = tempfile::tempdir().unwrap();
    fs::write(process.path().join("comm"), "\u{1b}[31mvi\u{202e}\n").unwrap();
    let described = describe(process.path(), 7, "").unwrap();
    assert_eq!(described.command, "\u{fffd}[31mvi\u{fffd}");
}

#[test]
fn files_of_the_kernel_itself_are_named() {
    let mounts = Mounts::parse(MACHINE);
    let swaps = "Filename Type Size Used Priority\n\
                 /data/swap\\040file file 1048576 0 -2\n\
                 /dev/sda3 partition 1048576 0 -3\n\
                 /swapfile file 1048576 0 -4\n";
    let loops = ["/data/images/a.iso\n", "/home/b.img\n"].map(str::to_owned);
    let found = kernels(&mounts, &["/data".to_owned()], swaps, loops.into_iter());
    let found: Vec<_> = found
        .iter()
        .map(|u| (u.command.as_str(), u.user.as_str(), u.pid))
        .collect();
    assert_eq!(
        found,
        [
            ("/data/swap file", "swap", 0),
            ("/data/images/a.iso", "loop", 0)
        ]
    );
}

#[test]
fn programs_of_other_users_are_named_to_root_only() {
    let user = |pid, uid: u32, command: &str| FileUser {
        pid,
        command: command.into(),
        uid,
        user: uid.to_string(),
    };
    let all = vec![
        user(1, 0, "a"),
        user(2, 1000, "b"),
        user(3, 7, "c"),
        user(0, 0, "x.service"),
    ];
    assert_eq!(visible_to(Some(0), all.clone()), all);
    let seen = |uid| -> Vec<_> {
        let seen = visible_to(uid, all.clone()).into_iter();
        seen.map(|u| (u.pid, u.command)).collect()
    };
    let (other, unit) = ((0, String::new()), (0, "x.service".to_owned()));
    assert_eq!(
        seen(Some(1000)),
        [other.clone(), unit.clone(), (2, "b".to_owned())]
    );
    assert_eq!(seen(None), [other, unit]);
}

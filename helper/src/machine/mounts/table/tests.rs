// SPDX-License-Identifier: GPL-3.0-or-later
//! Tables of mounts as the kernel and fstab write them.

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
const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nanna:x:1000:1000::/home/anna:/bin/sh\n";

fn mounts() -> Mounts {
    let number = |node: &str| {
        let number = match node {
            "/dev/disk/by-uuid/ab" => "8:17",
            "/dev/sdd1" => "8:49",
            "/dev/disk/by-label/other" => "9:9",
            "/dev/disk/by-label/My\\x20Disk" => "8:1",
            _ => return None,
        };
        Some(number.to_owned())
    };
    let mut table = libmount::parse(TABLE).unwrap();
    table[1].user_options = "uhelper=udisks2".to_owned();
    Mounts::of_tables(table, &libmount::parse(FSTAB).unwrap(), PASSWD, &number)
}

#[test]
fn only_a_btrfs_belongs_to_the_device_that_its_source_names() {
    let table = "50 22 0:60 / /home/eve/x rw - fuse./home/eve/run /dev/sda1 rw,user_id=1001\n\
                 51 22 0:61 / /home/eve/y rw - fuse.btrfs /dev/sda1 rw,user_id=1001\n\
                 52 22 0:62 / /srv rw - btrfs /dev/sda1 rw\n";
    let number = |_: &str| None;
    let mounts = Mounts::of_tables(libmount::parse(table).unwrap(), &[], "", &number);
    let nodes = [Some("/dev/sda1".to_owned())];
    let points: Vec<_> = mounts.of("8:1", &nodes).map(|m| &m.point).collect();
    assert_eq!(points, ["/srv"]);
}

#[test]
fn a_read_only_mount_of_a_file_system_that_others_can_write_counts_as_writable() {
    let table = "22 1 253:0 / / ro shared:1 - ext4 /dev/dm-0 SYSTEM\n\
                 23 22 0:62 / /srv ro - btrfs /dev/mapper/b SYSTEM\n";
    let number = |node: &str| (node == "/dev/mapper/b").then(|| "253:9".to_owned());
    for (system, uses) in [
        ("ro", Uses::Read),
        ("rw", Uses::Written),
        ("errors=remount-ro", Uses::Written),
    ] {
        let mounts = Mounts::parse(&table.replace("SYSTEM", system));
        for device in ["253:0", "253:9"] {
            assert_eq!(mounts.uses_by(device, &number), uses, "{system}");
        }
        assert_eq!(mounts.uses_by("253:1", &number), Uses::Unseen);
    }
}

/// A file system of the user may never answer, so the service must not even look at such a path.
#[test]
fn the_source_of_a_mount_on_a_point_of_fstab_is_not_looked_at_if_a_user_chose_it() {
    let table = "50 22 0:60 / /srv/data rw - fuse.x /home/eve/hung/disk rw,user_id=1001\n\
                 51 22 0:61 / /srv/data rw - btrfs /home/eve/hung/disk rw\n";
    let number = |node: &str| {
        assert!(node.starts_with("/dev/"), "{node} was looked at");
        Some("8:17".to_owned())
    };
    let fstab = libmount::parse(FSTAB).unwrap();
    let mounts = Mounts::of_tables(libmount::parse(table).unwrap(), &fstab, PASSWD, &number);
    assert!(mounts.0.iter().all(|e| e.mount.mounter == Mounter::Other));
}

#[test]
fn an_automount_is_there_from_the_start_whatever_noauto_says() {
    let fstab = "UUID=a /a ext4 noauto 0 2\nUUID=b /b ext4 noauto,x-systemd.automount 0 2\n";
    let entries = libmount::parse(fstab).unwrap();
    let early: Vec<_> = entries.iter().map(at_start).collect();
    assert_eq!(early, [false, true]);
}

#[test]
fn a_label_with_a_blank_leads_to_its_disk() {
    let fstab = "LABEL=My\\040Disk /media/anna/My\\040Disk ext4 defaults 0 2\n";
    let fstab = libmount::parse(fstab).unwrap();
    let nodes: Vec<_> = all_entries(&fstab, "").map(|(node, _)| node).collect();
    assert_eq!(nodes, ["/dev/disk/by-label/My\\x20Disk"]);
    let number = |node: &str| (node == nodes[0]).then(|| "8:1".to_owned());
    let mounts = Mounts::of_tables(libmount::parse(TABLE).unwrap(), &fstab, "", &number);
    let mount = mounts.of("8:1", &[]).next().unwrap();
    assert_eq!(mount.mounter, Mounter::Fstab("LABEL=My Disk".to_owned()));
}

#[test]
fn the_program_that_mounted_is_found() {
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
fn a_point_where_systemd_waits_to_mount_is_free() {
    let table = "50 22 0:60 / /srv/late rw - autofs systemd-1 rw,fd=1\n\
                 51 22 8:1 / /srv/taken rw - ext4 /dev/sda1 rw\n";
    let mounts = Mounts::parse(table);
    assert!(!mounts.covered("/srv/late") && mounts.covered("/srv/taken"));
}

#[test]
fn what_the_start_uses_is_known() {
    let fstab = "# UUID=no /no ext4 defaults 0 0\n\
                 UUID=a / ext4 errors=remount-ro 0 1\n\
                 UUID=b /late ext4 noauto,nofail 0 2\n\
                 /dev/sdx1\t/x\text4\n";
    let crypttab = "home UUID=c none luks\nlater UUID=d none luks,noauto\n\n";
    let fstab = libmount::parse(fstab).unwrap();
    let found: Vec<_> = all_entries(&fstab, crypttab)
        .map(|(node, entry)| (node, entry.target, entry.at_start))
        .collect();
    let entry = |node: &str, target: &str, at_start| (node.to_owned(), target.to_owned(), at_start);
    let by_uuid = |uuid: &str| format!("/dev/disk/by-uuid/{uuid}");
    let expected = [
        entry(&by_uuid("a"), "/", true),
        entry(&by_uuid("b"), "/late", false),
        entry("/dev/sdx1", "/x", true),
        entry(&by_uuid("c"), "home", true),
        entry(&by_uuid("d"), "later", false),
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_an_initial_file_system_uses_is_known_whatever_noauto_says() {
    let fstab = "UUID=a /a ext4 noauto,x-initrd.mount 0 2\nUUID=b /b ext4 noauto 0 2\n";
    let crypttab = "c UUID=c none luks,noauto,initramfs\nd UUID=d none x-initrd.attach\ne UUID=e none luks,noauto\n";
    let fstab = libmount::parse(fstab).unwrap();
    let found: Vec<_> = all_entries(&fstab, crypttab)
        .map(|(_, entry)| (entry.target, entry.at_start, entry.early))
        .collect();
    let entry = |target: &str, early| (target.to_owned(), early, early);
    let expected = [
        entry("/a", true),
        entry("/b", false),
        entry("c", true),
        entry("d", true),
        entry("e", false),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_device_is_awaited_until_its_link_is_there_and_udev_has_handled_it() {
    let disk = || Some("8:1".to_owned());
    assert!(is_awaited("/nowhere/by-uuid/a", None, |_| true));
    assert!(is_awaited("/", disk(), |_| false));
    assert!(!is_awaited("/", disk(), |number| number == "8:1"));
    // An image below /dev is no device.
    assert!(!is_awaited("/", None, |_| false));
}

#[test]
fn the_early_start_does_not_wait_for_the_network() {
    let fstab = "/dev/sdx1 /a ext4 defaults 0 2\n\
                 /dev/sdx2 /b ext4 _netdev,nofail 0 2\n";
    let mut fstab = libmount::parse(fstab).unwrap();
    let crypttab = "one /dev/sdx3 none luks,_netdev\ntwo /dev/sdx4 none luks\n";
    let crypttab = without_network(&mut fstab, crypttab);
    let found: Vec<_> = all_entries(&fstab, &crypttab)
        .map(|(node, _)| node)
        .collect();
    assert_eq!(found, ["/dev/sdx1", "/dev/sdx4"]);
}

#[test]
fn only_sources_below_dev_are_looked_at() {
    let fstab = "/srv/image.iso /iso iso9660 loop 0 0\n\
                 /dev/../home/eve/fuse/x /x ext4 defaults 0 0\n\
                 /dev/sdx1 /y ext4 defaults 0 0\n";
    let fstab = libmount::parse(fstab).unwrap();
    let crypttab = "one /home/eve/fuse/file none luks\ntwo /dev/sdx2 none luks\n";
    let found: Vec<_> = all_entries(&fstab, crypttab)
        .map(|(node, _)| node)
        .collect();
    assert_eq!(found, ["/dev/sdx1", "/dev/sdx2"]);
}

#[test]
fn what_lies_below_is_found() {
    let all = mounts();
    let sdb: Vec<_> = all.of("8:17", &[]).cloned().collect();
    assert_eq!(all.below(&sdb), ["/srv/data/inner"]);
    let sda: Vec<_> = all.of("8:1", &[]).cloned().collect();
    assert!(all.below(&sda).is_empty());
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The disk holds the bytes that the mapped device showed, and works alone when its SSD is gone.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::scene::Scene;
use tandem_guest::guest::{LONG, MOUNT_POINT, SHORT};
use tandem_harness::layer::Run;

/// Script that writes through the cache in every way that ext4 has; the file system is consistent at its end.
const CHANGES: &str = "cd '/home/anna/Archive/1024 KiB' && for n in 1 2 3 4 5 6; do \
    dd if=/dev/urandom of=00$n.bin bs=3k seek=$n count=$((n * 7)) conv=notrunc status=none; \
    dd if=/dev/urandom of=direct.bin bs=4k seek=$((n * 3)) count=5 oflag=direct conv=notrunc status=none; done; \
    truncate -s 300000 007.bin; fallocate --punch-hole --offset 8192 --length 65536 008.bin; \
    dd if=/dev/zero of=zero.bin bs=1M count=4 status=none; rm 009.bin; sync; fstrim /home/anna/Archive || true";

type Test = fn(&mut Scene, &Run) -> Result<()>;

/// The layer's tests. Each test starts from the machine in the state that the test before it has left.
pub const CASES: [(&str, Test); 4] = [
    // promise 28: vm-bytes/the partition is byte for byte what the mapped device showed
    (
        "the partition is byte for byte what the mapped device showed",
        removal,
    ),
    (
        "what users have on the disk does not name the partition or the volume of the SSD",
        foreign_signature,
    ),
    // promise 17: vm-bytes/a pulled SSD takes no file along, and the cache can be removed
    (
        "a pulled SSD takes no file along, and the cache can be removed",
        lost,
    ),
    (
        "a pulled SSD that comes back worn out leaves the disk as it is",
        worn,
    ),
];

/// Runs the layer. For one case it also runs the tests before that case.
pub fn run(run: &mut Run) -> Result<()> {
    let mut scene = Scene::new(run)?;
    for (name, test) in CASES {
        let result = test(&mut scene, run);
        run.check(name, result);
        if run.is_done() {
            break;
        }
    }
    Ok(())
}

fn removal(scene: &mut Scene, run: &Run) -> Result<()> {
    scene.create()?;
    scene.vm.checksums()?;
    scene.vm.agent.sh(CHANGES, SHORT)?;
    let files = scene.vm.checksums()?;
    ensure!(files != scene.files, "nothing was changed");
    scene.files = files;
    scene.vm.agent.sh(&format!("umount {MOUNT_POINT}"), SHORT)?;
    let mapped = scene
        .vm
        .agent
        .sh("cat /dev/mapper/tandem-* | cksum", LONG)?;
    scene.remove()?;
    scene.vm.drop_page_cache()?;
    let plain = scene
        .vm
        .agent
        .sh(&format!("cat /dev/{} | cksum", scene.disk), LONG)?;
    run.note(&format!("mapped {mapped}plain  {plain}"));
    ensure!(mapped == plain, "mapped device {mapped}, partition {plain}");
    scene
        .vm
        .agent
        .sh(&format!("e2fsck -fn /dev/{}", scene.disk), LONG)?;
    scene.vm.mount()?;
    ensure!(
        scene.vm.checksums()? == scene.files,
        "the files have changed"
    );
    Ok(())
}

/// The superblock of an array, in the slots at the end of a partition, as far as blkid looks at it. `$part`: the partition.
const SIGNATURE: &str = r#"at=$(( ($(blockdev --getsize64 $part) & ~65535) - 65536 ))
printf '\374\116\053\251\0\0\0\0\132\0\0\0' | dd of=$part bs=1 seek=$at conv=notrunc,fsync status=none
blkid -p $part | grep -q linux_raid_member || { echo "blkid does not know the signature"; exit 1; }
udevadm trigger --settle --action=change $part
udevadm info --query=property $part"#;

fn foreign_signature(scene: &mut Scene, run: &Run) -> Result<()> {
    let (disk, ssd) = (scene.disk.clone(), format!("/dev/{}", scene.ssd));
    let shared = format!(
        "printf 'label: gpt\\n,30M\\n' | sfdisk --quiet {ssd}; udevadm settle; mkfs.ext4 -q {ssd}1; udevadm settle; \
         tandemctl create --yes --erase-ssd --partition 64MiB {disk} {ssd}"
    );
    run.note(&scene.vm.agent.sh(&shared, LONG)?);
    let told = scene
        .vm
        .agent
        .sh(&format!("part={ssd}2\n{SIGNATURE}"), SHORT)?;
    let says = |line: &str| told.lines().any(|told| told.starts_with(line));
    ensure!(
        says("ID_FS_TYPE=tandem") && says("ID_PART_ENTRY_UUID=") && !says("ID_FS_UUID="),
        "udev says {told}"
    );
    scene.remove()?;
    let volume = format!(
        "wipefs --all --quiet {ssd}1 {ssd}; udevadm settle
         pvcreate -q -y {ssd} && vgcreate -q fast {ssd} && lvcreate -q -y -n cache -l 90%PVS fast; udevadm settle
         tandemctl create --yes --erase-ssd {disk} /dev/fast/cache"
    );
    run.note(&scene.vm.agent.sh(&volume, LONG)?);
    let told = format!("part=/dev/fast/cache\n{SIGNATURE}");
    let told = scene.vm.agent.sh(&told, SHORT)?;
    ensure!(
        !told.contains("ID_FS_") && told.contains("/dev/disk/by-id/dm-uuid-LVM-"),
        "udev says {told}"
    );
    scene.remove()?;
    // The volume is one for anything again.
    let freed = "mkfs.ext4 -q /dev/fast/cache && udevadm settle && udevadm info --query=property /dev/fast/cache";
    let told = scene.vm.agent.sh(freed, SHORT)?;
    ensure!(told.contains("ID_FS_TYPE=ext4"), "udev says {told}");
    let empty = format!("vgremove -q -f -y fast; wipefs --all --quiet {ssd}; udevadm settle");
    scene.vm.agent.sh(&empty, SHORT)?;
    same_files(scene)
}

/// Removes the cache; the plain disk must have every file unchanged.
fn removed(scene: &mut Scene) -> Result<()> {
    scene.remove()?;
    same_files(scene)
}

fn same_files(scene: &mut Scene) -> Result<()> {
    scene.vm.drop_page_cache()?;
    ensure!(
        scene.vm.checksums()? == scene.files,
        "the files have changed"
    );
    Ok(())
}

fn lost(scene: &mut Scene, run: &Run) -> Result<()> {
    scene.create()?;
    scene.vm.drop_page_cache()?;
    scene.vm.checksums()?;
    scene.vm.unplug(&scene.pair.ssd)?;
    let gone = format!(
        "for _ in $(seq 100); do [ -e /sys/block/{} ] || exit 0; sleep 0.1; done; exit 1",
        scene.ssd
    );
    scene.vm.agent.sh(&gone, Duration::from_secs(30))?;
    same_files(scene)?;
    scene.vm.agent.sh(CHANGES, SHORT)?;
    scene.files = scene.vm.checksums()?;
    let status = scene
        .vm
        .agent
        .sh("dmsetup status --target tandem; tandemctl status", SHORT)?;
    run.note(&status);
    ensure!(
        status.contains("bypass"),
        "the state does not say that the SSD is gone: {status}"
    );
    removed(scene)?;
    let mounted = scene.vm.agent.sh(
        &format!("findmnt --noheadings --output SOURCE {MOUNT_POINT}"),
        SHORT,
    )?;
    ensure!(
        mounted.trim() == format!("/dev/{}", scene.disk),
        "the plain disk is not mounted: {mounted}"
    );
    Ok(())
}

/// The kernel takes the table with the SSD that is back, cannot start it, and has forgotten the old one by then.
fn worn(scene: &mut Scene, run: &Run) -> Result<()> {
    scene.vm.plug_again(&scene.pair.ssd)?;
    scene.ssd = scene.vm.device(scene.pair.ssd.serial)?;
    scene.create()?;
    scene.vm.unplug(&scene.pair.ssd)?;
    scene.vm.drop_page_cache()?;
    scene.vm.agent.sh(CHANGES, SHORT)?;
    scene.files = scene.vm.checksums()?;
    scene.vm.plug_worn(&scene.pair.ssd)?;
    let tried = "for _ in $(seq 300); do journalctl -b -o cat -u tandem | grep -q 'cannot assemble' && exit 0; sleep 0.2; done; \
        journalctl -b -o short-monotonic | tail -40; dmsetup info; exit 1";
    scene.vm.agent.sh(tried, LONG)?;
    same_files(scene)?;
    scene.vm.agent.sh(CHANGES, SHORT)?;
    scene.files = scene.vm.checksums()?;
    let told = scene
        .vm
        .agent
        .sh("dmsetup table; dmsetup info; tandemctl status", SHORT)?;
    run.note(&told);
    removed(scene)?;
    scene.vm.agent.sh(
        &format!(
            "umount {MOUNT_POINT} && e2fsck -fn /dev/{disk}",
            disk = scene.disk
        ),
        LONG,
    )?;
    Ok(())
}

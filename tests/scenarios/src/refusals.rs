// SPDX-License-Identifier: GPL-3.0-or-later
//! Requests that must be refused: the answer says so, and nothing has changed.

use anyhow::{Result, ensure};

use super::scene::Scene;
use tandem_guest::guest::{MOUNT_POINT, SHORT};
use tandem_harness::layer::Run;

/// The refusals: the reason, the exit code of `tandemctl`, and the request.
const REFUSALS: &[(&str, i32, &str)] = &[
    ("the same device twice", 3, "tandemctl plan DISK DISK"),
    (
        "the disk of the running system",
        3,
        "tandemctl plan vda SSD",
    ),
    ("a mounted SSD", 3, "tandemctl plan --erase-ssd SSD DISK"),
    ("a disk with partitions", 3, "tandemctl plan WHOLE SSD"),
    (
        "an SSD that holds data, without a word about erasing",
        3,
        "mke2fs -q -F /dev/SSD && udevadm settle && tandemctl plan DISK SSD",
    ),
    (
        "an SSD with unknown content",
        3,
        "wipefs -qa /dev/SSD; dd if=/dev/urandom of=/dev/SSD bs=1M count=4 status=none; udevadm settle; tandemctl plan DISK SSD",
    ),
    (
        "a swap partition",
        3,
        "wipefs -qa /dev/SSD; mkswap -q /dev/SSD; udevadm settle; tandemctl plan SSD WHOLE",
    ),
    (
        "a disk that fstab names as a device, although no program has it mounted",
        3,
        "blkdiscard --zeroout /dev/SSD; udevadm settle; umount MOUNT_POINT && cp /etc/fstab /run/fstab && \
         sed -i 's|^[^#]\\S* MOUNT_POINT |/dev/DISK MOUNT_POINT |' /etc/fstab && ! cmp -s /run/fstab /etc/fstab && \
         { told=$(tandemctl plan DISK SSD 2>&1); code=$?; cp /run/fstab /etc/fstab; mount MOUNT_POINT && \
         echo \"$told\" | grep 'mounts MOUNT_POINT as' && exit $code; }",
    ),
    (
        "an SSD that the next start mounts",
        3,
        "mke2fs -q -F /dev/SSD && udevadm settle && cp /etc/fstab /run/fstab && \
         echo /dev/SSD /srv ext4 defaults 0 2 >>/etc/fstab && \
         { told=$(tandemctl plan --erase-ssd DISK SSD 2>&1); code=$?; cp /run/fstab /etc/fstab; \
         echo \"$told\" | grep 'next start of this computer uses' && exit $code; }",
    ),
    (
        "a user who may not",
        4,
        "blkdiscard --zeroout /dev/SSD; udevadm settle; runuser -u nobody -- tandemctl create --yes DISK SSD",
    ),
    (
        "a disk that is in use",
        3,
        "cd /home/anna/Archive; tandemctl create --yes DISK SSD",
    ),
];

/// As [`REFUSALS`], and run last because neither change can be taken back. With Secure Boot, lockdown makes the kernel
/// enforce signatures.
const BY_THE_KERNEL: &[(&str, &str)] = &[
    (
        "a module without a signature where the kernel wants one",
        "echo 1 >/sys/module/module/parameters/sig_enforce",
    ),
    (
        "a module with a signature that the kernel does not trust, under lockdown",
        "echo integrity >/sys/kernel/security/lockdown; \
         printf '~Module signature appended~\\n' >>/lib/modules/$(uname -r)/updates/dm-tandem.ko",
    ),
];

/// Runs the layer.
pub fn run(run: &mut Run) -> Result<()> {
    let mut scene = Scene::new(run)?;
    for (what, code, line) in REFUSALS {
        if !run.wants(what) {
            continue;
        }
        let whole = scene.disk.trim_end_matches('1').to_owned();
        let line = line
            .replace("DISK", &scene.disk)
            .replace("SSD", &scene.ssd)
            .replace("WHOLE", &whole)
            .replace("MOUNT_POINT", MOUNT_POINT);
        let result = refused(&mut scene, run, &line, *code).map(drop);
        run.check(what, result);
    }
    for (what, change) in BY_THE_KERNEL {
        if !run.wants(what) {
            continue;
        }
        let result = module_refused(&mut scene, run, change);
        run.check(what, result);
    }
    Ok(())
}

/// The answer must name Secure Boot, the SSD must be as empty as before, and the kernel must be the one to refuse the
/// module.
fn module_refused(scene: &mut Scene, run: &Run, change: &str) -> Result<()> {
    scene.vm.agent.sh(change, SHORT)?;
    let line = format!("tandemctl create --yes {} {}", scene.disk, scene.ssd);
    let told = refused(scene, run, &line, 3)?;
    ensure!(
        told.contains("Secure Boot is on"),
        "that is not the reason: {told}"
    );
    let empty = format!("cmp --bytes=16M /dev/{} /dev/zero", scene.ssd);
    scene.vm.agent.sh(&empty, SHORT)?;
    let loaded = scene.vm.agent.run("modprobe dm_tandem", SHORT, |_| ())?;
    run.note(&format!("modprobe: {}", loaded.text));
    ensure!(loaded.code != 0, "the kernel takes the module");
    Ok(())
}

/// Sends the request and returns the answer.
fn refused(scene: &mut Scene, run: &Run, line: &str, code: i32) -> Result<String> {
    let ended = scene.vm.agent.run(line, SHORT, |_| ())?;
    run.note(&format!("{line}: {}\n{}", ended.code, ended.text));
    ensure!(
        ended.code == code,
        "exit code {} instead of {code}: {}",
        ended.code,
        ended.text
    );
    let table = scene.vm.agent.sh("dmsetup table", SHORT)?;
    ensure!(!table.contains("tandem"), "there is a mapping: {table}");
    let mounted = scene.vm.agent.sh(
        &format!("findmnt --noheadings --output SOURCE {MOUNT_POINT}"),
        SHORT,
    )?;
    ensure!(
        mounted.trim() == format!("/dev/{}", scene.disk),
        "the disk is not mounted as before: {mounted}"
    );
    ensure!(
        scene.vm.checksums()? == scene.files,
        "the files have changed"
    );
    Ok(ended.text)
}

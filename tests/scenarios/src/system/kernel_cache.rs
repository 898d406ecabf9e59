// SPDX-License-Identifier: GPL-3.0-or-later
//! The running system and a folder in use on dm-cache, on a machine that has no module of ours: from the initial file system
//! to the end of the shutdown.

use std::mem;

use anyhow::{Result, ensure};

use super::generator::{DRACUT, INITRAMFS_TOOLS};
use super::names::GRUB_BLOCK;
use super::{Desk, IN_USE, Test, run_with};
use crate::kernel_cache::{WITHOUT_MODULE, is_warm};
use tandem_guest::disks;
use tandem_guest::guest::MOUNT_POINT;
use tandem_harness::layer::Run;

/// Script that prints how many blocks of the running system's cache hold copies.
const USED: &str = "set -- $(dmsetup status --target cache $(findmnt --noheadings --output SOURCE /)); echo ${7%/*}";
/// What the initial file system says of a cache that is not warm.
const COLD: &str = "the cache begins empty";

/// The test that needs a running system that is read-only at the end of a shutdown.
const WARM: &str = "after each shutdown the system starts warm, and shows what GRUB wrote";

/// The layer's tests. Each test starts from the disks in the state that the test before it has left.
const CASES: [(&str, Test); 7] = [
    (
        "without the module, the system and a folder in use get dm-cache at the next start",
        Desk::dm_cache,
    ),
    (WARM, Desk::warm),
    // promise 19: vm-kernel-system/after a power cut it starts cold
    ("after a power cut it starts cold", Desk::power_cut),
    (
        "without its SSD the system starts from the plain disk, and then cold",
        Desk::ssd_away,
    ),
    // promise 21: vm-kernel-system/an old initial file system starts the plain disk, and the cache then starts cold
    (
        "an old initial file system starts the plain disk, and the cache then starts cold",
        Desk::changed_without_cache,
    ),
    (
        "a kernel without dm-cache starts the plain disk",
        Desk::without_dm_cache,
    ),
    (
        "the cache of the running system is removed under it",
        Desk::removed,
    ),
];

/// Runs the layer with the initial file systems that Debian installs.
pub fn run(run: &mut Run) -> Result<()> {
    run_with(run, &INITRAMFS_TOOLS, &CASES)
}

/// The same with initial file systems by dracut. With mdadm, as here, systemd goes back to an initial file system at the end of a
/// shutdown, and leaves the running system writable until then: its disk cannot be noted before, so each start is cold.
pub fn dracut(run: &mut Run) -> Result<()> {
    let cases: Vec<_> = CASES
        .into_iter()
        .filter(|(case, _)| *case != WARM)
        .collect();
    run_with(run, &DRACUT, &cases)
}

impl Desk {
    /// Starts the machine, which must put the cache over the running system's disk with what it had before, or with nothing.
    fn started(&mut self, run: &Run, root: &str, warm: bool) -> Result<()> {
        self.start(run, root, true)?;
        self.is_cached("/", true)?;
        let said = self.sh("dmesg | grep tandem: || true; dmsetup table")?;
        run.note(&said);
        ensure!(said.contains(COLD) != warm, "it started otherwise: {said}");
        ensure!(said.contains(" cache "), "another target serves: {said}");
        self.all_there()
    }

    /// Has dm-cache take the files, which it does when they were read several times.
    fn fill(&mut self) -> Result<String> {
        for _ in 0..4 {
            self.all_there()?;
        }
        self.sh(USED)
    }

    fn dm_cache(&mut self, run: &Run) -> Result<()> {
        self.sh(&format!("{WITHOUT_MODULE}{IN_USE}"))?;
        self.save("before-the-cache")?;
        for pair in [
            [self.folder.origin.serial, self.folder.ssd.serial],
            [self.system.origin.serial, self.system.ssd.serial],
        ] {
            self.prepare_by("--kernel-cache", pair[0], pair[1])?;
        }
        for point in ["/", MOUNT_POINT] {
            self.is_cached(point, false)?;
        }
        let left = self.sh("dmsetup ls | grep -e tandem -e TD || true; lsmod")?;
        ensure!(!left.contains("TDP"), "left after the set-up: {left}");
        ensure!(left.contains("dm_cache_smq"), "it was not tried: {left}");
        run.note(&self.sh(self.generator.order)?);
        let list = self.sh(self.generator.list)?;
        for (file, there) in [("dm-cache-smq.ko", true), ("dm-tandem.ko", false)] {
            ensure!(list.contains(file) == there, "{file}: {list}");
        }
        // The disk is written after its SSD was prepared.
        self.save("before-the-start")?;
        self.power_off(run)?;
        let root = format!("root=UUID={}", self.uuid()?);
        self.started(run, &root, false)?;
        self.is_cached(MOUNT_POINT, true)?;
        self.save("through-the-cache")?;
        self.all_there()
    }

    fn warm(&mut self, run: &Run) -> Result<()> {
        self.fill()?;
        self.sh("mkdir -p /boot/grub")?;
        self.has_grub_block()?;
        let before = self.sh(USED)?;
        self.power_off(run)?;
        disks::change_in_block(&self.system.origin, GRUB_BLOCK, "before", "behind")?;
        self.started(run, "root=LABEL=guest", true)?;
        self.shows_grub_block()?;
        is_warm(run, &before, &self.sh(USED)?)?;
        self.save("through-the-warm-cache")?;
        let before = self.fill()?;
        self.power_off(run)?;
        self.started(run, "root=LABEL=guest", true)?;
        is_warm(run, &before, &self.sh(USED)?)
    }

    fn power_cut(&mut self, run: &Run) -> Result<()> {
        self.fill()?;
        self.vm = None;
        self.started(run, "root=LABEL=guest", false)
    }

    fn ssd_away(&mut self, run: &Run) -> Result<()> {
        self.fill()?;
        self.power_off(run)?;
        self.start(run, "root=LABEL=guest", false)?;
        self.is_cached("/", false)?;
        self.save("through-the-cache")?;
        self.all_there()?;
        self.power_off(run)?;
        self.started(run, "root=LABEL=guest", false)
    }

    fn changed_without_cache(&mut self, run: &Run) -> Result<()> {
        self.fill()?;
        self.power_off(run)?;
        let new = mem::replace(&mut self.initrd, self.old.clone());
        self.start(run, "root=LABEL=guest", true)?;
        self.is_cached("/", false)?;
        self.save("through-the-cache")?;
        // Switched off without warning: nothing but the disk tells the next start that it was used.
        self.sh("sync")?;
        self.vm = None;
        self.initrd = new;
        self.started(run, "root=LABEL=guest", false)
    }

    fn without_dm_cache(&mut self, run: &Run) -> Result<()> {
        let module = "$(find /lib/modules/$(uname -r) -name 'dm-cache.ko*' | sed 's/.away$//')";
        self.starts_without(module, run)?;
        self.started(run, "root=LABEL=guest", false)
    }
}

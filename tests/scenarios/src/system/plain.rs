// SPDX-License-Identifier: GPL-3.0-or-later
//! Starts from the plain disk: something is missing or damaged that a start through the cache needs.

use std::mem;

use anyhow::{Result, ensure};

use super::Desk;
use tandem_guest::disks;
use tandem_guest::guest::MOUNT_POINT;
use tandem_harness::layer::Run;

impl Desk {
    /// The machine loses power, and its SSD with it. A file that the SSD has is changed on the plain disk. The picture
    /// of the start says why the start takes longer. This is a start of all of Debian; the others start little more than the
    /// project.
    pub(super) fn without_ssd(&mut self, run: &Run) -> Result<()> {
        self.vm = None;
        let small = mem::take(&mut self.parts.append);
        self.start(run, "root=LABEL=guest splash plymouth.debug", false)?;
        self.parts.append = small;
        self.is_cached("/", false)?;
        let shown =
            self.sh("grep -aoh 'displaying message.*' /var/log/plymouth-debug.log | sort -u")?;
        run.note(&shown);
        let ssd = self.system.ssd.serial;
        for words in [
            "Waiting for the SSD ",
            " is used without its SSD cache",
            ssd,
        ] {
            ensure!(
                shown.contains(words),
                "the picture of the start does not say “{words}”: {shown}"
            );
        }
        self.is_cached(MOUNT_POINT, true)?;
        self.save("through-the-cache")?;
        self.all_there()?;
        self.power_off(run)
    }

    pub(super) fn old_initrd(&mut self, run: &Run) -> Result<()> {
        let new = mem::replace(&mut self.initrd, self.old.clone());
        self.start(run, "root=LABEL=guest", true)?;
        self.is_cached("/", false)?;
        self.save("through-the-cache")?;
        self.all_there()?;
        // Switched off without warning: nothing but the SSD tells the next start what it is worth.
        self.sh("sync")?;
        self.vm = None;
        self.initrd = new;
        self.start(run, "root=LABEL=guest", true)?;
        self.is_cached("/", true)?;
        self.all_there()?;
        self.power_off(run)
    }

    pub(super) fn without_module(&mut self, run: &Run) -> Result<()> {
        self.start(run, "root=LABEL=guest", true)?;
        self.is_cached("/", true)?;
        self.starts_without("/lib/modules/$(uname -r)/updates/dm-tandem.ko", run)?;
        self.start(run, "root=LABEL=guest", true)?;
        self.is_cached("/", true)?;
        self.all_there()?;
        self.power_off(run)
    }

    /// Starts once while this module of the kernel is away, and has it there again for the next start. The initial file
    /// systems are made anew for both. `module`: a path as the shell takes it, of the module or of where it was.
    pub(super) fn starts_without(&mut self, module: &str, run: &Run) -> Result<()> {
        let update = format!("depmod && {}", self.generator.update);
        let told = self.sh(&format!("mv {module} {module}.away && {update} 2>&1"))?;
        ensure!(told.contains("has no module"), "the tool says: {told}");
        self.power_off(run)?;
        self.start(run, "root=LABEL=guest", true)?;
        self.is_cached("/", false)?;
        self.save("through-the-cache")?;
        self.all_there()?;
        self.sh(&format!("mv {module}.away {module} && {update}"))?;
        self.power_off(run)
    }

    pub(super) fn damaged(&mut self, run: &Run) -> Result<()> {
        disks::damage_superblocks(&self.system.ssd.file)?;
        self.start(run, "root=LABEL=guest", true)?;
        self.is_cached("/", false)?;
        let listed = self.sh("tandemctl list")?;
        run.note(&listed);
        self.all_there()?;
        self.power_off(run)
    }
}

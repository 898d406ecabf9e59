// SPDX-License-Identifier: GPL-3.0-or-later
//! The machine hibernates and goes on, with a cache in write-back in use. The kernel that goes on knows nothing of what
//! happened after its memory was saved, so nothing may have written to the SSD since.

use anyhow::{Result, ensure};

use super::{BOOT, Desk};
use tandem_guest::disks;
use tandem_guest::guest::MOUNT_POINT;
use tandem_harness::layer::Run;
use tandem_harness::run;

/// UUID of the swap.
const SWAP: &str = "5ec0de0d-0003-4000-8000-7a0de5a10001";
/// Names this run of the kernel: a hibernated machine keeps the name, a restarted one gets another.
const LIFE: &str = "cat /proc/sys/kernel/random/boot_id";
/// Script that saves a file and leaves its data on the SSD; prints its checksum.
const SAVE: &str =
    "cd POINT && dd if=/dev/urandom of=NAME bs=64k count=128 conv=fsync status=none && cksum NAME";

impl Desk {
    /// Saves a file in the folder.
    fn save_in_folder(&mut self, name: &str) -> Result<String> {
        self.sh(&SAVE.replace("POINT", MOUNT_POINT).replace("NAME", name))
    }

    pub(super) fn hibernated(&mut self, run: &Run) -> Result<()> {
        let swap = disks::swap(&self.dir)?;
        self.vm()?.plug(&swap)?;
        let node = self.device(swap.serial)?;
        self.swap = Some(swap);
        self.sh(&format!("mkswap --quiet --uuid {SWAP} /dev/{node}"))?;
        self.sh("tandemctl mode --yes writeback")?;
        let life = self.sh(LIFE)?;
        let before = self.save_in_folder("before-sleep")?;
        // A write that is under way when everything freezes.
        self.sh(&format!(
            "cd {MOUNT_POINT} && systemd-run --quiet --unit=writer --property=WorkingDirectory={MOUNT_POINT} \
             sh -c 'while :; do dd if=/dev/zero of=busy bs=4k count=64 oflag=dsync status=none; done' && systemctl is-active writer"
        ))?;
        self.sh(&format!(
            "swapon /dev/{node} && cat /sys/block/{node}/dev >/sys/power/resume"
        ))?;
        if let Some(vm) = self.vm.take() {
            let console = vm.off_by("systemctl start --no-block systemd-hibernate.service")?;
            run.note(&run::tail(&console));
        }
        let root = format!("root=UUID={} resume=UUID={SWAP}", self.uuid()?);
        let mut vm = self.switched_on(run, &root, true)?;
        vm.up(BOOT)?;
        self.vm = Some(vm);
        let told =
            self.sh("dmesg | grep -i -E 'hibernat|tandem' | tail -20; tandemctl --json list")?;
        run.note(&told);
        let now = self.sh(LIFE)?;
        ensure!(now == life, "the machine was started anew: {told}");
        self.is_cached(MOUNT_POINT, true)?;
        self.sh("systemctl stop writer")?;
        let after = self.save_in_folder("after-sleep")?;
        self.all_there()?;
        self.sh(&format!(
            "swapoff /dev/{node}; tandemctl mode --yes writethrough; tandemctl flush"
        ))?;
        // The records on the SSD are true for another kernel as well.
        self.vm = None;
        self.start(run, &format!("root=UUID={}", self.uuid()?), true)?;
        self.is_cached(MOUNT_POINT, true)?;
        for (name, sum) in [("before-sleep", before), ("after-sleep", after)] {
            let found = self.sh(&format!("cd {MOUNT_POINT} && cksum {name}"))?;
            ensure!(found == sum, "{name} was {sum} and is {found}");
        }
        let node = self.device(disks::SWAP_SERIAL)?;
        self.sh(&format!(
            "wipefs --quiet --all /dev/{node}; rm -f {MOUNT_POINT}/*-sleep {MOUNT_POINT}/busy"
        ))?;
        self.all_there()
    }
}

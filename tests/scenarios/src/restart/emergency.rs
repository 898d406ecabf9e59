// SPDX-License-Identifier: GPL-3.0-or-later
//! A start in emergency mode, as a person begins it to repair a file system: nothing of systemd's usual start runs.

use anyhow::{Result, ensure};

use crate::kept::KeptMachine;
use tandem_guest::guest::SHORT;
use tandem_guest::vm::SMALL;
use tandem_harness::layer::Bench;

/// Word on the kernel's command line.
const EMERGENCY: &str = "systemd.unit=emergency.target";
/// Has the agent run beside the emergency shell.
const AGENT: &str = r#"
mkdir -p /etc/systemd/system/agent@.service.d /etc/systemd/system/emergency.target.wants
printf '[Unit]\nDefaultDependencies=no\n' >/etc/systemd/system/agent@.service.d/emergency.conf
ln -sf ../agent@.service /etc/systemd/system/emergency.target.wants/agent@agent0.service
ln -sf ../agent@.service /etc/systemd/system/emergency.target.wants/agent@agent1.service
sync"#;
/// Takes that back.
const NO_AGENT: &str =
    "rm -r /etc/systemd/system/agent@.service.d /etc/systemd/system/emergency.target.wants && sync";

impl KeptMachine {
    /// Data is on the SSD only. The tools of a repair must not get at the plain disk.
    pub(super) fn in_emergency(&mut self, bench: &Bench) -> Result<()> {
        let left = self.leave_dirty("before-emergency")?;
        self.sh(AGENT)?;
        self.power_off(bench)?;
        self.parts.append = EMERGENCY;
        let started = self.power_on(bench, true);
        self.parts.append = SMALL;
        started?;
        let serial = self.pair.origin.serial;
        let disk = self.vm()?.device(serial)?;
        let told = self.sh("systemctl is-active emergency.target; dmsetup table; lsblk --noheadings --output NAME,MOUNTPOINT")?;
        bench.note(&told);
        ensure!(told.starts_with("active"), "no emergency mode: {told}");
        for tried in ["mount /dev/DISK1 /mnt", "e2fsck -fy /dev/DISK1"] {
            let line = tried.replace("DISK", &disk);
            let ended = self.vm()?.agent.run(&line, SHORT, |_| ())?;
            bench.note(&format!("{line}: {}\n{}", ended.code, ended.text));
            ensure!(ended.code != 0, "{line} went well");
        }
        self.power_off(bench)?;
        self.power_on(bench, true)?;
        self.sh(NO_AGENT)?;
        self.assembled()?;
        self.still_dirty(bench, left)?;
        self.all_there()
    }
}

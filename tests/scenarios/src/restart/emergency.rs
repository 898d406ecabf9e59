// SPDX-License-Identifier: GPL-3.0-or-later
//! A start in emergency mode, as a person begins it to repair a file system: nothing of systemd's usual start runs.

use anyhow::{Result, bail, ensure};

use crate::kept::KeptMachine;
use tandem_guest::guest::SHORT;
use tandem_guest::vm::SMALL;
use tandem_harness::layer::Run;

/// Word on the kernel's command line.
const EMERGENCY: &str = "systemd.unit=emergency.target";
/// A script: the agent runs in emergency mode, and a program waits in the place of the shell, which asks for a person.
const AGENT: &str = r#"
cd /etc/systemd/system
mkdir -p agent@.service.d emergency.service.d emergency.target.wants
printf '[Service]\nExecStartPre=\nExecStart=\nExecStart=sleep 100000\nStandardInput=null\n' >emergency.service.d/open.conf
printf '[Unit]\nDefaultDependencies=no\n' >agent@.service.d/emergency.conf
ln -sf ../agent@.service emergency.target.wants/agent@agent0.service
ln -sf ../agent@.service emergency.target.wants/agent@agent1.service
sync"#;
/// Script that takes the agent away again.
const NO_AGENT: &str = "cd /etc/systemd/system && rm -r agent@.service.d emergency.service.d emergency.target.wants && sync";

impl KeptMachine {
    /// Data is on the SSD only. The tools of a repair must not get at the plain disk.
    pub(super) fn in_emergency(&mut self, run: &Run) -> Result<()> {
        let left = self.leave_dirty("before-emergency")?;
        self.sh(AGENT)?;
        self.power_off(run)?;
        self.parts.append = EMERGENCY;
        let started = self.power_on(run, true);
        self.parts.append = SMALL;
        started?;
        let serial = self.pair.origin.serial;
        let disk = self.vm()?.device(serial)?;
        // udev asks for this when it finds the SSD, and the start when it goes on without a cache.
        self.sh("systemctl start tandem-wake && ! systemctl list-jobs --no-legend | grep -F tandem.service")?;
        let told = self.sh("systemctl is-active emergency.target; dmsetup table; lsblk --noheadings --output NAME,MOUNTPOINT")?;
        run.note(&told);
        if !told.starts_with("active") {
            let why = self.sh("cat /proc/cmdline; journalctl -b --no-pager | grep -i emergency")?;
            bail!("no emergency mode: {told}\n{why}");
        }
        for tried in ["mount /dev/DISK1 /mnt", "e2fsck -fy /dev/DISK1"] {
            let line = tried.replace("DISK", &disk);
            let ended = self.vm()?.agent.run(&line, SHORT, |_| ())?;
            run.note(&format!("{line}: {}\n{}", ended.code, ended.text));
            ensure!(ended.code != 0, "{line} went well");
        }
        // The cache works there, and writes back at the disk's full speed.
        self.still_dirty(run, left)?;
        self.power_off(run)?;
        self.power_on(run, true)?;
        self.sh(NO_AGENT)?;
        self.assembled()?;
        self.all_there()
    }
}

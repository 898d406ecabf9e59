// SPDX-License-Identifier: GPL-3.0-or-later
//! A soft-reboot: all programs of the system end and start again, while the kernel and its mappings may live on.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::Desk;
use crate::kept::STARTED;
use tandem_guest::guest::{LONG, MOUNT_POINT};
use tandem_harness::layer::Run;

/// A script: the next start of systemd says on the console how many soft-reboots there were.
const TELLS: &str = r#"
printf '[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=sh -c "echo soft-reboots: $(systemctl show --value --property SoftRebootsCount) >/dev/ttyS0"\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/tells.service
systemctl daemon-reload
systemctl enable tells"#;

/// Data is on the SSD only, and the hard disk is slow, so that it is still there afterwards.
pub(super) fn keeps_the_cache(desk: &mut Desk, run: &Run) -> Result<()> {
    desk.leave_unwritten()?;
    let slowed = once(desk, run);
    let disk = desk.pair.origin.serial;
    desk.throttle(disk, 0)?;
    slowed?;
    desk.write_back()?;
    desk.same_files()
}

fn once(desk: &mut Desk, run: &Run) -> Result<()> {
    let sum = format!("cksum {MOUNT_POINT}/new");
    let saved = desk.sh(&sum)?;
    desk.sh(TELLS)?;
    desk.vm()?.agent.begin("systemctl soft-reboot")?;
    let mut patience = desk.vm()?.agent.patience(LONG);
    while !desk.vm()?.console().contains("soft-reboots: 1") {
        ensure!(!patience.is_over(), "the system does not come back");
        std::thread::sleep(Duration::from_millis(200));
    }
    // The script may have told its end before it was ended.
    let agent = &mut desk.vm()?.agent;
    if agent.is_answered(Duration::from_secs(1))? {
        agent.finish("systemctl soft-reboot", patience, |_| ())?;
    }
    run.note(&desk.sh(STARTED)?);
    desk.cached()?;
    desk.vm()?.drop_page_cache()?;
    let now = desk.sh(&sum)?;
    ensure!(now == saved, "the new file was {saved} and is {now}");
    desk.service_answers()
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! systemd kills the early part of a start while it waits for an SSD and holds the disk. The computer must come up without
//! the disk, as if the start had ended by itself.

use anyhow::Result;

use crate::kept::{BOOT, KeptMachine};
use tandem_guest::vm::Vm;
use tandem_harness::layer::Run;

/// A script: systemd ends the early part of the next starts after 15 s, of the 30 s that it waits for an SSD.
const LIMIT: &str = r#"
mkdir -p /etc/systemd/system/tandem-assemble.service.d
printf '[Service]\nTimeoutStartSec=15\n' >/etc/systemd/system/tandem-assemble.service.d/limit.conf
sync"#;
const NO_LIMIT: &str = "rm -r /etc/systemd/system/tandem-assemble.service.d; systemctl daemon-reload; systemctl reset-failed tandem-assemble";
/// Script that ends when the start is over. Nothing but its early part may have failed, which was killed with the disk held,
/// and the mount of the disk was left out.
const KILLED: &str = r#"
systemctl is-system-running --wait >/dev/null
until [ -z "$(systemctl list-jobs --no-legend)" ]; do sleep 0.2; done
of_mount() { systemctl show --value --property "$1" home-anna-Archive.mount; }
told="$(systemctl is-system-running) $(systemctl show --value --property Result tandem-assemble)"
failed=$(systemctl list-units --failed --no-legend --plain | cut -d' ' -f1)
echo "$told; failed: $failed; mount: $(of_mount ConditionResult) $(of_mount ConditionTimestamp)"
ls -A /run/systemd/system
if [ "$told $failed" = "degraded timeout tandem-assemble.service" ] && [ "$(of_mount ConditionResult)" = no ] && [ -n "$(of_mount ConditionTimestamp)" ]; then
	exit 0
fi
systemctl list-jobs; lsblk; dmsetup table --inactive; systemctl status home-anna-Archive.mount
journalctl -b --no-pager -o short-monotonic | tail -60
exit 1"#;

impl KeptMachine {
    /// Has systemd kill the early part of the next start.
    pub(crate) fn limit_start(&mut self) -> Result<()> {
        self.sh(LIMIT).map(drop)
    }

    /// Starts without the SSD, until the start is over.
    pub(crate) fn killed_without_ssd(&mut self, run: &Run) -> Result<()> {
        let mut vm = Vm::power_on(run.cx, &self.parts, &self.dir)?;
        vm.plug(&self.pair.origin)?;
        vm.up(BOOT)?;
        let told = vm.agent.sh(KILLED, BOOT)?;
        run.note(&told);
        self.vm = Some(vm);
        self.sh(NO_LIMIT).map(drop)
    }
}

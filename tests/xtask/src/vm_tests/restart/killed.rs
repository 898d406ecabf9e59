// SPDX-License-Identifier: GPL-3.0-or-later
//! systemd kills the early part of a start while it waits for an SSD and holds the disk. The computer must come up without
//! the disk, as if the start had ended by itself.

use anyhow::Result;

use crate::layer::Bench;
use crate::vm::Vm;
use crate::vm_tests::kept::{BOOT, KeptMachine};

/// Has systemd end the early part of the next starts after 15 s, of the 30 s that it waits for an SSD.
const LIMIT: &str = r#"
mkdir -p /etc/systemd/system/tandem-assemble.service.d
printf '[Service]\nTimeoutStartSec=15\n' >/etc/systemd/system/tandem-assemble.service.d/limit.conf
sync"#;
const NO_LIMIT: &str = "rm -r /etc/systemd/system/tandem-assemble.service.d; systemctl daemon-reload; systemctl reset-failed tandem-assemble";
/// Script that ends when the start is over. Nothing but its early part may have failed, which was killed with the disk held,
/// and the mount of the disk was left out.
const KILLED: &str = r#"
for _ in $(seq 1500); do
	[ "$(systemctl is-active multi-user.target)" = active ] && [ -z "$(systemctl list-jobs --no-legend)" ] && break
	sleep 0.2
done
result=$(systemctl show --value --property Result tandem-assemble)
failed=$(systemctl list-units --failed --no-legend --plain | cut -d' ' -f1)
condition=$(systemctl show --value --property ConditionResult home-anna-Archive.mount)
echo "$result; failed: $failed; condition: $condition"
ls -A /run/systemd/system
[ "$result" = timeout ] && [ "$failed" = tandem-assemble.service ] && [ "$condition" = no ] && exit 0
lsblk; dmsetup table --inactive; systemctl status home-anna-Archive.mount
journalctl -b --no-pager -o short-monotonic | tail -60
exit 1"#;

impl KeptMachine {
    /// Has systemd kill the early part of the next start.
    pub(super) fn limit_start(&mut self) -> Result<()> {
        self.sh(LIMIT).map(drop)
    }

    /// Starts without the SSD, until the start is over.
    pub(super) fn killed_without_ssd(&mut self, bench: &Bench) -> Result<()> {
        let mut vm = Vm::power_on(bench.cx, &self.parts, &self.dir)?;
        vm.plug(&self.pair.origin)?;
        vm.up(BOOT)?;
        let told = vm.agent.sh(KILLED, BOOT)?;
        bench.note(&told);
        self.vm = Some(vm);
        self.sh(NO_LIMIT).map(drop)
    }
}

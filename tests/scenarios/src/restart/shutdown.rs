// SPDX-License-Identifier: GPL-3.0-or-later
//! A shutdown writes everything back, because the user wants that. Then the disk is complete without its SSD.

use anyhow::{Result, ensure};

use crate::kept::KeptMachine;
use tandem_harness::layer::Run;

/// Script that ends when the cache is in write-back.
const WRITEBACK: &str = r#"
for _ in $(seq 300); do
	dmsetup status --target tandem | grep -q ' writeback ' && exit 0
	sleep 0.2
done
echo "write-back does not go on"; tandemctl list; journalctl -b --no-pager -o cat -u tandem | tail -40
exit 1"#;

impl KeptMachine {
    /// The next start is without the SSD, and the one after that with it.
    pub(crate) fn drained_before_off(&mut self, run: &Run) -> Result<()> {
        self.sh("tandemctl before-off 5")?;
        let dirty = self.leave_dirty("before-everything-was-written")?;
        self.throttle(0)?;
        run.note(&format!("{dirty} sectors are on the SSD only"));
        self.power_off(run)?;
        self.power_on(run, false)?;
        let source = self.source()?;
        ensure!(source.starts_with("/dev/sd"), "mounted from '{source}'");
        self.all_there()?;
        self.power_off(run)?;
        self.power_on(run, true)?;
        self.assembled()?;
        self.sh(WRITEBACK)?;
        self.all_there()?;
        self.sh("tandemctl before-off 0").map(drop)
    }
}

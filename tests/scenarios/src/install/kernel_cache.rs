// SPDX-License-Identifier: GPL-3.0-or-later
//! A machine that loads no module but its distribution's: dm-cache serves the cache, through the start and the shutdown of the
//! real system.

use anyhow::{Result, ensure};
use tandem_harness::layer::Run;

use super::{Desk, ENFORCE};
use crate::kernel_cache::{USED, is_warm};

/// Replaces the cache of the refused module, uses the new one over a restart, and goes back.
pub(super) fn serves(desk: &mut Desk, run: &Run) -> Result<()> {
    desk.write_back()?;
    desk.parts.append = ENFORCE;
    let served = in_force(desk, run);
    desk.parts.append = "";
    served?;
    desk.off_and_on(run)?;
    desk.set_up("")?;
    desk.cached()
}

fn in_force(desk: &mut Desk, run: &Run) -> Result<()> {
    desk.off_and_on(run)?;
    desk.sh("tandemctl remove --yes")?;
    desk.set_up("--kernel-cache")?;
    // dm-cache takes what was read once or twice.
    for _ in 0..3 {
        desk.same_files()?;
    }
    let before = desk.sh(USED)?;
    desk.off_and_on(run)?;
    is_warm(run, &before, &desk.sh(USED)?)?;
    let source = desk.source()?;
    ensure!(
        source.starts_with("/dev/mapper/tandem-"),
        "mounted from '{source}'"
    );
    desk.same_files()?;
    desk.sh("tandemctl status")?;
    desk.sh("tandemctl remove --yes").map(drop)
}

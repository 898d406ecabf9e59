// SPDX-License-Identifier: GPL-3.0-or-later
//! A machine that loads no module but its distribution's: dm-cache serves the cache, through the start and the shutdown of the
//! real system.

use anyhow::{Result, ensure};
use tandem_harness::layer::Run;

use super::{Desk, ENFORCE};

/// Blocks of 64 KiB that all files need at least.
const BLOCKS: u64 = 200;

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
    let before = blocks(desk)?;
    ensure!(before > BLOCKS, "{before} blocks hold copies");
    desk.off_and_on(run)?;
    let after = blocks(desk)?;
    run.note(&format!(
        "{before} blocks before the restart, {after} after"
    ));
    ensure!(
        after * 10 > before * 9,
        "{before} blocks, and {after} after the restart"
    );
    let source = desk.source()?;
    ensure!(
        source.starts_with("/dev/mapper/tandem-"),
        "mounted from '{source}'"
    );
    desk.same_files()?;
    desk.sh("tandemctl status")?;
    desk.sh("tandemctl remove --yes").map(drop)
}

/// Blocks of dm-cache that hold copies.
fn blocks(desk: &mut Desk) -> Result<u64> {
    let used = desk.sh("set -- $(dmsetup status --target cache); echo ${8%/*}")?;
    Ok(used.parse()?)
}

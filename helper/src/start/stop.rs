// SPDX-License-Identifier: GPL-3.0-or-later
//! Stops the cache of the root file system at the very end of a shutdown. The file system is never unmounted, so
//! nothing else stops that cache in order, and after a stop that is not in order it starts cold.

use crate::machine::dm::control::Control;
use crate::machine::mounts::table::{Mounts, Uses};
use std::path::Path;

/// Stops each cache of dm-tandem whose file systems are all read-only by now. The mappings of the others are gone, or are in use.
pub fn run() {
    let mounts = match Mounts::read() {
        Ok(mounts) => mounts,
        Err(e) => return tracing::error!("no cache is stopped: {e}"),
    };
    let stopped = Control::open().and_then(|control| control.stop(|number| uses(&mounts, number)));
    if let Err(e) = stopped {
        tracing::error!("no cache is stopped: {e}");
    }
}

/// How a mapping is used, by its number (`major:minor`). A mapping with another device above it counts as written to: a volume there
/// may have a file system of its own.
pub(super) fn uses(mounts: &Mounts, number: &str) -> Uses {
    let holders = Path::new("/sys/dev/block").join(number).join("holders");
    match std::fs::read_dir(holders).map(|mut above| above.next().is_none()) {
        Ok(true) => mounts.uses(number),
        _ => Uses::Written,
    }
}

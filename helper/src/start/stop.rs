// SPDX-License-Identifier: GPL-3.0-or-later
//! Stops the cache of the root file system at the very end of a shutdown. The file system is never unmounted, so
//! nothing else stops that cache in order, and after a stop that is not in order it starts cold.

use crate::machine::dm::control::Control;
use crate::machine::mounts::table::Mounts;
use std::path::Path;

/// Stops each cache of dm-tandem whose file systems are all read-only by now. The mappings of the others are gone, or are in use.
pub fn run() {
    let mounts = match Mounts::read() {
        Ok(mounts) => mounts,
        Err(e) => return tracing::error!("no cache is stopped: {e}"),
    };
    let unused = |number: &str, name: &str| gets_no_writes(&mounts, number, name);
    if let Err(e) = Control::open().and_then(|control| control.stop(unused)) {
        tracing::error!("no cache is stopped: {e}");
    }
}

/// Whether a mapping gets no more writes, by its number (`major:minor`) and its name.
pub(super) fn gets_no_writes(mounts: &Mounts, number: &str, name: &str) -> bool {
    // A volume above it may have a file system that is still written to.
    let holders = Path::new("/sys/dev/block").join(number).join("holders");
    let above = std::fs::read_dir(holders);
    if above.is_ok_and(|mut above| above.next().is_some()) {
        return false;
    }
    let nodes = [Some(format!("/dev/mapper/{name}"))];
    !mounts.is_writable(number, &nodes)
}

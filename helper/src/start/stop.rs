// SPDX-License-Identifier: GPL-3.0-or-later
//! Stops the cache of the root file system at the very end of a shutdown. The file system is never unmounted, so
//! nothing else stops that cache in order, and after a stop that is not in order it starts cold.

use crate::machine::dm::control::Control;
use crate::machine::mounts::table::Mounts;

/// Stops each cache whose file systems are all read-only by now. The mappings of the others are gone, or are in use.
pub fn run() {
    let mounts = match Mounts::read() {
        Ok(mounts) => mounts,
        Err(e) => return tracing::error!("no cache is stopped: {e}"),
    };
    let unused = |number: &str, name: &str| {
        // A volume above it may have a file system that is still written to.
        let above = std::fs::read_dir(format!("/sys/dev/block/{number}/holders"));
        if above.is_ok_and(|mut above| above.next().is_some()) {
            return false;
        }
        let nodes = [Some(format!("/dev/mapper/{name}"))];
        let writable = |options: &str| options.split(',').all(|option| option != "ro");
        !mounts.of(number, &nodes).any(|m| writable(&m.options))
    };
    if let Err(e) = Control::open().and_then(|control| control.stop(unused)) {
        tracing::error!("no cache is stopped: {e}");
    }
}

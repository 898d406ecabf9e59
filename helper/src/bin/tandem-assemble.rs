// SPDX-License-Identifier: GPL-3.0-or-later
//! Run once while the machine starts, by `tandem-assemble.service`: see [`tandem_helper::boot`]. With `--late`
//! run by udev for each device: see [`tandem_helper::boot::late`].

use std::path::Path;
use tandem_helper::state::{FOLDER, Store};
use tandem_helper::{boot, log};

/// Ends well whatever it finds: a unit that failed is started again by all that needs the system's start.
fn main() {
    log();
    if std::env::args().nth(1).as_deref() == Some("--late") {
        return boot::late::run(Path::new(FOLDER));
    }
    match Store::open(Path::new(FOLDER)) {
        Ok(store) => boot::run(&store),
        Err(e) => tracing::error!("no records in {FOLDER}: {e}"),
    }
}

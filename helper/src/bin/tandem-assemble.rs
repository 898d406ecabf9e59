// SPDX-License-Identifier: GPL-3.0-or-later
//! Run once while the machine starts, by `tandem-assemble.service`: see [`tandem_helper::boot`].

use std::path::Path;
use std::process::ExitCode;
use tandem_helper::state::{FOLDER, Store};
use tandem_helper::{boot, log};

fn main() -> ExitCode {
    log();
    match Store::open(Path::new(FOLDER)) {
        Ok(store) if boot::run(&store) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(e) => {
            tracing::error!("no records in {FOLDER}: {e}");
            ExitCode::FAILURE
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Time of single requests on one device after another; exact where the machine's time is virtual.

use anyhow::Result;

pub fn run(_device: &str) -> Result<()> {
    Ok(())
}

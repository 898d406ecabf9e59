// SPDX-License-Identifier: GPL-3.0-or-later
//! Exact cost of requests in virtual time.

use anyhow::Result;

use crate::cx::Cx;

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the measurements.
pub fn command(_cx: &Cx, _args: &Args) -> Result<()> {
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The mark in the superblocks that says that nothing is dirty. It must be gone from both copies before anything can
//! become dirty.

use anyhow::{Context, Result, ensure};

use super::Entry;
use crate::disk::Shape;
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[(
    "clean mark: no write-back while a copy that says clean cannot be written",
    unwritable_copy,
)];

/// The sectors of the SSD where the two superblocks begin.
const COPIES: [u64; 2] = [0, 1024];

/// Both copies can be read and say that nothing is dirty. One of them cannot be written.
fn unwritable_copy() -> Result<()> {
    for copy in COPIES {
        let config = Config {
            origin: Shape::new(8),
            ssd: Shape::new(8),
            ssd_under: Some(Under::Linear),
            ..Config::default()
        };
        let (mut rig, model) = Rig::new(config)?;
        rig.detach()?;
        let line = rig.ssd.plain_test_line();
        let below = rig.below_ssd.as_ref().context("no target below the SSD")?;
        below.swap(line)?;
        below.message(&format!("stuck {copy}"))?;
        ensure!(
            rig.attach_as("writeback").is_err(),
            "taken in write-back with a copy at sector {copy} that says clean"
        );
        let below = rig.below_ssd.as_ref().context("no target below the SSD")?;
        below.message("fail nothing")?;
        rig.attach_as("writeback")
            .context("the SSD can be written again")?;
        rig.shows(&model)?;
    }
    Ok(())
}

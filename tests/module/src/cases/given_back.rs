// SPDX-License-Identifier: GPL-3.0-or-later
//! A removed cache gives both devices back. The device mapper puts right what a target has forgotten, and only the
//! kernel's log tells.

use anyhow::{Result, ensure};

use super::Entry;
use crate::kmsg::Kmsg;
use crate::rig::{Config, Rig};

pub const CASES: &[Entry] = &[("given back: both devices of a removed cache", removed)];

/// The device mapper's words for a device that a target has kept.
const KEPT: &str = "dm_put_device call missing";

fn removed() -> Result<()> {
    let mut log = Kmsg::open()?;
    log.new_lines();
    let (mut rig, _) = Rig::new(Config::default())?;
    rig.detach()?;
    let kept: Vec<_> = log.new_lines();
    let kept: Vec<_> = kept.iter().filter(|line| line.contains(KEPT)).collect();
    ensure!(kept.is_empty(), "kept: {kept:?}");
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs scenarios of concurrent operations on one word under every schedule.
//!
//! Depth first over the decisions of `words/schedule.c`: each run follows the decisions found so far, then always the first
//! task; the next run changes the last decision that has another choice. A state met before is not followed again.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::checks::Checks;
use crate::engine::Core;

/// Most decisions in one run.
const ROOM: usize = 4096;

/// The C side is one state for the whole program.
static TURN: Mutex<()> = Mutex::new(());

/// A schedule under which something was wrong.
#[derive(Debug, thiserror::Error)]
#[error("{scenario}: {why}, with the schedule {schedule:?}")]
pub struct Wrong {
    /// What was played.
    pub scenario: String,
    /// What was wrong.
    pub why: String,
    /// Each decision: which of the tasks able to run went on.
    pub schedule: Vec<u8>,
}

/// How much there was to explore.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Runs of the scenario.
    pub schedules: u64,
    /// Different states met.
    pub states: usize,
}

/// Explores one scenario completely.
///
/// # Errors
/// The first schedule with something wrong.
pub fn explore(core: &Core, scenario: u32, name: &str) -> Result<Extent, Wrong> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let checks = Checks::of(core);
    let mut met = HashSet::new();
    let (mut choices, mut widths) = (vec![0; ROOM], vec![0; ROOM]);
    let mut given = 0;
    let mut schedules = 0;
    loop {
        let (taken, why) =
            checks.scenario_run(scenario, &mut choices, &mut widths, given, |state| {
                !met.insert(state)
            });
        schedules += 1;
        if let Some(why) = why {
            return Err(Wrong {
                scenario: name.to_owned(),
                why,
                schedule: choices[..taken].to_vec(),
            });
        }
        let Some(last) = (0..taken).rev().find(|&at| choices[at] + 1 < widths[at]) else {
            return Ok(Extent {
                schedules,
                states: met.len(),
            });
        };
        choices[last] += 1;
        given = last + 1;
    }
}

/// Explores all scenarios; returns each with its extent.
///
/// # Errors
/// The first schedule with something wrong.
pub fn explore_all(core: &Core) -> Result<Vec<(String, Extent)>, Wrong> {
    let names = Checks::of(core).scenario_names();
    (0..)
        .zip(names)
        .map(|(scenario, name)| Ok((name.clone(), explore(core, scenario, &name)?)))
        .collect()
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The cases, by what they are about.

mod concurrent;
mod content;
mod failures;
mod failures_dirty;
mod filesystem;
mod hits;
mod hostile;
mod life;
mod order;
mod refusals;
mod starts;
mod writeback;

use crate::Case;

/// Every case, in the order in which they run.
pub fn all() -> Vec<Case> {
    [
        refusals::CASES,
        life::CASES,
        content::CASES,
        hits::CASES,
        order::CASES,
        writeback::CASES,
        starts::CASES,
        concurrent::CASES,
        filesystem::CASES,
        failures::CASES,
        failures_dirty::CASES,
        hostile::CASES,
        // Removes the module, so it is last.
        life::LAST,
    ]
    .into_iter()
    .flatten()
    .map(|(name, run)| Case { name, run: *run })
    .collect()
}

/// A name and a test.
type Entry = (&'static str, fn() -> anyhow::Result<()>);

// SPDX-License-Identifier: GPL-3.0-or-later
//! The cases, by what they are about.

mod ahead;
mod allocations;
mod behind;
mod caches;
mod charges;
mod clean_mark;
mod concurrent;
mod content;
mod damaged;
mod discards;
mod edges;
mod failures;
mod failures_dirty;
mod filesystem;
mod flaky;
mod formats;
mod frozen;
mod fsx;
mod given_back;
mod growth;
mod hits;
mod hostile;
mod hung;
mod injected;
mod joins;
mod larger_blocks;
mod latency;
mod life;
mod lost;
mod memory;
mod order;
mod pulled;
mod refusals;
mod reload;
mod rescued;
mod resized;
mod rest;
mod sameness;
mod scale;
mod settings;
mod short_memory;
mod sizes;
mod starts;
mod streams;
mod time;
mod trims;
mod writeback;

use crate::Case;

/// The cases of a set, in the order in which they run; `None`: there is no such set.
pub fn of(set: &str) -> Option<Vec<Case>> {
    match set {
        "" => Some(all()),
        "time" => Some(cases(&[
            time::CASES,
            trims::CASES,
            rest::CASES,
            behind::CASES,
            ahead::CASES,
            latency::TIMED,
            charges::TIMED,
            writeback::TIMED,
            failures_dirty::TIMED,
            edges::TIMED,
            starts::TIMED,
            frozen::CASES,
            sameness::TIMED,
        ])),
        "memory" => Some(cases(&[memory::CASES])),
        "scale" => Some(cases(&[scale::CASES])),
        "pulled" => Some(cases(&[pulled::CASES])),
        "formats" => Some(cases(&[formats::CASES, formats::PROVEN])),
        _ => None,
    }
}

fn cases(entries: &[&[Entry]]) -> Vec<Case> {
    let entries = entries.iter().copied().flatten();
    entries
        .map(|(name, run)| Case { name, run: *run })
        .collect()
}

fn all() -> Vec<Case> {
    cases(&[
        refusals::CASES,
        life::CASES,
        given_back::CASES,
        reload::CASES,
        growth::CASES,
        resized::CASES,
        content::CASES,
        discards::CASES,
        hits::CASES,
        joins::CASES,
        latency::CASES,
        charges::CASES,
        order::CASES,
        caches::CASES,
        sizes::CASES,
        writeback::CASES,
        edges::CASES,
        settings::CASES,
        streams::CASES,
        larger_blocks::CASES,
        rescued::CASES,
        starts::CASES,
        sameness::CASES,
        damaged::CASES,
        clean_mark::CASES,
        concurrent::CASES,
        filesystem::CASES,
        fsx::CASES,
        failures::CASES,
        failures_dirty::CASES,
        short_memory::CASES,
        lost::CASES,
        hung::CASES,
        hostile::CASES,
        allocations::CASES,
        injected::CASES,
        flaky::CASES,
        // This case removes the module, so it is last.
        life::LAST,
    ])
}

/// A name and a test.
type Entry = (&'static str, fn() -> anyhow::Result<()>);

// SPDX-License-Identifier: GPL-3.0-or-later
//! A run without `--all` takes a few tests of a large matrix. The commit decides which, so that a failure in CI can be
//! repeated, and the next commit takes others.

use anyhow::Result;

use crate::cx::{Cx, say};
use crate::layer::Run;
use crate::{hash, run};

/// The tests of a matrix that this run takes: all of them if the run is whole, otherwise `number` of them by the commit
/// that is checked out. Prints how many it takes.
///
/// # Errors
/// git does not tell the commit.
pub fn of<T>(
    run: &Run,
    matrix: &str,
    all: impl IntoIterator<Item = T>,
    number: usize,
) -> Result<Vec<T>> {
    let all: Vec<T> = all.into_iter().collect();
    if run.is_whole() || all.len() <= number {
        return Ok(all);
    }
    say(format!("{matrix}: {number} of {} by the commit", all.len()));
    Ok(spread(all, number, chance(run.cx, matrix)?))
}

/// A number that depends on nothing but the commit that is checked out and `salt`.
///
/// # Errors
/// git does not tell the commit.
pub fn chance(cx: &Cx, salt: &str) -> Result<u64> {
    let commit = run::output(run::cmd("git", ["rev-parse", "HEAD"]).current_dir(&cx.root))?;
    let key = hash::key([commit.trim(), salt]);
    Ok(u64::from_str_radix(&key, 16)?)
}

/// `number` of the tests in their order, spread evenly over all tests. `chance` decides where the first one lies.
fn spread<T>(all: Vec<T>, number: usize, chance: u64) -> Vec<T> {
    let total = all.len();
    let first = usize::try_from(chance % total as u64).unwrap_or(0);
    let chosen: Vec<_> = (0..number)
        .map(|n| (first + n * total / number) % total)
        .collect();
    let placed = all.into_iter().enumerate();
    placed
        .filter(|(place, _)| chosen.contains(place))
        .map(|(_, test)| test)
        .collect()
}

/// The part of a suite that a run of this commit tries, as `SUITE_PART` takes it: `name` and the commit choose it.
///
/// # Errors
/// Git does not tell the commit.
pub fn part(cx: &Cx, name: &str, parts: u64) -> Result<String> {
    let part = chance(cx, name)? % parts;
    say(format!("{name}: part {part} of {parts} by the commit"));
    Ok(format!("{part}/{parts}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::spread;

    #[test]
    fn every_test_has_its_turn() {
        for total in 1..50 {
            for number in 1..=total {
                let mut left: BTreeSet<_> = (0..total).collect();
                for chance in 0..total as u64 {
                    let chosen = spread((0..total).collect(), number, chance);
                    assert_eq!(chosen.len(), number, "of {total}");
                    assert!(chosen.is_sorted());
                    left.retain(|test| !chosen.contains(test));
                }
                assert!(left.is_empty(), "never chosen of {total}: {left:?}");
            }
        }
    }
}

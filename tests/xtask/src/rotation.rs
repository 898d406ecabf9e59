// SPDX-License-Identifier: GPL-3.0-or-later
//! A run without `--all` takes a few tests of a large matrix. The next run takes others.

use anyhow::Result;

use crate::layer::Bench;
use crate::seed;

/// The tests of a matrix that this run takes: all of them if the run is whole, otherwise `number` of them by the seed of
/// the run.
///
/// # Errors
/// The seed in the environment is no number.
pub fn of_this_run<T>(
    bench: &Bench,
    all: impl IntoIterator<Item = T>,
    number: usize,
) -> Result<Vec<T>> {
    if bench.is_whole() {
        return Ok(all.into_iter().collect());
    }
    Ok(rotated(all, number, seed::of_this_run()?))
}

/// `number` of the tests in their order, spread evenly over all tests. The seed decides where the first one lies, so that
/// each test has its turn. Returns all tests if there are not more than `number`.
fn rotated<T>(all: impl IntoIterator<Item = T>, number: usize, seed: u64) -> Vec<T> {
    let all: Vec<T> = all.into_iter().collect();
    let total = all.len();
    if total <= number {
        return all;
    }
    let first = usize::try_from(seed % total as u64).unwrap_or(0);
    let chosen: Vec<_> = (0..number)
        .map(|n| (first + n * total / number) % total)
        .collect();
    let placed = all.into_iter().enumerate();
    placed
        .filter(|(place, _)| chosen.contains(place))
        .map(|(_, test)| test)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::rotated;

    #[test]
    fn every_test_has_its_turn() {
        for total in 1..50 {
            for number in 1..=total {
                let mut left: BTreeSet<_> = (0..total).collect();
                for seed in 0..total as u64 {
                    let chosen = rotated(0..total, number, seed);
                    assert_eq!(chosen.len(), number, "of {total}");
                    assert!(chosen.is_sorted());
                    left.retain(|test| !chosen.contains(test));
                }
                assert!(left.is_empty(), "never chosen of {total}: {left:?}");
            }
        }
    }
}

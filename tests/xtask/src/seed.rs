// SPDX-License-Identifier: GPL-3.0-or-later
//! The seed of everything that a run of the tests draws anew, beside the seeds that never change.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use anyhow::{Context, Result};

use crate::cx::say;

/// Repeats a run: the number that the run printed.
const VARIABLE: &str = "TANDEM_SEED";

/// Another number in each run, below 2^32, printed when it is asked for first; or that of [`VARIABLE`].
///
/// # Errors
/// The variable is no number.
pub fn of_this_run() -> Result<u64> {
    static SEED: OnceLock<u64> = OnceLock::new();
    if let Some(&seed) = SEED.get() {
        return Ok(seed);
    }
    let seed = match std::env::var(VARIABLE) {
        Ok(seed) => seed
            .parse()
            .with_context(|| format!("{VARIABLE} is no number: {seed}"))?,
        // The standard library draws the keys of its hashes at random.
        Err(_) => RandomState::new().hash_one(0) >> 32,
    };
    say(format!("fresh seed: to repeat, {VARIABLE}={seed}"));
    Ok(*SEED.get_or_init(|| seed))
}

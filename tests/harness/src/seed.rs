// SPDX-License-Identifier: GPL-3.0-or-later
//! The seed of all random choices that differ from run to run; other seeds never change.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use anyhow::{Context, Result};

use crate::cx::say;

/// Environment variable with the seed of an earlier run, which repeats that run.
const VARIABLE: &str = "TANDEM_SEED";

/// A number below 2^32 that is different in each run, or the number in [`VARIABLE`]. Printed when it is first asked
/// for.
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
        // The standard library takes the keys of its hashes at random.
        Err(_) => RandomState::new().hash_one(0) >> 32,
    };
    say(format!("fresh seed: to repeat, {VARIABLE}={seed}"));
    Ok(*SEED.get_or_init(|| seed))
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The words that are the same in the window.

#[path = "../../src/display/fill.rs"]
mod fill;
#[path = "../../src/display/safety.rs"]
mod safety;
#[path = "../../src/display/time.rs"]
mod time;

pub use fill::fill;
pub use safety::{SafetyAmounts, SafetyFacts, safety};
pub use time::duration;

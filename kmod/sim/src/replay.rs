// SPDX-License-Identifier: GPL-3.0-or-later
//! Words for a failing seed: plays it again and keeps what happened near the place.

use std::fmt::Write;

use crate::engine::Core;
use crate::random::{self, Failure};

/// Sectors of the frame that a fault names.
fn place(text: &str) -> Option<(u64, u64)> {
    let number = |after: &str| -> Option<u64> {
        let rest = &text[text.find(after)? + after.len()..];
        rest[..rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len())]
            .parse()
            .ok()
    };
    let sector = number("sector ").or_else(|| number(" at "))?;
    Some((sector & !31, (sector | 31) + 1))
}

/// The fault, the command that repeats it, and the last events of its frame.
pub fn explain(core: &Core, seed: u64, requests: u64, failure: &Failure) -> String {
    let fault = failure.fault.to_string();
    let mut text = format!("seed {seed}: {fault}\n");
    if let Some(place) = place(&fault)
        && let Err(again) = random::run(core, seed, requests, Some(place))
    {
        let _ = writeln!(text, "last events of sectors {}..{}:", place.0, place.1);
        for line in &again.trace {
            let _ = writeln!(text, "  {line}");
        }
    }
    let _ = write!(
        text,
        "again: cargo run -p tandem-sim -- random --seed {seed} --requests {requests}"
    );
    text
}

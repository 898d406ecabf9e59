// SPDX-License-Identifier: GPL-3.0-or-later
//! Words for a failing run: made shorter, and played again with what happened near the place.

use std::fmt::Write;
use std::time::Duration;

use crate::engine::Core;
use crate::play::Script;
use crate::world::Fault;

/// How long a run may be made shorter.
const PATIENCE: Duration = Duration::from_secs(20);

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
    let sector = number("sector ")
        .or_else(|| number(" at "))
        .or_else(|| Some(number("frame ")? * 32))?;
    // Another sector's data: how they met is to be seen in all.
    let foreign = number("@").is_some_and(|other| other != sector);
    (!foreign).then_some((sector & !31, (sector | 31) + 1))
}

/// The fault, the shortest run that was found to show one, and the last events of its frame.
pub fn explain(core: &Core, fault: &Fault, mut script: Script, again: &str) -> String {
    let mut text = format!("{fault}\n");
    if !script.choices.is_empty() {
        let long = script.choices.len();
        script.shrink(core, fault, PATIENCE);
        let _ = writeln!(
            text,
            "{long} acts, of which {} are enough",
            script.choices.len()
        );
        if let Some((_, fault, _)) = script.play(core, None) {
            let fault = fault.to_string();
            let place = place(&fault).unwrap_or((0, script.machine.geometry.origin_sectors));
            let _ = writeln!(text, "then: {fault}\n{:?}", script.machine);
            if let Some((_, _, world)) = script.play(core, Some(place)) {
                let _ = writeln!(text, "events of sectors {}..{}:", place.0, place.1);
                for line in world.trace.lines() {
                    let _ = writeln!(text, "  {line}");
                }
            }
        }
    }
    let _ = write!(text, "again: {again}");
    text
}

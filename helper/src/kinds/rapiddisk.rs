// SPDX-License-Identifier: GPL-3.0-or-later
//! RapidDisk, which caches in memory. Its write-back is a mapping of dm-writecache.

use super::system::{Find, System, Target, Told};
use tandem_api::{OtherKind, OtherMode, OtherState};

pub(super) const SYSTEM: System = System {
    find: Find::Mappings(Target {
        name: "rapiddisk-cache",
        kind: |_| OtherKind::RapidDisk,
        devices: |_| None,
        told: |table, _status| Some(told(table)),
    }),
    may_hang: &[],
    removers: &[],
};

/// Its table is prose; the mode is in it.
fn told(table: &str) -> Told {
    let word = table
        .split_once("mode (")
        .and_then(|(_, rest)| rest.split_once(')'));
    let mode = match word.map(|(word, _)| word) {
        Some("WRITETHROUGH") => OtherMode::Writethrough,
        Some("WRITEAROUND") => OtherMode::Writearound,
        _ => OtherMode::Unknown,
    };
    Told {
        unwritten_bytes: (mode != OtherMode::Unknown).then_some(0),
        ..Told::of(OtherState::Working, mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_in_the_prose() {
        let prose = "conf:\tRapidDisk dev (/dev/rd0), disk dev (/dev/vdc) mode (WRITETHROUGH)\n\tcapacity(64M)";
        let told = told(prose);
        assert_eq!(
            (told.mode, told.unwritten_bytes),
            (OtherMode::Writethrough, Some(0))
        );
    }
}

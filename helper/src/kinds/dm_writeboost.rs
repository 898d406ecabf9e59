// SPDX-License-Identifier: GPL-3.0-or-later
//! dm-writeboost, a module of its own. Its lines tell nothing that is understood.

use super::system::{Find, System, Target, Told, devices_at};
use tandem_api::{OtherKind, OtherMode, OtherState};

pub(super) const SYSTEM: System = System {
    find: Find::Mappings(Target {
        name: "writeboost",
        kind: |_| OtherKind::DmWriteboost,
        devices: |words| devices_at(words, 0, &[1]),
        told: |_table, _status| Some(Told::of(OtherState::Working, OtherMode::Writeback)),
    }),
    may_hang: &[],
    removers: &[],
};

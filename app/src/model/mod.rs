// SPDX-License-Identifier: GPL-3.0-or-later
//! What the interface knows: changed only by facts that come up from the bus.

pub mod arrange;
pub mod draft;
pub mod ends;
pub mod facts;
pub mod inventory;
pub mod objects;
pub mod series;
pub mod store;

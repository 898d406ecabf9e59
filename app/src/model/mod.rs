// SPDX-License-Identifier: GPL-3.0-or-later
//! What the window knows. Only facts that come from the bus change it.

pub mod arrange;
pub mod draft;
pub mod ends;
pub mod facts;
pub mod inventory;
pub mod objects;
pub mod series;
pub mod store;

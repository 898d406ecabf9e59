// SPDX-License-Identifier: GPL-3.0-or-later
//! The state of the window. Only facts that come from the bus change this state.

pub mod arrange;
pub mod bars;
pub mod draft;
pub mod facts;
pub mod inventory;
pub mod job_ends;
pub mod layouts;
pub mod objects;
pub mod offer;
pub mod other_bars;
pub mod range;
pub mod series;
pub mod store;

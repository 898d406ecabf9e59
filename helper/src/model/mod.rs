// SPDX-License-Identifier: GPL-3.0-or-later
//! Plain values: what devices are, what is to be done with them, and what is on record. Nothing here touches the computer.

pub mod action;
pub mod facts;
pub mod live;
pub mod memory;
pub mod other_format;
pub mod other_reading;
pub mod record;
pub mod removal;
pub mod shift;

// SPDX-License-Identifier: GPL-3.0-or-later
//! The D-Bus objects: they check, parse and call the service, nothing else.

pub mod bounded;
pub mod cache;
pub mod job;
pub mod manager;

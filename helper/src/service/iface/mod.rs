// SPDX-License-Identifier: GPL-3.0-or-later
//! The D-Bus objects. They check and parse the arguments and call the service.

pub mod bounded;
pub mod cache;
pub mod job;
pub mod manager;

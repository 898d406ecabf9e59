// SPDX-License-Identifier: GPL-3.0-or-later
//! Mounts: what is mounted where, how it came there, and how the same comes there again. Nothing
//! here mounts by itself: systemd and UDisks2 do, outside our sandbox.

pub mod libmount;
pub mod systemd;
pub mod table;
pub mod users;

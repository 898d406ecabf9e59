// SPDX-License-Identifier: GPL-3.0-or-later
//! Device-mapper: typed lines, and the only place that issues its ioctls.

pub mod control;
pub mod dm_cache;
pub mod kept;
pub mod mapping;
pub mod message;
pub mod status;
pub mod table;

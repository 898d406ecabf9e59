// SPDX-License-Identifier: GPL-3.0-or-later
//! The caches that LVM has made. They are mappings of dm-cache and dm-writecache, and LVM removes them and writes them back.

mod lines;
mod remove;
mod tools;
mod write_back;

pub(super) use remove::Remove;
pub(super) use write_back::{WriteBack, is_plain};

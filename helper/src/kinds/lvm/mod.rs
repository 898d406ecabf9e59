// SPDX-License-Identifier: GPL-3.0-or-later
//! The caches that LVM has made. They are mappings of dm-cache and dm-writecache, and LVM removes them.

mod lines;
mod remove;
mod tools;

pub(super) use remove::Remove;

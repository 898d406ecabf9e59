// SPDX-License-Identifier: GPL-3.0-or-later
//! What runs without the bus: the early start of the machine, udev's events, the shutdown, and the removal of the package.

pub mod boot;
pub mod kernel_caches;
pub mod removable;
pub mod shutdown;
pub mod stop;

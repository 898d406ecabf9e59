// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads the mounts, and has them unmounted and made again. systemd and UDisks2 mount and unmount, outside the sandbox
//! of the service.

pub mod boot_loader;
pub mod device;
pub mod held;
pub mod libmount;
pub mod moved;
pub mod nodes;
pub mod starts;
pub mod table;
pub mod units;
pub mod users;

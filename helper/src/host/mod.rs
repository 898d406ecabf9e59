// SPDX-License-Identifier: GPL-3.0-or-later
//! The interface through which the service uses a machine, and the real machine behind it: what asks UDisks2 and systemd
//! over the bus, and what waits beside other work. Tests run the service on a simulated machine (`helper/sim`).

pub mod device_mapper;
pub mod disks;
pub mod initramfs;
mod memory;
pub mod module;
pub mod names;
#[cfg(test)]
pub(crate) mod none;
pub mod reads;
pub(crate) mod smart;
pub mod systemd;
pub mod traits;
pub mod watch;

pub use traits::Host;

// SPDX-License-Identifier: GPL-3.0-or-later
//! The uses that the service makes of a machine, each trait one noun.

mod computer;
mod disks;
mod mappings;
mod memory;
mod module;
mod observing;
mod others;

pub use computer::Computer;
pub use disks::Disks;
pub use mappings::Mappings;
pub use memory::Memory;
pub use module::Module;
pub use observing::Observing;
pub use others::Others;

/// A machine with disks and a kernel.
///
/// A caller may hold no lock that another of its calls needs while it calls a method: the methods wait for hardware
/// and for other services.
pub trait Host: Computer + Module + Disks + Mappings + Memory + Observing + Others {}

impl<T: Computer + Module + Disks + Mappings + Memory + Observing + Others> Host for T {}

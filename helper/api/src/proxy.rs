// SPDX-License-Identifier: GPL-3.0-or-later
//! Proxies of the service's interfaces, for every client.

mod cache;
mod job;
mod manager;
mod simulation;

pub use cache::*;
pub use job::*;
pub use manager::*;
pub use simulation::*;

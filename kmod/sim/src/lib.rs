// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs the kernel module's engine in user space, against simulated disks.

pub mod cases;
pub mod checks;
pub mod coverage;
pub mod crash;
pub mod disk;
pub mod exhaust;
pub mod explore;
pub mod flaw;
pub mod fuzz;
pub mod native;
pub mod oracle;
pub mod play;
pub mod queue;
pub mod random;
pub mod replay;
pub mod sanitize;
pub mod stamp;
pub mod streams;
pub mod trace;
pub mod workload;
pub mod world;

pub use tandem_core as engine;

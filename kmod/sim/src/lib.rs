// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs the kernel module's engine in user space, against simulated disks.

pub mod disk;
pub mod oracle;
pub mod queue;
pub mod stamp;
pub mod workload;

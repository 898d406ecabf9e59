// SPDX-License-Identifier: GPL-3.0-or-later
//! The disposable virtual machine: its image, QEMU, the power of its disks, and the agent that runs scripts in it.

pub mod agent;
pub mod deb;
pub mod disks;
pub mod guest;
pub mod guest_kernel;
pub mod image;
pub mod install_image;
pub mod moment;
pub mod patience;
pub mod power;
pub mod qemu;
pub mod qmp;
pub mod stage;
pub mod vm;
pub mod vm_state;

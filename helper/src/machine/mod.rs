// SPDX-License-Identifier: GPL-3.0-or-later
//! The disks, mappings, mounts and files of the computer, by plain calls of the kernel. This code decides nothing, asks no
//! other service and waits for nothing beside other work.

pub mod block_traffic;
pub mod blocks;
pub mod clock;
pub mod dm;
pub mod grub;
pub mod hibernation;
pub mod initramfs;
pub mod kernels;
pub mod loaded;
pub(crate) mod marks;
pub mod memory;
pub mod module;
pub mod mounts;
pub mod names;
pub mod network;
pub mod other_format;
pub mod store;
pub mod superblock;
pub mod sysfs;
pub(crate) mod udev_files;
pub mod volumes;
pub mod wipe;

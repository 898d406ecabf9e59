// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests in the virtual machine: the main job by clicks, and the promises that must hold when something
//! fails.

mod advice;
mod bytes;
mod conformance;
mod cut;
pub mod demo;
mod firmware;
mod install;
mod kept;
mod kernel_cache;
mod kill;
mod main_job;
mod memory;
mod moments;
mod network;
mod others;
mod plain;
mod refusals;
mod restart;
mod scene;
mod stack;
mod system;
mod writeback;

use tandem_harness::deps;
use tandem_harness::layer::{Layer, When};

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        Layer {
            name: "vm-refusals",
            about: "what is refused in a real system, and who may not",
            needs: deps::GUEST,
            when: When::Sampled(1),
            run: refusals::run,
        },
        Layer {
            name: "vm-firmware",
            about: "the key of the module is handed to the firmware of an EFI machine",
            needs: deps::GUEST,
            when: When::Sampled(2),
            run: firmware::run,
        },
        Layer {
            name: "vm-bytes",
            about: "no byte changes by itself: removal, and an SSD that is pulled out",
            needs: deps::GUEST,
            when: When::Sampled(2),
            run: bytes::run,
        },
        Layer {
            name: "vm-kernel-cache",
            about: "dm-cache serves the cache where the module cannot be loaded",
            needs: deps::GUEST,
            when: When::Sampled(7),
            run: kernel_cache::run,
        },
        Layer {
            name: "vm-memory",
            about: "the computer's memory in the place of an SSD, given back, made anew and removed",
            needs: deps::GUEST,
            when: When::Whole,
            run: memory::run,
        },
        Layer {
            name: "vm-advice",
            about: "a disk is watched, and its cache hits as predicted",
            needs: deps::GUEST,
            when: When::Sampled(3),
            run: advice::run,
        },
        Layer {
            name: "vm-kill",
            about: "kill -9 of the service at every step of create, remove and resize",
            needs: deps::GUEST,
            when: When::Sampled(8),
            run: kill::run,
        },
        Layer {
            name: "vm-cut",
            about: "a power cut of all disks at every step of resize, create and remove",
            needs: deps::GUEST,
            when: When::Sampled(8),
            run: cut::run,
        },
        Layer {
            name: "vm-restart",
            about: "the machine is switched off and on, with and without warning and SSD",
            needs: deps::GUEST,
            when: When::Whole,
            run: restart::run,
        },
        Layer {
            name: "vm-system",
            about: "the running system and a folder in use on caches, through real initial file systems",
            needs: deps::GUEST,
            when: When::Whole,
            run: system::run,
        },
        Layer {
            name: "vm-dracut",
            about: "the same with initial file systems by dracut",
            needs: deps::GUEST,
            when: When::Whole,
            run: system::dracut,
        },
        Layer {
            name: "vm-kernel-system",
            about: "the running system and a folder in use on dm-cache, without the module",
            needs: deps::GUEST,
            when: When::Whole,
            run: system::kernel_cache::run,
        },
        Layer {
            name: "vm-kernel-dracut",
            about: "the same with initial file systems by dracut",
            needs: deps::GUEST,
            when: When::Whole,
            run: system::kernel_cache::dracut,
        },
        Layer {
            name: "vm-bios",
            about: "the running system on a cache where the BIOS starts GRUB, and on an encrypted disk",
            needs: deps::GUEST,
            when: When::Whole,
            run: system::bios::run,
        },
        Layer {
            name: "vm-ports",
            about: "a disk on SATA and an SSD on NVMe, and the disk moves into a USB box",
            needs: deps::GUEST,
            when: When::Whole,
            run: restart::ports::run,
        },
        Layer {
            name: "vm-stack",
            about: "an array or a volume below a cache, an encrypted volume above",
            needs: deps::GUEST,
            when: When::Whole,
            run: stack::run,
        },
        Layer {
            name: "vm-others",
            about: "caches that other systems have made are seen, and their devices are not offered",
            needs: deps::GUEST,
            when: When::Whole,
            run: others::run,
        },
        Layer {
            name: "vm-plain",
            about: "partitions that bcache has left become plain ones, whole or not at all",
            needs: deps::GUEST,
            when: When::Whole,
            run: plain::run,
        },
        Layer {
            name: "vm-network",
            about: "a disk on the network (NBD, iSCSI): its connection is cut, and another computer changes it",
            needs: deps::GUEST,
            when: When::Whole,
            run: network::run,
        },
        Layer {
            name: "vm-conformance",
            about: "the service's conformance suite on the real engine",
            needs: deps::GUEST,
            when: When::Sampled(6),
            run: conformance::run,
        },
        Layer {
            name: "vm-writeback",
            about: "write-back by clicks, and an SSD that is pulled while it alone has data",
            needs: deps::GUEST,
            when: When::Sampled(4),
            run: writeback::run,
        },
        Layer {
            name: "vm-install-12",
            about: "the Debian packages on a fresh Debian 12",
            needs: deps::GUEST,
            when: When::Whole,
            run: install::bookworm,
        },
        Layer {
            name: "vm-install-13",
            about: "the Debian packages on a fresh Debian 13",
            needs: deps::GUEST,
            when: When::Whole,
            run: install::trixie,
        },
        Layer {
            name: "vm-main",
            about: "the main job by clicks in the real app",
            needs: deps::GUEST,
            when: When::Always,
            run: main_job::run,
        },
    ]
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests in the virtual machine: the main job by clicks, and the promises that must hold when something
//! fails.

mod advice;
mod bytes;
mod conformance;
mod cut;
mod firmware;
mod install;
mod kept;
mod kill;
mod main_job;
mod moments;
mod refusals;
mod restart;
mod scene;
mod stack;
mod system;
mod writeback;

use crate::deb;
use crate::inputs::{Inputs, KMOD};
use crate::layer::{Layer, no_cases};

/// Sources of the machine and of the data files in it.
const SOURCES: [&str; 5] = ["tests/vm", "data", "po", "meson.build", "meson_options.txt"];

/// The inputs of a layer by the path of its module below this one.
macro_rules! inputs {
    ($module:literal) => {
        Inputs {
            packages: &[],
            programs: &[
                "tandem",
                "tandem-tray",
                "tandemctl",
                "tandem-helper",
                "tandem-e2e",
            ],
            paths: &[&KMOD, &SOURCES],
            module: concat!(module_path!(), "::", $module),
        }
    };
}

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        Layer {
            name: "vm-refusals",
            about: "what is refused in a real system, and who may not",
            cases: refusals::cases,
            inputs: inputs!("refusals"),
            run: refusals::run,
        },
        Layer {
            name: "vm-firmware",
            about: "the key of the module is handed to the firmware of an EFI machine",
            cases: |_| Ok(vec![firmware::CASE.to_owned()]),
            inputs: inputs!("firmware"),
            run: firmware::run,
        },
        Layer {
            name: "vm-bytes",
            about: "no byte changes by itself: removal, and an SSD that is pulled out",
            cases: |_| Ok(bytes::CASES.map(|(name, _)| name.to_owned()).into()),
            inputs: inputs!("bytes"),
            run: bytes::run,
        },
        Layer {
            name: "vm-advice",
            about: "a disk is watched, and its cache hits as predicted",
            cases: |_| Ok(advice::CASES.map(|(name, _)| name.to_owned()).into()),
            inputs: inputs!("advice"),
            run: advice::run,
        },
        Layer {
            name: "vm-kill",
            about: "kill -9 of the service at every step of create, remove and resize",
            cases: kill::cases,
            inputs: inputs!("kill"),
            run: kill::run,
        },
        Layer {
            name: "vm-cut",
            about: "a power cut of all disks at every step of resize, create and remove",
            cases: cut::cases,
            inputs: inputs!("cut"),
            run: cut::run,
        },
        Layer {
            name: "vm-restart",
            about: "the machine is switched off and on, with and without warning and SSD",
            cases: restart::cases,
            inputs: inputs!("restart"),
            run: restart::run,
        },
        Layer {
            name: "vm-system",
            about: "the running system and a folder in use on caches, through real initial file systems",
            cases: system::cases,
            inputs: inputs!("system"),
            run: system::run,
        },
        Layer {
            name: "vm-dracut",
            about: "the same with initial file systems by dracut",
            cases: system::cases,
            inputs: inputs!("system"),
            run: system::dracut,
        },
        Layer {
            name: "vm-ports",
            about: "a disk on SATA and an SSD on NVMe, and the disk moves into a USB box",
            cases: restart::ports::cases,
            inputs: inputs!("restart::ports"),
            run: restart::ports::run,
        },
        Layer {
            name: "vm-stack",
            about: "an array or a volume below a cache, an encrypted volume above",
            cases: stack::cases,
            inputs: inputs!("stack"),
            run: stack::run,
        },
        Layer {
            name: "vm-conformance",
            about: "the service's conformance suite on the real engine",
            cases: conformance::cases,
            inputs: Inputs {
                packages: &["tandem-simulated"],
                ..inputs!("conformance")
            },
            run: conformance::run,
        },
        Layer {
            name: "vm-writeback",
            about: "write-back by clicks, and an SSD that is pulled while it alone has data",
            cases: |_| Ok(writeback::PARTS.map(|(name, _)| name.to_owned()).into()),
            inputs: inputs!("writeback"),
            run: writeback::run,
        },
        Layer {
            name: "vm-install-12",
            about: "the Debian packages on a fresh Debian 12",
            cases: install::cases,
            inputs: Inputs {
                paths: &[&KMOD, &SOURCES, &deb::SOURCES],
                ..inputs!("install")
            },
            run: install::bookworm,
        },
        Layer {
            name: "vm-install-13",
            about: "the Debian packages on a fresh Debian 13",
            cases: install::cases,
            inputs: Inputs {
                paths: &[&KMOD, &SOURCES, &deb::SOURCES],
                ..inputs!("install")
            },
            run: install::trixie,
        },
        Layer {
            name: "vm-main",
            about: "the main job by clicks in the real app",
            cases: no_cases,
            inputs: inputs!("main_job"),
            run: main_job::run,
        },
    ]
}

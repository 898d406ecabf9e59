// SPDX-License-Identifier: GPL-3.0-or-later
//! What assembling does to the machine, apart from the order in which it is done.

use super::devices::{Found, Machine};
use super::held;
use crate::action::Pair;
use crate::dm::control::Control;
use crate::dm::table::{Linear, Tandem};
use crate::engine::device_mapper::guards;
use crate::facts::Ident;
use crate::superblock;
use std::fs::File;
use std::io;
use tandem_api::SECTOR_BYTES;

/// A machine that starts, or what a test takes for one.
pub(super) trait Hands {
    /// Whether there is device-mapper; without it nothing can be held or mapped.
    fn able(&self) -> Result<(), String>;
    /// The device that is this piece of hardware.
    fn find(&self, ident: &Ident) -> Option<Found>;
    /// Keeps the disk from everybody. Reads nothing.
    fn hold(&self, pair: &Pair, disk: &Found) -> Result<(), String>;
    /// Has the start not wait for the file systems of these.
    fn leave_out(&self, held: &[(&Pair, &Found)]) -> io::Result<()>;
    /// Reads the SSD, and has the cache in force. A disk that was held may not be any more if it fails.
    fn map(&self, pair: &Pair, disk: &Found, ssd: &Found) -> Result<(), String>;
    /// Has the service run once the machine is up: it sees what comes and goes from then on.
    fn watch(&self) -> io::Result<()>;
}

/// The machine.
pub(super) struct System {
    control: Result<Control, String>,
    machine: Machine,
}

impl System {
    pub(super) fn new(machine: Machine) -> Self {
        let control = Control::open().map_err(|e| e.to_string());
        if let Err(e) = &control {
            tracing::error!("no cache is assembled: {e}");
        }
        Self { control, machine }
    }

    fn control(&self) -> Result<&Control, String> {
        self.control.as_ref().map_err(Clone::clone)
    }
}

impl Hands for System {
    fn able(&self) -> Result<(), String> {
        self.control().map(drop)
    }

    fn find(&self, ident: &Ident) -> Option<Found> {
        self.machine.find(ident)
    }

    fn hold(&self, pair: &Pair, disk: &Found) -> Result<(), String> {
        let table = Linear {
            device: disk.number.clone(),
        };
        let held = self.control()?.hold(pair, &table, disk.sectors);
        held.map_err(|e| e.to_string())
    }

    fn leave_out(&self, held: &[(&Pair, &Found)]) -> io::Result<()> {
        held::leave_out(held)
    }

    fn map(&self, pair: &Pair, disk: &Found, ssd: &Found) -> Result<(), String> {
        let carried = File::open(ssd.node()).and_then(|file| superblock::read(&file));
        if carried.map_err(|e| e.to_string())?.as_ref() != Some(&pair.uuid) {
            return Err(format!("{} does not hold this cache any more", ssd.name));
        }
        let table = Tandem {
            origin: disk.number.clone(),
            ssd: ssd.number.clone(),
            mode: pair.mode,
            uuid: pair.uuid.clone(),
            origin_id: pair.origin_id.clone(),
            new: false,
            cold: pair.cold,
            lost: pair.lost,
        };
        let names = [disk.name.clone(), ssd.name.clone()];
        let sectors = pair.origin.text.size / SECTOR_BYTES;
        let alone = |ours: &str| guards::alone(&names, ours);
        let mapped = self.control()?.map(pair, &table, sectors, alone);
        mapped.map_err(|e| e.to_string())
    }

    fn watch(&self) -> io::Result<()> {
        // Nobody starts it who has neither an SSD of ours nor a desktop.
        held::systemctl(&["start", "--no-block", "tandem.service"])
    }
}

#[cfg(test)]
pub(super) mod fake {
    use super::*;
    use std::cell::RefCell;

    /// A machine that notes down what is done to it.
    #[derive(Default)]
    pub struct Fake {
        /// Serial numbers of what is there.
        pub there: Vec<&'static str>,
        /// There is no device-mapper.
        pub unable: bool,
        /// Somebody has the disks already.
        pub busy: bool,
        pub done: RefCell<Vec<String>>,
    }

    impl Fake {
        fn note(&self, text: String) {
            self.done.borrow_mut().push(text);
        }
    }

    impl Hands for Fake {
        fn able(&self) -> Result<(), String> {
            let unable = || "open the control device".to_owned();
            (!self.unable).then_some(()).ok_or_else(unable)
        }

        fn find(&self, ident: &Ident) -> Option<Found> {
            let serial = ident.text.serial.as_str();
            self.there.contains(&serial).then(|| Found {
                name: format!("no-{serial}"),
                number: "0:0".to_owned(),
                sectors: 1,
            })
        }

        fn hold(&self, _: &Pair, disk: &Found) -> Result<(), String> {
            self.note(format!("hold {}", disk.name));
            (!self.busy).then_some(()).ok_or_else(|| "busy".to_owned())
        }

        fn leave_out(&self, held: &[(&Pair, &Found)]) -> io::Result<()> {
            let names: Vec<_> = held.iter().map(|(_, disk)| disk.name.as_str()).collect();
            self.note(format!("leave out {}", names.join(" ")));
            Ok(())
        }

        fn map(&self, _: &Pair, disk: &Found, _: &Found) -> Result<(), String> {
            self.note(format!("map {}", disk.name));
            Ok(())
        }

        fn watch(&self) -> io::Result<()> {
            self.note("watch".to_owned());
            Ok(())
        }
    }
}

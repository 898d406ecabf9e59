// SPDX-License-Identifier: GPL-3.0-or-later
//! What assembling does to the machine, apart from the order in which it is done.

use super::devices::{Found, Machine};
use super::held;
use crate::action::Pair;
use crate::dm::control::{Control, Keeps};
use crate::dm::table::{Linear, Tandem};
use crate::engine::device_mapper::guards;
use crate::facts::Ident;
use crate::superblock;
use crate::wipe;
use std::fs::File;
use std::io;
use tandem_api::SECTOR_BYTES;

/// Why a disk is not held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unheld {
    /// Somebody has it, or can have it, and write to it.
    #[error("{0}")]
    Open(String),
    /// Nobody can write to it as it is now: it does not answer, or is write-protected.
    #[error("{0}")]
    Closed(String),
}

impl Unheld {
    /// A word for which of them it is.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Closed(_) => "closed",
        }
    }
}

/// A machine that starts, or what a test takes for one.
pub(super) trait Hands {
    /// Whether there is device-mapper; without it nothing can be held or mapped.
    fn able(&self) -> Result<(), String>;
    /// The device that is this piece of hardware.
    fn find(&self, ident: &Ident) -> Option<Found>;
    /// What the mapping of this cache keeps already.
    fn keeps(&self, pair: &Pair) -> Keeps;
    /// Whether we were called because of this disk, and not of another device.
    fn called_for(&self, disk: &Found) -> bool;
    /// Keeps the disk from everybody. Reads nothing.
    fn hold(&self, pair: &Pair, disk: &Found) -> Result<(), Unheld>;
    /// Gives somebody who has a disk for a moment the time to let it go.
    fn pause(&self);
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

    fn keeps(&self, pair: &Pair) -> Keeps {
        let keeps = self.control().map(|control| control.keeps(pair));
        match keeps {
            Ok(Ok(keeps)) => keeps,
            Ok(Err(e)) => {
                tracing::error!("{e}");
                Keeps::Nothing
            }
            Err(_) => Keeps::Nothing,
        }
    }

    fn hold(&self, pair: &Pair, disk: &Found) -> Result<(), Unheld> {
        let table = Linear {
            device: disk.number.clone(),
        };
        let control = self.control().map_err(Unheld::Open)?;
        let held = control.hold(pair, &table, disk.sectors);
        held.map_err(|e| match disk.writable() {
            true => Unheld::Open(e.to_string()),
            false => Unheld::Closed(e.to_string()),
        })
    }

    fn called_for(&self, disk: &Found) -> bool {
        self.machine.is_about(disk)
    }

    fn pause(&self) {
        std::thread::sleep(wipe::PAUSE);
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
        /// Why no disk can be held, as many times.
        pub unheld: RefCell<Vec<Unheld>>,
        /// Serial number of the one that can never be held.
        pub taken: Option<&'static str>,
        /// It was another device that was looked at.
        pub other_event: bool,
        /// What happens while nothing is done.
        pub meanwhile: Option<Box<dyn Fn()>>,
        /// That a mapping could not be made.
        pub unmapped: bool,
        /// What the mapping keeps; nothing that was held here if it is none.
        pub keeps: RefCell<Option<Keeps>>,
        /// Numbers of those that are not as they were when they were found first.
        pub again: Option<&'static str>,
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
                number: self.again.unwrap_or("0:0").to_owned(),
                sectors: 1,
            })
        }

        fn keeps(&self, _: &Pair) -> Keeps {
            self.keeps.borrow().clone().unwrap_or(Keeps::Nothing)
        }

        fn hold(&self, _: &Pair, disk: &Found) -> Result<(), Unheld> {
            let taken = self.taken.is_some_and(|name| disk.name.ends_with(name));
            let taken = taken.then(|| Unheld::Open("taken".to_owned()));
            match taken.or_else(|| self.unheld.borrow_mut().pop()) {
                Some(unheld) => Err(unheld),
                None => {
                    self.note(format!("hold {}", disk.name));
                    *self.keeps.borrow_mut() = Some(Keeps::Disk(disk.number.clone()));
                    Ok(())
                }
            }
        }

        fn called_for(&self, _: &Found) -> bool {
            !self.other_event
        }

        fn pause(&self) {
            // Once, however long it takes.
            if self.done.borrow().last().is_none_or(|last| last != "pause") {
                self.note("pause".to_owned());
            }
            if let Some(happens) = &self.meanwhile {
                happens();
            }
        }

        fn leave_out(&self, held: &[(&Pair, &Found)]) -> io::Result<()> {
            let names: Vec<_> = held.iter().map(|(_, disk)| disk.name.as_str()).collect();
            self.note(format!("leave out {}", names.join(" ")));
            Ok(())
        }

        fn map(&self, _: &Pair, disk: &Found, _: &Found) -> Result<(), String> {
            self.note(format!("map {}", disk.name));
            (!self.unmapped)
                .then_some(())
                .ok_or_else(|| "no".to_owned())
        }

        fn watch(&self) -> io::Result<()> {
            self.note("watch".to_owned());
            Ok(())
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks in memory that lose power.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use fastrand::Rng;
use tandem_rescue::Medium;

use tandem_stage::pair::{Pair, SECTOR, Sector};

/// When the power goes out, for two disks together.
#[derive(Default)]
pub struct Power {
    /// Writes and flushes so far.
    pub steps: Cell<u64>,
    /// The power goes out at this step.
    pub ends: Cell<Option<u64>>,
    /// Writes to the disk that were begun.
    pub disk_writes: Cell<u64>,
}

impl Power {
    fn step(&self) -> io::Result<()> {
        let step = self.steps.get();
        self.steps.set(step + 1);
        if self.ends.get().is_some_and(|ends| step >= ends) {
            return Err(io::Error::other("no power"));
        }
        Ok(())
    }
}

/// A disk in memory with a volatile cache.
pub struct Drive {
    power: Rc<Power>,
    is_disk: bool,
    durable: RefCell<Vec<Sector>>,
    volatile: RefCell<BTreeMap<u64, Vec<Sector>>>,
    /// Sectors that cannot be read.
    pub bad: RefCell<Vec<u64>>,
    /// Sectors that cannot be written: the write fails, or the next flush does.
    pub refuses: RefCell<Vec<u64>>,
    pub refuses_late: bool,
    refused: Cell<bool>,
}

impl Drive {
    pub fn new(content: Vec<Sector>, power: &Rc<Power>, is_disk: bool) -> Self {
        Self {
            power: Rc::clone(power),
            is_disk,
            durable: RefCell::new(content),
            volatile: RefCell::default(),
            bad: RefCell::default(),
            refuses: RefCell::default(),
            refuses_late: false,
            refused: Cell::new(false),
        }
    }

    /// What is left when the power has gone: of each sector any of the values written since the last flush, or the one before.
    pub fn after_power_cut(&self, rng: &mut Rng, keep: u8) -> Vec<Sector> {
        let mut left = self.durable.borrow().clone();
        for (sector, values) in self.volatile.borrow().iter() {
            if rng.u8(..) < keep {
                left[*sector as usize] = *rng.choice(values).unwrap();
            }
        }
        left
    }

    pub fn content(&self) -> Vec<Sector> {
        let mut all = self.durable.borrow().clone();
        for (sector, values) in self.volatile.borrow().iter() {
            all[*sector as usize] = *values.last().unwrap();
        }
        all
    }
}

impl Medium for Drive {
    fn name(&self) -> &str {
        if self.is_disk { "the disk" } else { "the SSD" }
    }

    fn sectors(&self) -> u64 {
        self.durable.borrow().len() as u64
    }

    fn read(&self, sector: u64, bytes: &mut [u8]) -> io::Result<()> {
        let volatile = self.volatile.borrow();
        let durable = self.durable.borrow();
        for (at, bytes) in (sector..).zip(bytes.as_chunks_mut::<SECTOR>().0) {
            if self.bad.borrow().contains(&at) {
                return Err(io::Error::other("bad sector"));
            }
            let newer = volatile.get(&at).and_then(|values| values.last());
            *bytes = match newer {
                Some(value) => *value,
                None => *durable
                    .get(at as usize)
                    .ok_or_else(|| io::Error::other("beyond the end"))?,
            };
        }
        Ok(())
    }

    fn write(&self, sector: u64, bytes: &[u8]) -> io::Result<()> {
        let cut = self.power.step();
        if self.is_disk {
            self.power.disk_writes.set(self.power.disk_writes.get() + 1);
        }
        let end = sector + bytes.len() as u64 / SECTOR as u64;
        if self
            .refuses
            .borrow()
            .iter()
            .any(|at| (sector..end).contains(at))
        {
            self.refused.set(self.refuses_late);
            return match self.refuses_late {
                true => cut,
                false => Err(io::Error::other("bad sector")),
            };
        }
        // A write that is cut may have moved any of its sectors.
        if cut.is_ok() || Some(self.power.steps.get() - 1) == self.power.ends.get() {
            for (at, bytes) in (sector..).zip(bytes.as_chunks::<SECTOR>().0) {
                self.volatile
                    .borrow_mut()
                    .entry(at)
                    .or_default()
                    .push(*bytes);
            }
        }
        cut
    }

    fn flush(&self) -> io::Result<()> {
        self.power.step()?;
        if self.refused.take() {
            return Err(io::Error::other("bad sector"));
        }
        let mut durable = self.durable.borrow_mut();
        for (sector, values) in std::mem::take(&mut *self.volatile.borrow_mut()) {
            durable[sector as usize] = *values.last().unwrap();
        }
        Ok(())
    }
}

/// The two drives of a pair.
pub struct Drives {
    pub power: Rc<Power>,
    pub disk: Drive,
    pub ssd: Drive,
}

impl Drives {
    pub fn new(disk: Vec<Sector>, ssd: Vec<Sector>, ends: Option<u64>) -> Self {
        let power = Rc::new(Power::default());
        power.ends.set(ends);
        Self {
            disk: Drive::new(disk, &power, true),
            ssd: Drive::new(ssd, &power, false),
            power,
        }
    }

    pub fn of(pair: &Pair) -> Self {
        Self::new(pair.disk.clone(), pair.ssd.clone(), None)
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Plays a recording: two disks with volatile caches, the history of the device above them, and what must be so at any
//! moment or at some that are marked.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use tandem_record_log::{Device, Event, Head, Request, SECTOR, Verb};
use tandem_sim::disk::{Disk, Luck};
use tandem_sim::stamp::Stamp;

use crate::contents::{Contents, fresh};
use crate::history::{History, Time};
use crate::recovered::{Recovered, Recovery};

/// The moment that the recording has come to.
pub struct Replay<'a> {
    events: &'a [Event<'a>],
    /// How many events have happened.
    pub now: Time,
    recovery: Recovery,
    disk: Disk,
    ssd: Disk,
    history: History,
    contents: Contents,
    under_way: HashMap<u32, (Request<'a>, Time)>,
    /// What the guest has marked so far.
    pub marks: Vec<&'a str>,
}

impl<'a> Replay<'a> {
    /// The moment before the first event.
    pub fn new(head: Head, events: &'a [Event<'a>]) -> Result<Self> {
        let device = |device, sectors| Disk::new(sectors, 1, |sector| fresh(device, sector));
        let base = (0..head.disk_sectors).map(|sector| fresh(Device::Disk, sector));
        Ok(Self {
            events,
            now: 0,
            recovery: Recovery::new(head)?,
            disk: device(Device::Disk, head.disk_sectors),
            ssd: device(Device::Ssd, head.ssd_sectors),
            history: History::new(base.collect()),
            contents: Contents::new(),
            under_way: HashMap::new(),
            marks: Vec::new(),
        })
    }

    /// Goes on until `until` events have happened.
    pub fn advance(&mut self, until: Time) -> Result<()> {
        while self.now < until {
            let event = self.events[self.now];
            self.now += 1;
            let happened = match event {
                Event::Begin(number, request) => self.begin(number, request),
                Event::End(number) => self.end(number),
                Event::Mark(mark) => self.mark(mark),
            };
            happened.with_context(|| format!("event {}", self.now))?;
        }
        Ok(())
    }

    fn begin(&mut self, number: u32, request: Request<'a>) -> Result<()> {
        self.under_way.insert(number, (request, self.now));
        let (sector, now) = (request.sector, self.now);
        let stamps: Vec<Stamp> = match request.verb {
            Verb::Flush => return Ok(()),
            Verb::Zero | Verb::ZeroFua => vec![Contents::ZEROES; request.count as usize],
            Verb::Write | Verb::WriteFua => {
                let sectors = request.data.as_chunks::<SECTOR>().0.iter();
                sectors
                    .map(|bytes| self.contents.name(bytes, now))
                    .collect()
            }
        };
        // Before the first mark the recording tells what was there.
        let given = self.marks.is_empty();
        let disk = match request.device {
            Device::Top => {
                self.history.begins(number, sector, &stamps, now);
                return Ok(());
            }
            Device::Disk => &mut self.disk,
            Device::Ssd => &mut self.ssd,
        };
        for (sector, &stamp) in (sector..).zip(&stamps) {
            disk.write(sector, stamp, u64::from(number));
            let offered = self.history.was_offered(sector as u32, stamp);
            ensure!(
                request.device == Device::Ssd || offered || given,
                "{} is written to sector {sector} of the disk, where nobody wrote it",
                self.contents.describe(stamp)
            );
        }
        Ok(())
    }

    fn end(&mut self, number: u32) -> Result<()> {
        let (request, begin) = self
            .under_way
            .remove(&number)
            .context("an end without a begin")?;
        let Request {
            device,
            verb,
            sector,
            count,
            ..
        } = request;
        let disk = match device {
            Device::Top if verb == Verb::Flush => {
                self.history.flushed(begin);
                return Ok(());
            }
            Device::Top => {
                self.history
                    .ends(number, sector, count, verb.is_fua(), self.now);
                return Ok(());
            }
            Device::Disk => &mut self.disk,
            Device::Ssd => &mut self.ssd,
        };
        if verb == Verb::Flush {
            disk.flush_completed(begin as u64);
        } else {
            let (count, now) = (u64::from(count), self.now as u64);
            disk.write_completed(sector, count, u64::from(number), verb.is_fua(), now);
        }
        Ok(())
    }

    fn mark(&mut self, mark: &'a str) -> Result<()> {
        self.marks.push(mark);
        let words: Vec<&str> = mark.split(' ').collect();
        match words[..] {
            ["error", ..] => anyhow::bail!("a request failed: {mark}"),
            ["given"] => {
                self.disk.flush_all();
                self.ssd.flush_all();
                let shown = self
                    .cut(Luck::Keep, Luck::Keep, &mut fastrand::Rng::new())?
                    .shown();
                self.history = History::new(shown);
            }
            ["stopped", used, dirty] => {
                let (used, dirty): (u64, u64) = (used.parse()?, dirty.parse()?);
                let next = self.cut(Luck::Lose, Luck::Lose, &mut fastrand::Rng::new())?;
                ensure!(
                    (next.used, next.dirty) == (used, dirty),
                    "after a clean stop with {used} slots in use and {dirty} sectors dirty the next start has {} and {}",
                    next.used,
                    next.dirty
                );
                next.check(&self.history, &self.contents)
                    .context("after a clean stop and a loss of both disks' caches")?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What core recovers if the power goes now.
    pub fn cut(&self, disk: Luck, ssd: Luck, rng: &mut fastrand::Rng) -> Result<Recovered> {
        let disk = self.disk.after_power_cut(disk, rng);
        let ssd = self.ssd.after_power_cut(ssd, rng);
        self.recovery.load(disk, ssd, &self.contents)
    }

    /// Whether what was recovered now is as it must be.
    pub fn check(&self, recovered: &Recovered) -> Result<()> {
        recovered.check(&self.history, &self.contents)
    }

    /// Requests in flight to the disks, and whether something would be lost by a cut.
    pub fn unsettled(&self) -> (bool, bool) {
        let below = |(request, _): &(Request<'_>, Time)| request.device != Device::Top;
        let volatile = !self.disk.is_durable() || !self.ssd.is_durable();
        (self.under_way.values().any(below), volatile)
    }

    /// The bytes of a content.
    pub fn bytes(&self, stamp: Stamp) -> [u8; SECTOR] {
        self.contents.bytes(stamp)
    }
}

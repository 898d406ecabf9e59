// SPDX-License-Identifier: GPL-3.0-or-later
//! Plays a recording on two disks with volatile caches, and checks what must hold at every moment and at marked ones.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use tandem_record_log::{Device, Event, Head, Request, SECTOR, Verb};
use tandem_sim::disk::{Disk, Luck};
use tandem_sim::engine::start::{COPIES, COPY_SECTORS, Flags, SuperError, Verdict};
use tandem_sim::stamp::Stamp;

use crate::contents::{Contents, fresh};
use crate::history::{History, Time};
use crate::recovered::{Recovered, Recovery};

/// The word for write-back in a table.
const WRITE_BACK: &str = "writeback";

/// What the module does, as far as superblocks and samples are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The module writes the first superblocks.
    Formats,
    /// The module reads the superblocks, and answers no request yet.
    Starts,
    /// The module answers requests; the disk may change.
    Serves,
    /// The module makes everything durable.
    Stops,
}

/// Whether a request writes a superblock or samples.
pub fn is_super_write(request: &Request<'_>) -> bool {
    let in_a_copy = |&copy: &u64| (copy..copy + COPY_SECTORS).contains(&request.sector);
    request.device == Device::Ssd && request.verb.has_data() && COPIES.iter().any(in_a_copy)
}

/// A recording that is played up to some event.
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
    /// The marks so far.
    pub marks: Vec<&'a str>,
    /// What the module does now.
    pub phase: Phase,
    /// The cache is or was in write-back since its start.
    wrote_back: bool,
}

impl<'a> Replay<'a> {
    /// The moment before the first event.
    pub fn new(head: Head, events: &'a [Event<'a>]) -> Result<Self> {
        let device = |device, sectors| Disk::new(sectors, 1, |sector| fresh(device, sector));
        let base = (0..head.disk_sectors).map(|sector| fresh(Device::Disk, sector));
        Ok(Self {
            events,
            now: 0,
            recovery: Recovery::new(head),
            disk: device(Device::Disk, head.disk_sectors),
            ssd: device(Device::Ssd, head.ssd_sectors),
            history: History::new(base.collect()),
            contents: Contents::new(),
            under_way: HashMap::new(),
            marks: Vec::new(),
            phase: Phase::Formats,
            wrote_back: false,
        })
    }

    /// Plays until `until` events have happened.
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
        // The writes before the first mark are what the disks held at first.
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
                "{} is written to sector {sector} of the disk, where no request wrote it",
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
                self.phase = Phase::Starts;
                self.disk.flush_all();
                self.ssd.flush_all();
                let shown = self
                    .cut(Luck::Keep, Luck::Keep, &mut fastrand::Rng::new())?
                    .shown();
                self.history = History::new(shown);
            }
            ["started", mode] => {
                self.phase = Phase::Serves;
                self.wrote_back = mode == WRITE_BACK;
            }
            ["mode", mode] => self.wrote_back |= mode == WRITE_BACK,
            ["stopping"] => self.phase = Phase::Stops,
            ["stopped", used, dirty, mode] => {
                let (used, dirty): (u64, u64) = (used.parse()?, dirty.parse()?);
                let next = self.cut(Luck::Lose, Luck::Lose, &mut fastrand::Rng::new())?;
                ensure!(
                    (next.used, next.dirty) == (used, dirty),
                    "after a clean stop with {used} slots in use and {dirty} sectors dirty the next start has {} and {}",
                    next.used,
                    next.dirty
                );
                let clean = next.superblock.is_ok_and(|flags| flags.has(Flags::CLEAN));
                ensure!(
                    clean == (mode != WRITE_BACK && dirty == 0),
                    "after a clean stop in {mode} with {dirty} sectors dirty the superblock says clean: {clean}"
                );
                ensure!(
                    next.stopped && next.samples == Verdict::Same,
                    "after a clean stop the samples say stopped: {}; of the disk they say {:?}",
                    next.stopped,
                    next.samples
                );
                self.check(&next)
                    .context("after a clean stop and a loss of both disks' caches")?;
                self.phase = Phase::Starts;
            }
            _ => {}
        }
        Ok(())
    }

    /// What a start finds if the power goes now.
    pub fn cut(&mut self, disk: Luck, ssd: Luck, rng: &mut fastrand::Rng) -> Result<Recovered> {
        let disk = self.disk.after_power_cut(disk, rng);
        let mut ssd = self.ssd.after_power_cut(ssd, rng);
        self.spoil(&mut ssd, rng);
        self.recovery.start(disk, ssd, &self.contents)
    }

    /// Where a superblock or samples are being written, one sector may hold what is neither old nor new. But a cut makes
    /// nothing that looks like another program's, so the magic stays, and zeroes stay where there is none.
    fn spoil(&mut self, ssd: &mut [Stamp], rng: &mut fastrand::Rng) {
        let requests = self.under_way.values().map(|(request, _)| request);
        let Some(request) = requests.into_iter().find(|request| is_super_write(request)) else {
            return;
        };
        let first = request.sector as usize;
        if ssd[first] == Contents::ZEROES || rng.bool() {
            return;
        }
        // Most of what is written is in the first sector; the others are zeroes before and after.
        let at = match rng.bool() {
            true => first,
            false => first + rng.usize(..request.count as usize),
        };
        ssd[at] = self.contents.spoiled(ssd[at], self.now, rng);
    }

    /// Whether what a start finds now is as it must be.
    pub fn check(&self, left: &Recovered) -> Result<()> {
        self.check_start(left)?;
        left.check(&self.history, &self.contents)
    }

    /// Whether the superblocks and the samples say what is true.
    fn check_start(&self, left: &Recovered) -> Result<()> {
        let flags = match left.superblock {
            Ok(flags) => flags,
            // A creation that was cut: the user creates the cache again.
            Err(SuperError::Blank | SuperError::Damaged) if self.phase == Phase::Formats => {
                return Ok(());
            }
            Err(error) => bail!("no superblock is taken: {error:?}"),
        };
        let clean = flags.has(Flags::CLEAN);
        ensure!(
            !clean || left.dirty == 0,
            "the superblock says clean, but {} sectors are dirty",
            left.dirty
        );
        let serves = self.phase == Phase::Serves;
        ensure!(
            !(clean && serves && self.wrote_back),
            "the superblock says clean while the cache is in write-back"
        );
        ensure!(
            left.samples != Verdict::Changed,
            "the samples say that the disk is another one"
        );
        ensure!(
            !(serves && left.stopped),
            "the samples say stopped while requests are served"
        );
        Ok(())
    }

    /// Whether requests to the disks are in flight, and whether a cut could lose something.
    pub fn unsettled(&self) -> (bool, bool) {
        let below = |(request, _): &(Request<'_>, Time)| request.device != Device::Top;
        let volatile = !self.disk.is_durable() || !self.ssd.is_durable();
        (self.under_way.values().any(below), volatile)
    }

    /// The bytes of a sector's content.
    pub fn bytes(&self, stamp: Stamp) -> [u8; SECTOR] {
        self.contents.bytes(stamp)
    }
}

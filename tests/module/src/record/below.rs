// SPDX-License-Identifier: GPL-3.0-or-later
//! The disk and the SSD below the cache, in memory, served by one thread so that their requests have one order.
//!
//! That order is any that two real disks could have: a request waits in a queue, any of those that wait is served next,
//! and now and then one of the disks is served only when the other has nothing to do. Requests that overlap keep
//! their order, for a log could not say otherwise which of them came last.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use fastrand::Rng;
use tandem_record_log::{Device, untouched};

use super::log::Log;
use super::nbd::{Request, Verb, readable};
use crate::io::SECTOR;

const PAGE: usize = 4096;
/// Requests that are served before another disk is the slow one.
const SPELL: usize = 64;
/// Milliseconds that the slow disk waits for the other one.
const PATIENCE: i32 = 2;

/// What is on a disk.
pub struct Content {
    device: Device,
    /// Pages that were written to.
    pages: Vec<Option<Box<[u8; PAGE]>>>,
}

impl Content {
    /// A disk that nobody has written to.
    pub fn new(device: Device, sectors: u64) -> Self {
        let pages = (sectors as usize).div_ceil(PAGE / SECTOR);
        Self {
            device,
            pages: (0..pages).map(|_| None).collect(),
        }
    }

    fn fresh(device: Device, page: usize) -> Box<[u8; PAGE]> {
        let mut bytes = Box::new([0; PAGE]);
        let first = page * (PAGE / SECTOR);
        for (sector, bytes) in (first as u64..).zip(bytes.as_chunks_mut::<SECTOR>().0) {
            *bytes = untouched(device, sector);
        }
        bytes
    }

    /// Calls for each page that the range touches, with where it begins in the page and in the range, and its length there.
    fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (usize, usize, usize, usize)> {
        let offset = offset as usize;
        (offset / PAGE..(offset + length).div_ceil(PAGE)).map(move |page| {
            let start = offset.max(page * PAGE);
            let end = (offset + length).min((page + 1) * PAGE);
            (page, start - page * PAGE, start - offset, end - start)
        })
    }

    /// Reads.
    pub fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for (page, from, to, count) in Self::pieces(offset, length) {
            let into = &mut bytes[to..to + count];
            match &self.pages[page] {
                Some(content) => into.copy_from_slice(&content[from..from + count]),
                None => into.copy_from_slice(&Self::fresh(self.device, page)[from..from + count]),
            }
        }
        bytes
    }

    /// Writes; zeroes if there are no bytes.
    pub fn write(&mut self, offset: u64, length: usize, bytes: &[u8]) {
        let device = self.device;
        for (page, to, from, count) in Self::pieces(offset, length) {
            let content = self.pages[page].get_or_insert_with(|| Self::fresh(device, page));
            let into = &mut content[to..to + count];
            match bytes.get(from..from + count) {
                Some(bytes) => into.copy_from_slice(bytes),
                None => into.fill(0),
            }
        }
    }
}

/// A request that waits.
struct Waiting {
    /// Which disk.
    disk: usize,
    request: Request,
    number: Option<u32>,
}

/// Both disks.
pub struct Below {
    content: [Content; 2],
    sockets: [UnixStream; 2],
    queue: Vec<Waiting>,
    log: Log,
    rng: Rng,
    /// Which disk is slow now, and for how many requests more.
    slow: Option<usize>,
    spell: usize,
}

impl Below {
    /// The disk and the SSD, in this order.
    pub fn new(content: [Content; 2], sockets: [UnixStream; 2], log: Log, seed: u64) -> Self {
        Self {
            content,
            sockets,
            queue: Vec::new(),
            log,
            rng: Rng::with_seed(seed),
            slow: None,
            spell: 0,
        }
    }

    /// Serves until the guest ends.
    pub fn serve(mut self) -> Result<()> {
        loop {
            let only_slow = self.queue.iter().all(|w| Some(w.disk) == self.slow);
            let patience = match (self.queue.is_empty(), only_slow) {
                (true, _) => -1,
                (_, true) => PATIENCE,
                _ => 0,
            };
            let fds = [0, 1].map(|disk: usize| self.sockets[disk].as_raw_fd());
            let ready = readable(fds, patience)?;
            for disk in (0..2).filter(|&disk| ready[disk]) {
                let request = Request::read(&mut self.sockets[disk])?;
                let number = self.log.begin(self.content[disk].device, &request)?;
                self.queue.push(Waiting {
                    disk,
                    request,
                    number,
                });
            }
            if !ready.contains(&true) && !self.queue.is_empty() {
                let next = self.pick();
                let waiting = self.queue.remove(next);
                self.carry_out(&waiting)?;
            }
        }
    }

    /// Any request that waits and comes after none that it overlaps.
    fn pick(&mut self) -> usize {
        if self.spell == 0 {
            self.spell = SPELL;
            self.slow = *self.rng.choice(&[None, Some(0), Some(1)]).unwrap_or(&None);
        }
        self.spell -= 1;
        let free = |&at: &usize| {
            let this = &self.queue[at];
            let before = &self.queue[..at];
            !before
                .iter()
                .any(|other| other.disk == this.disk && other.request.overlaps(&this.request))
        };
        let all: Vec<usize> = (0..self.queue.len()).filter(free).collect();
        let fast = all.iter().copied();
        let fast: Vec<usize> = fast
            .filter(|&at| Some(self.queue[at].disk) != self.slow)
            .collect();
        let from = if fast.is_empty() { all } else { fast };
        // The oldest overlaps nothing before it.
        self.rng.choice(from).unwrap_or(0)
    }

    fn carry_out(&mut self, waiting: &Waiting) -> Result<()> {
        let Waiting {
            disk,
            request,
            number,
        } = waiting;
        let content = &mut self.content[*disk];
        let mut data = Vec::new();
        match request.verb {
            Verb::Read => data = content.read(request.offset, request.length),
            Verb::Write | Verb::Zero => {
                content.write(request.offset, request.length, &request.data);
            }
            Verb::Flush | Verb::Disconnect => {}
        }
        self.log.end(*number);
        request
            .answer(&mut self.sockets[*disk], true, &data)
            .context("a disk cannot answer")
    }
}

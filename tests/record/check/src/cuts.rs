// SPDX-License-Identifier: GPL-3.0-or-later
//! Where a recording is cut, and what the cuts showed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use tandem_record_log::{Device, Event, Head, Request, Verb, Writer};
use tandem_sim::disk::Luck;

use crate::recovered::Recovered;
use crate::replay::Replay;

/// States of each moment: what survives is drawn anew for each.
const STATES: usize = 5;

/// What was asked for.
pub struct Wish {
    /// How many states to check at least.
    pub cuts: usize,
    /// Of everything that is drawn.
    pub seed: u64,
    /// Where to put states that are to be booted, and how many.
    pub states: Option<(PathBuf, usize)>,
}

/// What the states had to offer.
#[derive(Debug, Default)]
pub struct Seen {
    /// How many there were.
    pub cuts: usize,
    dirty: usize,
    in_flight: usize,
    volatile: usize,
    starting: usize,
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            cuts,
            dirty,
            in_flight,
            volatile,
            starting,
        } = self;
        write!(
            f,
            "{cuts} cuts: {dirty} left dirty data, {in_flight} hit requests in flight, {volatile} volatile data, {starting} a start"
        )
    }
}

fn luck(rng: &mut Rng) -> Luck {
    match rng.u8(..8) {
        0 => Luck::Keep,
        1..3 => Luck::Lose,
        3..6 => Luck::Writes(*rng.choice(&[40, 128, 216]).unwrap_or(&128)),
        _ => Luck::Blocks(*rng.choice(&[20, 128, 236]).unwrap_or(&128)),
    }
}

/// The first event from which on a cut leaves a cache.
fn beginning(events: &[Event<'_>]) -> Option<usize> {
    let begins = |event: &Event<'_>| matches!(event, Event::Mark("started" | "given"));
    events.iter().position(begins).map(|at| at + 1)
}

/// Moments to cut at, in order: half of them just when the file system was told that something is durable, a quarter
/// while the cache starts.
fn moments(events: &[Event<'_>], count: usize, rng: &mut Rng) -> Result<Vec<usize>> {
    let first = beginning(events).context("the recording has no cache")?;
    let (mut promises, mut starts) = (Vec::new(), Vec::new());
    let mut durable = HashSet::new();
    let mut starting = false;
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Begin(number, request)
                if request.device == Device::Top
                    && (request.verb == Verb::Flush || request.verb.is_fua()) =>
            {
                durable.insert(*number);
            }
            Event::End(number) if at >= first && durable.contains(number) => promises.push(at + 1),
            Event::Mark(mark) => starting = begins_a_start(mark),
            _ => {}
        }
        if starting {
            starts.push(at + 1);
        }
    }
    let mut moments: Vec<_> = (0..count)
        .map(|number| {
            let chosen = match number % 4 {
                0 | 1 => rng.choice(&promises),
                2 => rng.choice(&starts),
                _ => None,
            };
            chosen
                .copied()
                .unwrap_or_else(|| rng.usize(first..=events.len()))
        })
        .collect();
    moments.sort_unstable();
    Ok(moments)
}

/// Whether what follows this mark is a start of the cache.
fn begins_a_start(mark: &str) -> bool {
    mark == "given" || mark.starts_with("stopped")
}

/// Cuts a recording and checks what is left.
///
/// # Errors
/// A cut loses what it must not lose; or the recording shows something that must not be.
pub fn run(head: Head, events: &[Event<'_>], wish: &Wish) -> Result<Seen> {
    let mut rng = Rng::with_seed(wish.seed);
    let moments = moments(events, wish.cuts.div_ceil(STATES), &mut rng)?;
    // Only a file system that is there can be booted.
    let filled =
        |event: &Event<'_>| matches!(event, Event::Mark(mark) if mark.starts_with("file "));
    let bootable = events.iter().position(filled).unwrap_or(events.len());
    let first_bootable = moments.partition_point(|&at| at <= bootable);
    let mut replay = Replay::new(head, events)?;
    let mut seen = Seen::default();
    let mut saved = 0;
    for (number, &moment) in moments.iter().enumerate() {
        replay.advance(moment)?;
        let (in_flight, volatile) = replay.unsettled();
        let starting = replay.marks.last().is_some_and(|mark| begins_a_start(mark));
        for state in 0..STATES {
            let lucks = match state {
                0 => (Luck::Lose, Luck::Lose),
                _ => (luck(&mut rng), luck(&mut rng)),
            };
            let left = replay.cut(lucks.0, lucks.1, &mut rng);
            let checked = left.and_then(|left| replay.check(&left).map(|()| left));
            let left = checked.with_context(|| {
                format!(
                    "cut after event {moment}, state {state}: disk {:?}, SSD {:?}",
                    lucks.0, lucks.1
                )
            })?;
            seen.cuts += 1;
            seen.dirty += usize::from(left.dirty > 0);
            seen.in_flight += usize::from(in_flight);
            seen.volatile += usize::from(volatile);
            seen.starting += usize::from(starting);
            if let Some((directory, count)) = &wish.states
                && saved < *count
                && state == 1 + saved % (STATES - 1)
                && number >= first_bootable + saved * (moments.len() - first_bootable) / count
            {
                save(
                    &directory.join(format!("{saved}.state")),
                    head,
                    &replay,
                    &left,
                )?;
                saved += 1;
            }
        }
    }
    replay.advance(events.len())?;
    if let Some((_, count)) = &wish.states {
        ensure!(
            saved == *count,
            "{saved} states to be booted instead of {count}"
        );
    }
    Ok(seen)
}

/// Writes what a cut has left, as a recording that begins with it, and the marks until then.
fn save(path: &Path, head: Head, replay: &Replay<'_>, left: &Recovered) -> Result<()> {
    let mut writer = Writer::new(head);
    for mark in &replay.marks {
        writer.mark(mark);
    }
    let mut all = left.written().peekable();
    while let Some((device, sector, stamp)) = all.next() {
        let mut data = replay.bytes(stamp).to_vec();
        let mut count = 1;
        while let Some(&(_, _, stamp)) = all.peek()
            && all
                .next_if(|next| (next.0, next.1) == (device, sector + u64::from(count)))
                .is_some()
        {
            data.extend(replay.bytes(stamp));
            count += 1;
        }
        let number = writer.begin(Request {
            device,
            verb: Verb::Write,
            sector,
            count,
            data: &data,
        });
        writer.end(number);
    }
    std::fs::write(path, writer.bytes()).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use tandem_record_log::SECTOR;
    use tandem_sim::engine::{Core, Geometry};

    use super::*;

    const HEAD: Head = Head {
        disk_sectors: 16 << 11,
        ssd_sectors: 4 << 11,
    };

    /// A recording of a new cache.
    fn new_cache() -> Writer {
        let mut geometry = Geometry {
            origin_sectors: HEAD.disk_sectors,
            ssd_sectors: HEAD.ssd_sectors,
            block_sectors: 1,
            ..Geometry::default()
        };
        let core = Core::linked();
        assert!(core.plan(&mut geometry));
        let mut writer = Writer::new(HEAD);
        for (sector, data) in core.format(&geometry) {
            one(&mut writer, Device::Ssd, Verb::WriteFua, sector, &data);
        }
        writer.mark("started");
        writer
    }

    fn begin(writer: &mut Writer, device: Device, verb: Verb, sector: u64, data: &[u8]) -> u32 {
        writer.begin(Request {
            device,
            verb,
            sector,
            count: (data.len() / SECTOR) as u32,
            data,
        })
    }

    fn one(writer: &mut Writer, device: Device, verb: Verb, sector: u64, data: &[u8]) {
        let number = begin(writer, device, verb, sector, data);
        writer.end(number);
    }

    /// A write that goes to the disk, and a flush that is handed on if `honest`.
    fn flushed(honest: bool) -> Writer {
        let mut writer = new_cache();
        let data = [7; 8 * SECTOR];
        let write = begin(&mut writer, Device::Top, Verb::Write, 40, &data);
        one(&mut writer, Device::Disk, Verb::Write, 40, &data);
        writer.end(write);
        let flush = begin(&mut writer, Device::Top, Verb::Flush, 0, &[]);
        if honest {
            one(&mut writer, Device::Disk, Verb::Flush, 0, &[]);
        }
        writer.end(flush);
        writer
    }

    fn cut(writer: &Writer) -> Result<Seen> {
        let (head, events) = tandem_record_log::read(writer.bytes())?;
        let wish = Wish {
            cuts: 200,
            seed: 1,
            states: None,
        };
        run(head, &events, &wish)
    }

    fn error(writer: &Writer) -> String {
        format!("{:#}", cut(writer).unwrap_err())
    }

    #[test]
    fn what_was_flushed_must_be_there() {
        assert_eq!(cut(&flushed(true)).unwrap().cuts, 200);
        let error = error(&flushed(false));
        assert!(
            error.contains("shows what the disk held at first"),
            "{error}"
        );
    }

    #[test]
    fn the_disk_gets_what_was_written_and_nothing_else() {
        let mut writer = flushed(true);
        one(&mut writer, Device::Disk, Verb::Write, 41, &[8; SECTOR]);
        assert!(error(&writer).contains("where nobody wrote it"));
    }

    #[test]
    fn a_stop_must_be_warm() {
        let mut writer = flushed(true);
        writer.mark("stopped 0 0");
        assert!(cut(&writer).is_ok());
        writer.mark("stopped 1 0");
        assert!(error(&writer).contains("after a clean stop"));
    }
}

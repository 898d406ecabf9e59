// SPDX-License-Identifier: GPL-3.0-or-later
//! Cuts of a recording: at which moments, and whether each state that is left is right.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use tandem_record_log::{Device, Event, Head, Request, Verb, Writer};
use tandem_sim::disk::Luck;

use crate::recovered::Recovered;
use crate::replay::{Phase, Replay, is_super_write};

/// States after a cut at one moment. Each state keeps another random part of what is not durable.
const STATES: usize = 5;
/// Events after a start that still count as a part of it: nothing has made durable yet what the start wrote last.
const AFTER_START: usize = 40;
/// The state with one torn superblock, of those to be booted.
const TORN: &str = "torn";

/// What the command line asks for.
pub struct Options {
    /// How many states to check at least; those of writes of superblocks and samples come on top.
    pub cuts: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Directory for states that the caller boots, and how many of them to save.
    pub states: Option<(PathBuf, usize)>,
}

/// How many states were checked, and how many of them had which property.
#[derive(Debug, Default)]
pub struct Summary {
    /// All states.
    pub cuts: usize,
    dirty: usize,
    in_flight: usize,
    volatile: usize,
    starting: usize,
    supers: usize,
    torn: usize,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            cuts,
            dirty,
            in_flight,
            volatile,
            starting,
            supers,
            torn,
        } = self;
        write!(
            f,
            "{cuts} cuts: {dirty} left dirty data, {in_flight} hit requests in flight, {volatile} volatile data, {starting} a start, {supers} the write of a superblock or of samples; {torn} left one sound superblock"
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

/// Moments to cut at, each a number of events that have happened.
struct Moments {
    /// The first one.
    first: usize,
    /// The file system was just told that something is durable.
    promises: Vec<usize>,
    /// The cache is being made, or starts, or has just started.
    starts: Vec<usize>,
    /// A superblock or samples are being written, were just written, or must be durable from here on.
    supers: Vec<usize>,
}

impl Moments {
    fn of(events: &[Event<'_>]) -> Self {
        let given = |event: &Event<'_>| matches!(event, Event::Mark("given"));
        let first = events.iter().position(given).map_or(0, |at| at + 1);
        let mut moments = Self {
            first,
            promises: Vec::new(),
            starts: Vec::new(),
            supers: Vec::new(),
        };
        let (mut durable, mut super_writes) = (HashSet::new(), HashSet::new());
        let mut starting = usize::MAX;
        for (at, event) in events.iter().enumerate().skip(first) {
            match event {
                Event::Begin(number, request)
                    if request.device == Device::Top
                        && (request.verb == Verb::Flush || request.verb.is_fua()) =>
                {
                    durable.insert(*number);
                }
                Event::Begin(number, request) if is_super_write(request) => {
                    super_writes.insert(*number);
                    moments.supers.push(at + 1);
                }
                Event::End(number) if durable.contains(number) => moments.promises.push(at + 1),
                Event::End(number) if super_writes.contains(number) => moments.supers.push(at + 1),
                Event::Mark(mark) if mark.starts_with("started") => {
                    moments.supers.push(at + 1);
                    starting = AFTER_START;
                }
                Event::Mark("mode writeback") => moments.supers.push(at + 1),
                Event::Mark(mark) if mark.starts_with("stopped") => starting = usize::MAX,
                _ => {}
            }
            if starting > 0 {
                moments.starts.push(at + 1);
            }
            if starting != usize::MAX {
                starting = starting.saturating_sub(1);
            }
        }
        moments
    }

    /// In order: all writes of superblocks and samples, and `count` others, of which half are promises and a quarter starts.
    fn draw(&self, count: usize, last: usize, rng: &mut Rng) -> Vec<usize> {
        let mut drawn = self.supers.clone();
        drawn.extend((0..count).map(|number| {
            let chosen = match number % 4 {
                0 | 1 => rng.choice(&self.promises),
                2 => rng.choice(&self.starts),
                _ => None,
            };
            chosen
                .copied()
                .unwrap_or_else(|| rng.usize(self.first..=last))
        }));
        drawn.sort_unstable();
        drawn
    }
}

/// Cuts a recording and checks what is left.
///
/// # Errors
/// A state after a cut breaks a promise, or the recorded requests themselves do.
pub fn run(head: Head, events: &[Event<'_>], options: &Options) -> Result<Summary> {
    let mut rng = Rng::with_seed(options.seed);
    let kinds = Moments::of(events);
    let moments = kinds.draw(options.cuts.div_ceil(STATES), events.len(), &mut rng);
    // A state can be booted only if it has a file system.
    let filled =
        |event: &Event<'_>| matches!(event, Event::Mark(mark) if mark.starts_with("file "));
    let bootable = events.iter().position(filled).unwrap_or(events.len());
    let first_bootable = moments.partition_point(|&at| at <= bootable);
    let mut replay = Replay::new(head, events)?;
    let mut summary = Summary::default();
    let mut saved = 0;
    for (number, &moment) in moments.iter().enumerate() {
        replay.advance(moment)?;
        let (in_flight, volatile) = replay.unsettled();
        let starting = matches!(replay.phase, Phase::Formats | Phase::Starts);
        let supers = kinds.supers.binary_search(&moment).is_ok();
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
            summary.cuts += 1;
            summary.dirty += usize::from(left.dirty > 0);
            summary.in_flight += usize::from(in_flight);
            summary.volatile += usize::from(volatile);
            summary.starting += usize::from(starting);
            summary.supers += usize::from(supers);
            let torn = left.sound[0] != left.sound[1];
            summary.torn += usize::from(torn);
            // The start that follows writes copy 1 first.
            if let Some((directory, _)) = &options.states
                && left.sound == [true, false]
                && number >= first_bootable
            {
                save(
                    &directory.join(format!("{TORN}.state")),
                    head,
                    &replay,
                    &left,
                )?;
            }
            if let Some((directory, count)) = &options.states
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
    if let Some((_, count)) = &options.states {
        ensure!(
            saved == *count,
            "{saved} states to be booted instead of {count}"
        );
    }
    Ok(summary)
}

/// Saves a state as the beginning of another recording: the marks until the cut, then a write for each piece of content.
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
    use tandem_record_log::{SECTOR, untouched};
    use tandem_sim::engine::start::{BLOCK_BYTES, COPIES, Flags, Quarter};
    use tandem_sim::engine::{Core, Geometry};

    use super::*;

    const HEAD: Head = Head {
        disk_sectors: 16 << 11,
        ssd_sectors: 4 << 11,
    };

    fn geometry() -> Geometry {
        let mut geometry = Geometry {
            origin_sectors: HEAD.disk_sectors,
            ssd_sectors: HEAD.ssd_sectors,
            block_sectors: 1,
            ..Geometry::default()
        };
        assert!(Core::linked().plan(&mut geometry));
        geometry
    }

    /// Both copies of a superblock with these flags.
    fn supers(writer: &mut Writer, verb: Verb, flags: u32) {
        for (copy, sector) in (0..).zip(COPIES) {
            let data = Core::linked().encode_super(&geometry(), Flags(flags), copy);
            one(writer, Device::Ssd, verb, sector, &data);
        }
    }

    /// Both copies of samples of a disk whose quarters `quarter` reads.
    fn samples(writer: &mut Writer, verb: Verb, stopped: bool, quarter: Quarter<'_>) {
        for (copy, sector) in (0..).zip(COPIES) {
            let data = Core::linked().encode_samples(&geometry(), stopped, copy, quarter);
            one(writer, Device::Ssd, verb, sector + 8, &data);
        }
    }

    /// A quarter of the disk that nobody has written to, but for eight sectors from 40 on.
    fn written(sector: u64) -> Option<[u8; BLOCK_BYTES]> {
        let mut bytes = [0; BLOCK_BYTES];
        for (at, bytes) in (sector..).zip(bytes.as_chunks_mut::<SECTOR>().0) {
            *bytes = match at {
                40..48 => [7; SECTOR],
                _ => untouched(Device::Disk, at),
            };
        }
        Some(bytes)
    }

    fn index(writer: &mut Writer) {
        for (sector, data) in Core::linked().format(&geometry()) {
            one(writer, Device::Ssd, Verb::WriteFua, sector, &data);
        }
    }

    /// A recording of a new cache.
    fn new_cache() -> Writer {
        let mut writer = Writer::new(HEAD);
        index(&mut writer);
        supers(&mut writer, Verb::WriteFua, Flags::CLEAN);
        writer.mark("started writethrough");
        writer
    }

    /// A clean stop of the cache of [`flushed`] with what is then on the SSD.
    fn stopped(verb: Verb, quarter: Quarter<'_>) -> Writer {
        let mut writer = flushed(true);
        writer.mark("stopping");
        samples(&mut writer, verb, true, quarter);
        writer.mark("stopped 0 0 writethrough");
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

    fn cut(writer: &Writer) -> Result<Summary> {
        let (head, events) = tandem_record_log::read(writer.bytes())?;
        let options = Options {
            cuts: 200,
            seed: 1,
            states: None,
        };
        run(head, &events, &options)
    }

    fn error(writer: &Writer) -> String {
        format!("{:#}", cut(writer).unwrap_err())
    }

    #[test]
    fn what_was_flushed_must_be_there() {
        assert!(cut(&flushed(true)).unwrap().cuts >= 200);
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
        assert!(error(&writer).contains("where no request wrote it"));
    }

    #[test]
    fn a_stop_must_be_warm() {
        let mut writer = stopped(Verb::WriteFua, &written);
        assert!(cut(&writer).is_ok());
        writer.mark("stopped 1 0 writethrough");
        assert!(error(&writer).contains("after a clean stop"));
    }

    #[test]
    fn samples_must_be_durable_and_true() {
        let volatile = error(&stopped(Verb::Write, &written));
        assert!(
            volatile.contains("the samples say stopped: false"),
            "{volatile}"
        );
        let untrue = error(&stopped(Verb::WriteFua, &|_| Some([1; BLOCK_BYTES])));
        assert!(untrue.contains("the disk is another one"), "{untrue}");
    }

    #[test]
    fn no_samples_while_requests_are_served() {
        let mut writer = stopped(Verb::WriteFua, &written);
        samples(&mut writer, Verb::Write, false, &written);
        writer.mark("started writethrough");
        let error = error(&writer);
        assert!(
            error.contains("say stopped while requests are served"),
            "{error}"
        );
    }

    #[test]
    fn a_superblock_comes_after_its_index() {
        let mut writer = Writer::new(HEAD);
        supers(&mut writer, Verb::WriteFua, Flags::CLEAN);
        index(&mut writer);
        writer.mark("started writethrough");
        let error = error(&writer);
        assert!(error.contains("the index is found Damaged"), "{error}");
    }

    #[test]
    fn a_superblock_is_durable_before_the_first_request() {
        let mut writer = Writer::new(HEAD);
        index(&mut writer);
        supers(&mut writer, Verb::Write, Flags::CLEAN);
        writer.mark("started writethrough");
        let error = error(&writer);
        assert!(error.contains("no superblock is taken: Blank"), "{error}");
    }

    #[test]
    fn clean_goes_before_write_back_begins() {
        let mut writer = new_cache();
        writer.mark("mode writeback");
        let error = error(&writer);
        assert!(
            error.contains("clean while the cache is in write-back"),
            "{error}"
        );
    }
}

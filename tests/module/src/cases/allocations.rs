// SPDX-License-Identifier: GPL-3.0-or-later
//! Every allocation that may fail, one after the other, until none is left: of a table's life, of each kind of request, and
//! of the kernel's workers while they fill, clean and record (promise 26).

use std::fs::File;

use anyhow::{Context, Result, bail, ensure};

use super::Entry;
use super::flaky::{MODES, small};
use super::writeback::write_quarters;
use crate::dm::{Dm, Line, is_errno};
use crate::faults::{self, Allocations, numbers};
use crate::io::{self, MIB};
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[
    // promise 26: uml-plain/injected: each allocation of a table's life fails
    ("injected: each allocation of a table's life fails", life),
    // promise 26: uml-plain/injected: each allocation of requests fails
    ("injected: each allocation of requests fails", requests),
    // promise 26: uml-plain/injected: each allocation of workers fails
    ("injected: each allocation of workers fails", workers),
];

/// Lets each allocation of `act` fail. If `act` fails, it has to succeed when it is tried again.
fn each(
    what: &str,
    prepare: impl FnMut() -> Result<()>,
    act: impl FnMut() -> Result<()>,
) -> Result<()> {
    each_and(what, prepare, act, || Ok(()))
}

/// The same with a look at what it came to, which has all the memory that it needs.
fn each_and(
    what: &str,
    mut prepare: impl FnMut() -> Result<()>,
    mut act: impl FnMut() -> Result<()>,
    mut check: impl FnMut() -> Result<()>,
) -> Result<()> {
    let allocations = Allocations::of_this_thread()?;
    let (mut tried, mut refused) = (0, 0);
    for n in numbers(2000) {
        prepare().with_context(|| format!("{what}: before allocation {n}"))?;
        let (result, failed) = allocations.fail(n, &mut act)?;
        if !failed {
            println!(
                "     {what}: {tried} of {} allocations failed, {refused} times it was refused",
                n - 1
            );
            return result.with_context(|| format!("{what}: without a failure"));
        }
        tried += 1;
        if let Err(error) = result {
            refused += 1;
            no_memory(&error).with_context(|| format!("{what}: allocation {n}: {error:#}"))?;
            act().with_context(|| format!("{what}: after allocation {n} failed"))?;
        }
        check().with_context(|| format!("{what}: allocation {n} failed"))?;
    }
    Ok(())
}

/// An error says plainly what is short.
fn no_memory(error: &anyhow::Error) -> Result<()> {
    ensure!(
        is_errno(error, rustix::io::Errno::NOMEM),
        "the error is another than that memory is short"
    );
    Ok(())
}

fn life() -> Result<()> {
    faults::needed()?;
    let (mut rig, mut model) = Rig::new(small("writeback"))?;
    write_quarters(&rig, &mut model, 60, 1)?;
    let device = rig.mapped()?;
    each(
        "load",
        || device.clear(),
        || device.load(rig.good_line(false)),
    )?;
    each("suspend", || device.resume(), || device.suspend())?;
    device.resume()?;
    each(
        "resume of another table",
        || {
            device.load(rig.good_line(false))?;
            device.suspend()
        },
        || device.resume(),
    )?;
    for words in [
        ["flush stop", "flush start"],
        ["mode writeback", "mode writethrough"],
        ["mode writeback", "drop"],
    ] {
        each(
            words[1],
            || device.message(words[0]),
            || device.message(words[1]),
        )?;
    }
    device.message("flush stop")?;
    each("status", || Ok(()), || device.status().map(drop))?;
    rig.equals(&model)?;

    write_quarters(&rig, &mut model, 60, 2)?;
    let dirty = rig.status()?.dirty;
    ensure!(dirty > 0, "a start with nothing dirty");
    rig.detach()?;
    for format in [false, true] {
        let fresh = Rig::disks(small("writeback"))?;
        let rig = if format { &fresh } else { &rig };
        // A new cache is one until its superblocks are there.
        let blank = || rig.ssd.put(0, &vec![0; MIB]);
        let device = Dm::create(&format!("{}-start", rig.name))?;
        each_and(
            if format { "first start" } else { "start" },
            || {
                let _ = device.suspend();
                let _ = device.load(Line::new(rig.origin.sectors(), "error", ""));
                device.resume()?;
                if format {
                    blank()?;
                }
                device.load(rig.good_line(format))?;
                device.suspend()
            },
            || device.resume(),
            || match io::compare(device.path(), &model)? {
                Some(difference) if !format => bail!("{difference}"),
                _ => Ok(()),
            },
        )?;
    }
    rig.attach(false)?;
    rig.equals(&model)
}

/// Disks in memory that have all of theirs, or they would be what fails.
fn filled(config: Config) -> Result<(Rig, Vec<u8>)> {
    let mut config = config;
    (config.origin.volatile, config.ssd.volatile) = (false, false);
    let mut rig = Rig::disks(config)?;
    rig.ssd
        .put(0, &vec![0; usize::try_from(config.ssd.mib)? * MIB])?;
    let model = rig.origin.fill(3)?;
    rig.attach(true)?;
    Ok((rig, model))
}

/// One kind of request: what comes before it, and itself, at this place of 48 KiB of the device.
struct Kind {
    name: &'static str,
    prepare: fn(&Files, &mut Place) -> Result<()>,
    act: fn(&Files, &mut Place) -> Result<()>,
}

struct Files {
    plain: File,
    durable: File,
}

/// A place of the device, and what is there.
struct Place<'a> {
    at: u64,
    bytes: &'a mut [u8],
}

const PLACE: usize = 48 << 10;

impl Place<'_> {
    fn write(&mut self, file: &File, from: usize, length: usize) -> Result<()> {
        let range = from..from + length;
        fastrand::fill(&mut self.bytes[range.clone()]);
        io::write(file, self.at + from as u64, &self.bytes[range])
    }

    fn read(&mut self, file: &File) -> Result<()> {
        let read = io::read(file, self.at, PLACE)?;
        ensure!(read[..] == *self.bytes, "wrong data at {}", self.at);
        Ok(())
    }
}

const KINDS: &[Kind] = &[
    Kind {
        name: "read that misses",
        prepare: |_, _| Ok(()),
        act: |files, place| place.read(&files.plain),
    },
    Kind {
        name: "read again",
        prepare: |files, place| place.read(&files.plain),
        act: |files, place| place.read(&files.plain),
    },
    Kind {
        name: "first write",
        prepare: |_, _| Ok(()),
        act: |files, place| place.write(&files.plain, 4096, 4096),
    },
    Kind {
        name: "write again",
        prepare: |files, place| place.write(&files.plain, 4096, 4096),
        act: |files, place| place.write(&files.plain, 4096, 4096),
    },
    Kind {
        name: "write over a copy",
        prepare: |files, place| place.read(&files.plain),
        act: |files, place| place.write(&files.plain, 512, 40 << 10),
    },
    Kind {
        name: "durable write",
        prepare: |_, _| Ok(()),
        act: |files, place| place.write(&files.durable, 8192, 8192),
    },
    Kind {
        name: "flush",
        prepare: |files, place| place.write(&files.plain, 0, 16384),
        act: |files, _| Ok(files.plain.sync_all()?),
    },
    Kind {
        name: "zero-out",
        prepare: |files, place| place.write(&files.plain, 0, 16384),
        act: |files, place| {
            place.bytes[4096..12288].fill(0);
            io::zero(&files.plain, place.at + 4096, 8192)
        },
    },
];

fn requests() -> Result<()> {
    faults::needed()?;
    for mode in MODES {
        let mut config = small(mode);
        config.origin.mib = 24;
        let (rig, mut model) = filled(config)?;
        let files = Files {
            plain: io::direct(&rig.path()?)?,
            durable: io::durable(&rig.path()?)?,
        };
        let allocations = Allocations::of_this_thread()?;
        let mut places = model.chunks_exact_mut(PLACE).enumerate();
        let mut counts = Vec::new();
        for kind in KINDS {
            for n in numbers(2000) {
                let what = || format!("{mode}: {}: allocation {n}", kind.name);
                let (number, bytes) = places.next().context("the device is too small")?;
                let at = (number * PLACE) as u64;
                let mut place = Place { at, bytes };
                (kind.prepare)(&files, &mut place).with_context(what)?;
                let (result, failed) = allocations.fail(n, || (kind.act)(&files, &mut place))?;
                if let Err(error) = &result {
                    ensure!(failed, "{}: {error:#}", what());
                    no_memory(error).with_context(|| format!("{}: {error:#}", what()))?;
                    (kind.act)(&files, &mut place).with_context(|| format!("{}, again", what()))?;
                }
                place.read(&files.plain).with_context(what)?;
                if !failed {
                    counts.push(format!("{} {}", kind.name, n - 1));
                    ensure!(n > 1, "{}: there was none", what());
                    break;
                }
            }
        }
        println!("     {mode}: {}", counts.join(", "));
        let status = rig.quiet()?;
        ensure!(status.state == "active", "{status:?}");
        drop((places, files));
        rig.equals(&model).context(mode)?;
    }
    Ok(())
}

/// The module's own work needs no memory there; what is below it takes from reserves, so nothing fails.
fn workers() -> Result<()> {
    faults::needed()?;
    let mut config = small("writeback");
    (config.origin_under, config.ssd_under) = (Some(Under::Linear), Some(Under::Linear));
    // A disk in memory that has trimmed needs memory to be written.
    config.ssd.discard = false;
    let (rig, mut model) = filled(config)?;
    let device = rig.mapped()?;
    let mut tried = 0;
    for n in numbers(40) {
        write_quarters(&rig, &mut model, 60, u64::from(n))?;
        device.message("drop")?;
        let allocations = Allocations::of_workers()?;
        let (result, failed) = allocations.fail(n, || {
            // Fills of what was dropped, a recorded group, a drain, and one by a change of the mode.
            let file = io::direct(&rig.path()?)?;
            io::read(&file, 0, 2 * MIB)?;
            file.sync_all()?;
            rig.drain()?;
            write_quarters(&rig, &mut model, 30, u64::from(n))?;
            device.message("mode writethrough")?;
            rig.wait_clean()?;
            device.message("mode writeback")
        })?;
        result.with_context(|| format!("allocation {n} of a worker"))?;
        rig.shows(&model)
            .with_context(|| format!("allocation {n} of a worker"))?;
        if !failed {
            println!("     {tried} of {} allocations failed", n - 1);
            break;
        }
        tried += 1;
    }
    ensure!(tried > 0, "workers allocate nothing, so nothing was tried");
    let status = rig.quiet()?;
    ensure!(
        status.state == "active"
            && status.get("disk_errors")? == 0
            && status.get("ssd_errors")? == 0,
        "{status:?}"
    );
    rig.equals(&model)
}

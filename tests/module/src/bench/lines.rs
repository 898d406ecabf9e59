// SPDX-License-Identifier: GPL-3.0-or-later
//! Requests on eight processors, for a plugin of QEMU that follows the lines of their caches: `tests/bench/lines/lines.c` says
//! what the marks are for, and prints the figures.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::devices::Device;
use super::{BLOCK, warm};
use crate::io::{self, Buffer};

/// As in the plugin.
const PAGE: usize = 0x5000_0000_0000;
const LINE: usize = 64;
const PROCESSORS: usize = 8;
const REQUESTS: usize = 128;

/// Bytes that the requests of a processor go to: a file of its own, so to say.
const RANGE: usize = io::MIB;
/// Where nobody has read or written.
const FRESH: std::ops::Range<usize> = 32 * io::MIB..40 * io::MIB;
/// From one of those blocks to the next.
const STRIDE: usize = 32 * 1024;
const ROUNDS: usize = 200;

/// The meaning of a store to the page.
#[derive(Clone, Copy)]
enum Mark {
    Begin,
    End,
    NextKind,
    Beside,
    BesideEnds,
    Report,
}

/// Tells the plugin, of this processor. The page has to be there.
fn mark(mark: Mark, processor: usize) {
    let at = (PAGE + (mark as usize * PROCESSORS + processor) * LINE) as *mut u8;
    // SAFETY: `run` has mapped the page, for good, and nothing else uses it.
    unsafe { at.write_volatile(1) };
}

/// Makes the requests: reads that hit, writes of what was just written, and beside them reads and writes that miss.
pub fn run(device: &Device) -> Result<()> {
    let (read_write, fixed) = (
        ProtFlags::READ | ProtFlags::WRITE,
        MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE | MapFlags::POPULATE,
    );
    // SAFETY: nothing is mapped at this address, or the call fails.
    unsafe { mmap_anonymous(PAGE as *mut _, 4096, read_write, fixed)? };
    // The first processor's own lines are not written by workers for another processor.
    fs::write("/sys/devices/virtual/workqueue/cpumask", "fe").context("masks of workers")?;
    let all: Vec<u64> = offsets(0..PROCESSORS * RANGE);
    warm(
        device,
        &io::direct_without_times(device.path())?,
        &all,
        BLOCK,
        ROUNDS,
    )?;
    let path = device.path();
    thread::scope(|scope| {
        // All threads are there before the first request: none has the memory of another one that ended.
        let mut turns = Vec::new();
        for processor in 0..PROCESSORS {
            let (go, turn) = mpsc::channel::<bool>();
            let (done, ended) = mpsc::channel();
            scope.spawn(move || {
                let made = requests(path, processor, &turn, &done);
                let _ = done.send(made);
            });
            turns.push((go, ended));
        }
        for write in [false, true] {
            if write {
                mark(Mark::NextKind, 0);
            }
            for (go, ended) in &turns {
                go.send(write)?;
                ended.recv()??;
            }
        }
        // The threads are still there: nothing else gets their memory.
        misses(path)
    })?;
    mark(Mark::Report, 0);
    Ok(())
}

fn offsets(range: std::ops::Range<usize>) -> Vec<u64> {
    range.step_by(BLOCK).map(|at| at as u64).collect()
}

fn stay_on(processor: usize) -> Result<()> {
    let mut one = CpuSet::new();
    one.set(processor);
    Ok(sched_setaffinity(None, &one)?)
}

/// Makes the requests of a processor in each turn.
fn requests(
    path: &Path,
    processor: usize,
    turn: &mpsc::Receiver<bool>,
    done: &mpsc::Sender<Result<()>>,
) -> Result<()> {
    stay_on(processor)?;
    let file = io::direct_without_times(path)?;
    let mut buffer = Buffer::of(&io::random(BLOCK, 1))?;
    let offsets = offsets(processor * RANGE..(processor + 1) * RANGE);
    let offsets = offsets.iter().cycle().step_by(3);
    while let Ok(write) = turn.recv() {
        for measured in [false, true] {
            for offset in offsets.clone().take(REQUESTS) {
                if measured {
                    mark(Mark::Begin, processor);
                }
                match write {
                    true => file.write_all_at(&buffer, *offset)?,
                    false => file.read_exact_at(&mut buffer, *offset)?,
                }
                if measured {
                    mark(Mark::End, processor);
                }
            }
        }
        done.send(Ok(())).map_err(|_| anyhow!("nobody waits"))?;
    }
    Ok(())
}

/// Reads and writes on the last processor what no cache has, and makes it durable.
fn misses(path: &Path) -> Result<()> {
    stay_on(PROCESSORS - 1)?;
    let file = io::direct_without_times(path)?;
    let mut buffer = Buffer::new(BLOCK)?;
    mark(Mark::Beside, 0);
    for at in FRESH.step_by(STRIDE) {
        file.read_exact_at(&mut buffer, at as u64)?;
        file.write_all_at(&buffer, (at + STRIDE / 2) as u64)?;
    }
    file.sync_all()?;
    mark(Mark::BesideEnds, 0);
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! From creation to removal: superblock, table, suspend, reload, the swap to the plain disk, the module itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::Entry;
use crate::disk::Shape;
use crate::dm::{Dm, Line};
use crate::io::{self, MIB};
use crate::model::{Mix, drive, seeded};
use crate::module;
use crate::rig::{Config, Rig};

pub const CASES: &[Entry] = &[
    // promise 22: uml-plain/life: a new cache writes superblocks on the SSD only
    (
        "life: a new cache writes superblocks on the SSD only",
        create,
    ),
    ("life: stop and start again", restart),
    (
        "life: the same line with `format new` may be loaded again",
        same_line,
    ),
    // promise 25: uml-plain/life: suspend and resume under load
    ("life: suspend and resume under load", || {
        suspend("writethrough")
    }),
    // promise 25: uml-plain/life: suspend and resume under load, write-back
    ("life: suspend and resume under load, write-back", || {
        suspend("writeback")
    }),
    // promise 25: uml-plain/life: table reload under load, with every mode
    ("life: table reload under load, with every mode", reload),
    // promise 28: uml-plain/life: swap to the plain disk under load
    ("life: swap to the plain disk under load", swap_out),
    (
        "life: remove while buffered data is unwritten",
        remove_dirty,
    ),
    ("life: three caches at once", three),
    (
        "life: caches made and removed leave no memory behind",
        no_memory_left,
    ),
];

pub const LAST: &[Entry] = &[("life: module removed and loaded again", unload)];

fn create() -> Result<()> {
    let mut rig = Rig::disks(Config::default())?;
    let model = rig.origin.fill(1)?;
    let (disk, ssd) = (rig.origin.stat()?, rig.ssd.stat()?);
    let name = rig.name.clone();
    let device = Dm::create(&name)?;
    device.load(rig.good_line(true))?;
    ensure!(
        (rig.ssd.stat()? - ssd).written == 0,
        "the constructor wrote to the SSD"
    );
    device.clear()?;
    ensure!(
        (rig.ssd.stat()? - ssd).written == 0,
        "a table that was never live left a trace on the SSD"
    );
    drop(device);
    rig.attach(true)?;
    ensure!(
        (rig.ssd.stat()? - ssd).written > 0,
        "no superblock was written"
    );
    ensure!(
        (rig.ssd.stat()? - ssd).flushes > 0,
        "the superblock was not flushed"
    );
    let table = rig.mapped()?.table()?;
    let words: Vec<&str> = table.split_whitespace().collect();
    ensure!(words.get(2) == Some(&"writethrough"), "table {table}");
    ensure!(table.contains(&rig.words(false)[2..]), "table {table}");
    ensure!(!table.contains("format"), "table {table}");
    let status = rig.status()?;
    ensure!(
        status.state == "active" && status.reason == "-" && status.frame == 32,
        "{status:?}"
    );
    ensure!(
        status.used == 0 && status.total > 0 && status.dirty == 0,
        "{status:?}"
    );
    ensure!(
        status.total * 16384 > 13 * MIB as u64,
        "{} frames of a 16 MiB SSD",
        status.total
    );
    rig.equals(&model)?;
    ensure!(
        (rig.origin.stat()? - disk).written == 0,
        "the disk was written"
    );
    Ok(())
}

fn restart() -> Result<()> {
    let (mut rig, mut model) = Rig::new(Config::default())?;
    for round in 0..3 {
        {
            let file = io::direct(&rig.path()?)?;
            drive(
                &file,
                &mut model,
                &mut seeded(round),
                Mix::new(8 * MIB),
                300,
            )?;
        }
        rig.quiet()?;
        rig.detach()?;
        ensure!(
            rig.origin.content()? == model,
            "the plain disk is not what the device showed"
        );
        rig.attach(false)?;
        rig.equals(&model)
            .with_context(|| format!("round {round}"))?;
    }
    Ok(())
}

fn same_line() -> Result<()> {
    let (mut rig, model) = Rig::new(Config::default())?;
    rig.mapped()?.load(rig.good_line(true))?;
    rig.mapped()?.suspend()?;
    rig.mapped()?.resume()?;
    rig.detach()?;
    rig.attach(true)?;
    rig.equals(&model)
}

/// Requests in threads on parts of a device of their own, until told to stop; each returns its part's content.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Vec<u8>>>>,
}

impl Load {
    /// Starts `count` threads, each with its own part of the content.
    pub fn start(path: &Path, content: &[u8], count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let part = content.len() / count;
        let threads = content
            .chunks(part)
            .take(count)
            .enumerate()
            .map(|(number, content)| {
                let (mut model, stop, path) =
                    (content.to_owned(), Arc::clone(&stop), path.to_owned());
                let offset = (number * part) as u64;
                thread::spawn(move || {
                    part_load(&path, offset, &mut model, number as u64, &stop)?;
                    Ok(model)
                })
            })
            .collect();
        Self { stop, threads }
    }

    /// Stops, and returns what the device should hold.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut content = Vec::new();
        for thread in self.threads.drain(..) {
            let part = thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))?;
            content.extend_from_slice(&part?);
        }
        Ok(content)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn part_load(
    path: &Path,
    offset: u64,
    model: &mut [u8],
    seed: u64,
    stop: &AtomicBool,
) -> Result<()> {
    let file = io::direct(path)?;
    let mut rng = seeded(seed);
    while !stop.load(Ordering::Relaxed) {
        let length = 512 << rng.u32(0..8);
        let start = rng.usize(0..=(model.len() - length) / 512) * 512;
        let range = start..start + length;
        let at = offset + start as u64;
        match rng.u8(0..20) {
            0 => file.sync_all()?,
            1 => {
                io::zero(&file, at, length as u64)?;
                model[range].fill(0);
            }
            2..8 => {
                rng.fill(&mut model[range.clone()]);
                io::write(&file, at, &model[range])?;
            }
            _ => {
                if let Some(difference) =
                    io::difference(&io::read(&file, at, length)?, &model[range])
                {
                    anyhow::bail!("{length} bytes at {at}: {difference}");
                }
            }
        }
    }
    Ok(())
}

fn slow() -> Config {
    let mut config = Config::default();
    config.origin.delay_ns = 200_000;
    config.ssd.delay_ns = 50_000;
    config
}

fn suspend(mode: &'static str) -> Result<()> {
    let (rig, model) = Rig::new(Config { mode, ..slow() })?;
    let load = Load::start(&rig.path()?, &model, 4);
    for _ in 0..15 {
        thread::sleep(Duration::from_millis(60));
        let suspended = rig.mapped()?.suspended()?;
        ensure!(
            rig.status()?.state == "suspended",
            "state {}",
            rig.status()?.state
        );
        let before = (rig.origin.stat()?, rig.ssd.stat()?);
        thread::sleep(Duration::from_millis(20));
        ensure!(
            before == (rig.origin.stat()?, rig.ssd.stat()?),
            "requests while suspended"
        );
        rig.status()?.adds_up().context("suspended")?;
        drop(suspended);
    }
    let model = load.finish()?;
    rig.quiet()?;
    rig.equals(&model)
}

fn reload() -> Result<()> {
    let (rig, model) = Rig::new(slow())?;
    let load = Load::start(&rig.path()?, &model, 4);
    let mut requested = 0;
    for round in 0..15 {
        thread::sleep(Duration::from_millis(60));
        let mode = ["writearound", "writeback", "writethrough", "writeback"][round % 4];
        rig.mapped()?
            .load(rig.line(&format!("{mode} {}", rig.words(false))))?;
        rig.mapped()?.suspend()?;
        rig.mapped()?.resume()?;
        let status = rig.status()?;
        ensure!(status.mode == mode, "mode {} after the reload", status.mode);
        ensure!(
            status.get("read_requested")? >= requested,
            "a reload lost the counters"
        );
        requested = status.get("read_requested")?;
    }
    let model = load.finish()?;
    rig.quiet()?;
    rig.equals(&model)
}

/// What "Flush and Remove" does: no unmount, and the SSD is free at once.
fn swap_out() -> Result<()> {
    let (rig, model) = Rig::new(slow())?;
    let load = Load::start(&rig.path()?, &model, 4);
    thread::sleep(Duration::from_millis(300));
    rig.mapped()?.load(Line::new(
        rig.origin.sectors(),
        "linear",
        format!("{} 0", rig.origin.path().display()),
    ))?;
    rig.mapped()?.suspend()?;
    rig.mapped()?.resume()?;
    let ssd = rig.ssd.stat()?;
    io::exclusive(rig.ssd.path()).context("the SSD is still held")?;
    thread::sleep(Duration::from_millis(300));
    ensure!(
        (rig.ssd.stat()? - ssd).written == 0,
        "the SSD is still written"
    );
    let model = load.finish()?;
    rig.equals(&model)
}

fn remove_dirty() -> Result<()> {
    let (mut rig, mut model) = Rig::new(slow())?;
    {
        use std::os::unix::fs::FileExt;
        let file = io::buffered(&rig.path()?)?;
        let content = io::random(6 * MIB, 3);
        file.write_all_at(&content, 0)?;
        model[..6 * MIB].copy_from_slice(&content);
    }
    rig.detach()?;
    ensure!(
        io::difference(&rig.origin.content()?, &model).is_none(),
        "the plain disk lacks data"
    );
    Ok(())
}

fn three() -> Result<()> {
    let mut rigs = Vec::new();
    for (origin, ssd) in [(16, 4), (24, 8), (12, 12)] {
        rigs.push(Rig::new(Config {
            origin: Shape::new(origin),
            ssd: Shape::new(ssd),
            ..Config::default()
        })?);
    }
    let threads: Vec<JoinHandle<Result<Vec<u8>>>> = rigs
        .iter_mut()
        .map(|(rig, model)| {
            let (path, mut model): (Result<PathBuf>, _) = (rig.path(), std::mem::take(model));
            thread::spawn(move || {
                let file = io::direct(&path?)?;
                let mut rng = seeded(model.len() as u64);
                drive(
                    &file,
                    &mut model,
                    &mut rng,
                    Mix {
                        longest: 128,
                        ..Mix::new(8 * MIB)
                    },
                    1500,
                )?;
                Ok(model)
            })
        })
        .collect();
    for ((rig, _), thread) in rigs.iter().zip(threads) {
        let model = thread
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        rig.quiet()?;
        rig.equals(&model)?;
    }
    Ok(())
}

/// KiB of objects that kernel code holds, and of all pages that neither a program nor a cache of files holds.
///
/// Each processor keeps some free pages for itself. The kernel counts these as used, and a busy kernel of 7.2 keeps
/// megabytes of them, so they are read from each zone. Source: mm/show_mem.c, mm/vmstat.c.
fn kernel_memory() -> Result<[i64; 2]> {
    // Add up what each processor has counted for itself. A kernel for one processor has no such file.
    let refresh = "/proc/sys/vm/stat_refresh";
    if Path::new(refresh).exists() {
        std::fs::write(refresh, "1\n")?;
    }
    let kept = kept_by_processors(&std::fs::read_to_string("/proc/zoneinfo")?)?;
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let line = line.with_context(|| format!("no {name} in meminfo"))?;
        anyhow::Ok(
            line.split_whitespace()
                .nth(1)
                .context("no value")?
                .parse::<i64>()?,
        )
    };
    let objects = value("SUnreclaim:")? + value("VmallocUsed:")? + value("Percpu:")?;
    let known = [
        "MemFree:",
        "Cached:",
        "Buffers:",
        "AnonPages:",
        "SReclaimable:",
    ];
    let mut pages = value("MemTotal:")? - kept;
    for name in known {
        pages -= value(name)?;
    }
    Ok([objects, pages])
}

/// KiB of free pages that processors keep for themselves, of the text of `/proc/zoneinfo`.
fn kept_by_processors(zones: &str) -> Result<i64> {
    let mut pages = 0;
    for line in zones.lines() {
        if let Some(count) = line.trim_start().strip_prefix("count:") {
            pages += count.trim().parse::<i64>()?;
        }
    }
    Ok(pages * 4)
}

fn no_memory_left() -> Result<()> {
    let small = Config {
        origin: Shape::new(4),
        ssd: Shape::new(8),
        ..Config::default()
    };
    let rig = Rig::disks(small)?;
    rig.origin.fill(1)?;
    Dm::with("first", rig.good_line(true))?;
    let cycle = || -> Result<()> {
        let device = Dm::with(&rig.name, rig.good_line(false))?;
        let file = io::direct(device.path())?;
        for number in 0..16_u64 {
            io::read(&file, number * 65536, 16384)?;
            io::write(&file, number * 131_072, &[7; 8192])?;
        }
        // A table that is loaded and thrown away, and a refused one.
        device.load(rig.good_line(false))?;
        device.clear()?;
        drop(file);
        drop(device);
        ensure!(
            Dm::create("refused")?
                .load(rig.line("writethrough 2 uuid 00"))
                .is_err(),
            "taken"
        );
        Ok(())
    };
    // What only fills the kernel's own caches comes to an end; a leak goes on in every window.
    let mut grown = Vec::new();
    for _ in 0..8 {
        let before = kernel_memory()?;
        for _ in 0..50 {
            cycle()?;
        }
        let after = kernel_memory()?;
        let [objects, pages] = [0, 1].map(|kind| after[kind] - before[kind]);
        // Two KiB of objects a round, or a page a round.
        if objects < 100 && pages < 200 {
            return Ok(());
        }
        grown.push((objects, pages));
    }
    bail!("kernel memory grew in each 50 rounds, KiB of objects and pages: {grown:?}")
}

fn unload() -> Result<()> {
    let path = module::tested()?;
    let (rig, _) = Rig::new(Config {
        origin: Shape::new(8),
        ssd: Shape::new(8),
        ..Config::default()
    })?;
    ensure!(
        module::users("dm_tandem")?.context("dm_tandem is not loaded")? > 0,
        "no user counted while mapped"
    );
    ensure!(module::unload("dm_tandem").is_err(), "removed while in use");
    drop(rig);
    for _ in 0..2 {
        ensure!(
            module::users("dm_tandem")? == Some(0),
            "users left: {:?}",
            module::users("dm_tandem")?
        );
        module::unload("dm_tandem")?;
        ensure!(module::users("dm_tandem")?.is_none(), "still loaded");
        module::load(Path::new(&path), "")?;
    }
    let (rig, model) = Rig::new(Config {
        origin: Shape::new(8),
        ssd: Shape::new(8),
        ..Config::default()
    })?;
    rig.equals(&model)?;
    drop(rig);
    module::unload("dm_tandem")
}

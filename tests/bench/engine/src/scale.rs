// SPDX-License-Identifier: GPL-3.0-or-later
//! What a large cache costs: how long the engine's lock is held, and how much metadata is written.

mod holds;
mod server;

use std::fmt::Write;

use crate::synced::metadata_of_a_write;
use holds::Holds;
use server::{Places, Server, defined};
use tandem_sim::checks::Full;
use tandem_sim::engine::{Core, Engine, Geometry, LoadError, Loaded, Mode, ReqKind, Verdict, Word};
use tandem_sim::native::{self, Sources};

/// Sectors of a frame, of a MiB and of a GiB.
const FRAME: u64 = 32;
const MIB: u64 = 2048;
const GIB: u64 = 1024 * MIB;
/// The hard disk.
const DISK: u64 = 16_000_000_000_000 / 512;
/// The most requests that are made wait for the same thing.
const CROWD: u64 = 1024;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Core plans no cache on such an SSD.
    #[error("no cache can be planned on an SSD of that size")]
    Size,
    /// Core refused the index of a full cache.
    #[error("core takes the index for {0:?}")]
    Refused(Loaded),
    /// The module's sources lack a number.
    #[error("the module defines no {0}")]
    Undefined(&'static str),
    /// Core could not be built.
    #[error(transparent)]
    Build(#[from] native::Error),
    /// What was built cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Core that makes as much in one step as in the kernel; the simulator's does as little as can be.
pub fn core_of_the_module() -> Result<Core, Error> {
    let env = include_str!("../../../../kmod/linux/env/env.h");
    let flag = |name| Ok(format!("-D{name}={}u", defined(env, name)?));
    let numbers: Vec<String> = ["ENV_STEP_SLOTS", "ENV_STEP_MARKS", "ENV_LONE_SWEEPS"]
        .into_iter()
        .map(flag)
        .collect::<Result<_, Error>>()?;
    let mut flags = vec!["-O2", "-w"];
    flags.extend(numbers.iter().map(String::as_str));
    let dir = native::build_dir("scale")?;
    Ok(Core::load(&native::library(
        &Sources::tree(),
        &dir,
        &flags,
    )?)?)
}

/// What a person works with: 32 GB.
const NEAR: u64 = 32_000_000_000 / 512;

/// Bytes of metadata for the SSD.
struct Bytes {
    /// Of the index in a checkpoint.
    image: u64,
    /// A line for each thing that was measured.
    text: String,
}

impl Bytes {
    /// What something that happens often costs.
    fn each(&mut self, what: &str, bytes: f64) {
        let _ = writeln!(self.text, "- {what}: {bytes:.0} bytes");
    }

    /// What something that happens seldom costs.
    fn all(&mut self, what: &str, bytes: u64) {
        let times = bytes as f64 / self.image as f64;
        let _ = writeln!(
            self.text,
            "- {what}: {} KB, {times:.2} times the image",
            bytes / 1000
        );
    }
}

/// The figures for an SSD of `gigabytes`, the times as the shortest of `runs` runs.
pub fn table(core: &Core, gigabytes: u64, runs: u32) -> Result<String, Error> {
    let mut holds = Holds::default();
    let mut text = String::new();
    for run in 0..runs {
        holds.again();
        let geometry = planned(core, DISK, gigabytes * 1_000_000_000 / 512)?;
        let mut engine = full(core, geometry)?;
        let slots = u64::from(core.layout(&geometry).slots);
        let image = geometry.checkpoint.length * 512 / 2;
        let mut bytes = Bytes {
            image,
            text: String::new(),
        };
        if run == 0 {
            let synced = metadata_of_a_write(&mut engine, slots * FRAME / 2);
            let near = metadata_of_a_write(&mut engine, NEAR);
            bytes.each("a flush behind one write, in the long run", synced);
            bytes.each("the same within 32 GB", near);
            engine = full(core, geometry)?;
        }
        phases(
            Server::new(engine, Mode::WriteBack, &mut holds)?,
            slots,
            &mut bytes,
        );
        marks(core, &mut holds)?;
        let format = core.format(&geometry);
        let format = format.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        bytes.all("a lost SSD that comes back", format);
        if run == 0 {
            let _ = writeln!(
                text,
                "## SSD of {gigabytes} GB: {slots} slots, an image of {} KB\n\n{}",
                image / 1000,
                bytes.text
            );
        }
    }
    text.push_str(&holds.table());
    Ok(text)
}

fn planned(core: &Core, origin_sectors: u64, ssd_sectors: u64) -> Result<Geometry, Error> {
    let mut geometry = Geometry {
        origin_sectors,
        ssd_sectors,
        block_sectors: 8,
        ..Geometry::default()
    };
    if core.plan(&mut geometry) {
        Ok(geometry)
    } else {
        Err(Error::Size)
    }
}

/// An engine whose index is full, as after a warm start.
fn full(core: &Core, geometry: Geometry) -> Result<Engine, Error> {
    let index = Full::new(core, &geometry);
    let mut engine = Engine::new(core, geometry, Mode::WriteBack);
    // Core wants memory at a multiple of 8.
    let mut memory = vec![0; (256 << 10) + 8];
    let from = memory.as_ptr().align_offset(8);
    let mut load = engine.load();
    while let Some((sector, sectors)) = load.wants() {
        let bytes = &mut memory[from..][..sectors as usize * 512];
        index.read(sector, bytes);
        load.feed((sectors > 0).then_some(&*bytes));
    }
    match load.end() {
        Loaded::Good => Ok(engine),
        other => Err(Error::Refused(other)),
    }
}

/// What happens to a full cache, one after the other.
fn phases(mut s: Server, slots: u64, bytes: &mut Bytes) {
    let mut rng = fastrand::Rng::with_seed(1);
    let cached = slots * FRAME;

    s.holds.phase("warm start, first flush");
    s.begin(ReqKind::Flush, 0, 0);
    s.go_on();
    bytes.all("warm start, until a flush is answered", s.bytes);

    s.holds.phase("hot copies are looked for");
    hits(&mut s);
    for _ in 0..16 {
        s.tick();
    }

    s.holds.phase("synced writes, one by one");
    let before = s.bytes;
    for _ in 0..2000 {
        s.begin(ReqKind::Write, rng.u64(..cached / 8) * 8, 8);
        s.go_on();
        s.begin(ReqKind::Flush, 0, 0);
        s.go_on();
    }
    bytes.each(
        "a flush behind one write, without a checkpoint",
        (s.bytes - before) as f64 / 2000.0,
    );

    s.holds.phase("synced writes, a thousand at once");
    for _ in 0..8 {
        for _ in 0..CROWD {
            s.begin(ReqKind::Write, rng.u64(..cached / 8) * 8, 8);
        }
        for _ in 0..CROWD {
            s.begin(ReqKind::Flush, 0, 0);
        }
        s.go_on();
    }

    s.holds.phase("one MiB, 256 writes at once");
    for _ in 0..8 {
        let first = rng.u64(..cached / MIB) * MIB;
        s.begin(ReqKind::Read, first, MIB);
        for quarter in 0..256 {
            s.begin(ReqKind::Write, first + quarter * 8, 8);
        }
        s.go_on();
    }

    s.holds.phase("read misses of 16 KiB, a thousand at once");
    for _ in 0..4 {
        for _ in 0..CROWD {
            s.begin(
                ReqKind::Read,
                (cached + rng.u64(..cached)) / FRAME * FRAME,
                FRAME,
            );
        }
        s.go_on();
    }

    s.holds.phase("read misses of 1 MiB");
    for _ in 0..64 {
        for _ in 0..16 {
            s.begin(ReqKind::Read, (cached + rng.u64(..cached)) / MIB * MIB, MIB);
        }
        s.go_on();
    }

    s.holds.phase("writes of 1 MiB, write-back");
    for _ in 0..64 {
        for _ in 0..16 {
            s.begin(ReqKind::Write, rng.u64(..2 * cached) / MIB * MIB, MIB);
        }
        s.go_on();
    }

    s.holds.phase("cleaning");
    for _ in 0..64 {
        for _ in 0..64 {
            s.clean(Places::All);
        }
        s.go_on();
    }

    s.holds.phase("discard of 16 GiB, cached");
    discard(&mut s, 0, 16 * GIB);
    s.holds.phase("discard of 64 GiB, not cached");
    discard(&mut s, 2 * cached / GIB * GIB, 64 * GIB);

    s.set_mode(Mode::WriteThrough);
    s.holds.phase("writes of 1 MiB, write-through");
    for _ in 0..64 {
        for _ in 0..16 {
            s.begin(
                ReqKind::Write,
                (cached + rng.u64(..cached)) / MIB * MIB,
                MIB,
            );
        }
        s.go_on();
    }
    s.holds.phase("stream of 8 GiB, write-through");
    for at in 0..8 * 1024 {
        s.stream(cached + at * MIB, MIB);
        s.go_on();
    }
    s.holds
        .phase("scattered writes, a thousand at once, write-through");
    for _ in 0..8 {
        for _ in 0..CROWD {
            s.begin(ReqKind::Write, rng.u64(..cached / 8) * 8, 8);
        }
        s.go_on();
        s.begin(ReqKind::Flush, 0, 0);
        s.go_on();
    }
    for _ in 0..16 {
        s.tick();
    }
    s.begin(ReqKind::Flush, 0, 0);
    s.go_on();

    drop_all(&mut s, bytes);
    lose(&mut s, &mut rng, cached);
}

/// Reads the copies that are looked at next, so often that they are hot.
fn hits(s: &mut Server) {
    for slot in 0..4096 {
        let frame = match s.engine.word(slot) {
            Word { tag, valid, .. } if valid != 0 => tag,
            _ => continue,
        };
        for _ in 0..3 {
            if let (Verdict::Hit, look) = s.engine.look(frame * FRAME, FRAME) {
                s.engine.unpin(look.slot);
            }
        }
    }
}

/// Discards run by run, in bios of 1 GiB, and flushes.
fn discard(s: &mut Server, first: u64, count: u64) {
    for bio in (first..first + count).step_by(GIB as usize) {
        for run in (bio..bio + GIB).step_by(MIB as usize) {
            s.begin(ReqKind::Discard, run, MIB);
        }
        s.go_on();
    }
    s.begin(ReqKind::Flush, 0, 0);
    s.go_on();
}

/// Drops all clean copies, as a cold start does too; flushes come with it and after it.
fn drop_all(s: &mut Server, bytes: &mut Bytes) {
    s.holds.phase("drop, cold start");
    let begun = s.bytes;
    s.drop_all();
    let answered = s.bytes;
    s.begin(ReqKind::Write, 0, 8);
    s.carry_out();
    s.begin(ReqKind::Flush, 0, 0);
    // Until the checkpoint has taken effect.
    let mut before = None;
    while s.step() {
        if before.is_none() && s.in_flight() == 0 {
            before = Some(s.bytes - answered);
        }
    }
    bytes.all("drop, cold start", s.bytes - begun);
    match before {
        Some(before) => bytes.all("of it, before a flush that comes then is answered", before),
        None => bytes.text.push_str(
            "- a flush that comes then is not answered
",
        ),
    }
}

/// The SSD fails while many requests wait for it.
fn lose(s: &mut Server, rng: &mut fastrand::Rng, cached: u64) {
    s.holds.phase("lost SSD, three thousand requests");
    s.set_mode(Mode::WriteBack);
    for _ in 0..CROWD {
        s.begin(ReqKind::Write, rng.u64(..cached / 8) * 8, 8);
    }
    s.go_on();
    for _ in 0..CROWD {
        s.begin(ReqKind::Write, rng.u64(..cached / 8) * 8, 8);
    }
    s.carry_out();
    for _ in 0..CROWD {
        s.begin(ReqKind::Flush, 0, 0);
    }
    s.set_mode(Mode::WriteThrough);
    for _ in 0..CROWD {
        s.begin(ReqKind::Write, rng.u64(..cached / 8) * 8, 8);
    }
    s.fail();
    s.go_on();
}

/// A write to each MiB.
fn mark_all(s: &mut Server) {
    for some in 0..256 {
        for at in 0..CROWD {
            s.begin(ReqKind::Write, (some * CROWD + at) * MIB, 8);
        }
        s.go_on();
    }
}

/// As many marks as there can be: those of a disk of 256 GiB with a region for each MiB.
fn marks(core: &Core, holds: &mut Holds) -> Result<(), Error> {
    let geometry = planned(core, 256 * GIB, 16 * GIB)?;
    let mut s = Server::new(
        Engine::new(core, geometry, Mode::WriteThrough),
        Mode::WriteThrough,
        holds,
    )?;
    s.holds.phase("262,144 marks are set");
    mark_all(&mut s);
    s.holds.phase("262,144 marks get old");
    for _ in 0..24 {
        s.tick();
    }
    s.holds.phase("flush with few marks");
    for _ in 0..64 {
        s.begin(ReqKind::Write, 0, 8);
        s.go_on();
        s.begin(ReqKind::Flush, 0, 0);
        s.go_on();
    }
    s.holds.phase("262,144 marks are set");
    mark_all(&mut s);
    s.holds.phase("flush with 262,144 marks");
    s.begin(ReqKind::Flush, 0, 0);
    s.go_on();
    Ok(())
}

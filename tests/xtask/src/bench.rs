// SPDX-License-Identifier: GPL-3.0-or-later
//! Exact figures beside other caches: QEMU counts one nanosecond of virtual time for each guest instruction.
//!
//! All data lies in the guest's memory, and the guest does not depend on the host's clock. A figure therefore repeats
//! to the nanosecond, and a change of ten instructions shows. There are two kinds of figures: instructions of single
//! requests on RAM disks, and times on models of a disk and an SSD (tests/bench/model).

mod lines;
mod report;
mod seeds;
mod start;
mod ui;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tandem_harness::kbuild;

use anyhow::{Context, Result, bail, ensure};

use crate::kernels::Target;
use crate::{kernels, suite};
use tandem_guest::guest_kernel::Source;
use tandem_guest::qemu::Qemu;
use tandem_harness::cx::{Cx, say};
use tandem_harness::{fetch, pins};

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// Measure only these devices and write no file; may be given several times.
    #[arg(long, value_name = "DEVICE")]
    only: Vec<String>,
    /// Measure only this kind and write no file.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
}

/// Figures of the programs, each with a file of its own.
#[derive(clap::Subcommand)]
enum Other {
    /// Times of start and shutdown of a machine with a cache, beside the same machine without.
    Start(start::Args),
    /// What articles measured of other caches, repeated: writes tests/bench/SEEDS.md.
    Seeds(seeds::Args),
    /// How hits scale with the number of processors: writes tests/bench/PROCESSORS.md.
    Lines(lines::Args),
    /// Measure the window, the indicator and the service, and write tests/bench/UI.md.
    Ui,
}

/// What is measured of the cache.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Instructions of single requests.
    Cost,
    /// Time on models of a disk and an SSD.
    Time,
    /// Writing back, on the same models.
    Drain,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Time => "time",
            Self::Drain => "drain",
        }
    }

    /// The devices that are measured side by side, each with its description.
    fn devices(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Cost => &[
                ("ssd", "RAM disk itself"),
                ("dm-linear", "device-mapper without any work"),
                ("tandem", "writethrough"),
                ("tandem-wb", "writeback"),
                ("dm-writecache", "blocks of 4 KiB, writeback"),
                ("dm-cache", "smq, writethrough, blocks of 32 KiB"),
                ("dm-cache-wb", "the same, writeback"),
                ("bcache", "writethrough, buckets of 64 KiB"),
                ("bcache-wb", "the same, writeback"),
                ("dm-writeboost", WRITEBOOST),
                ("rapiddisk", RAPIDDISK),
                ("rapiddisk-wa", RAPIDDISK_AROUND),
            ],
            Self::Time => &[
                ("disk", "without a cache"),
                ("ssd", "without a disk"),
                ("dm-linear", "device-mapper without any work"),
                ("tandem", "writethrough"),
                ("tandem-wb", "writeback"),
                ("dm-writecache", "blocks of 4 KiB, writeback"),
                ("dm-cache", "smq, writethrough, blocks of 32 KiB"),
                ("dm-cache-wb", "the same, writeback"),
                ("bcache", "writethrough, nothing bypassed"),
                ("bcache-wb", "the same, writeback"),
                ("dm-writeboost", WRITEBOOST),
                ("rapiddisk", RAPIDDISK),
                ("rapiddisk-wa", RAPIDDISK_AROUND),
                ("rapiddisk-ssd", RAPIDDISK_SSD),
            ],
            Self::Drain => &[
                ("elevator", "the disk alone, all blocks in order"),
                ("disk", "the disk alone, blocks as they come"),
                ("tandem-wb", "writeback"),
                ("dm-writecache", "blocks of 4 KiB"),
                ("dm-cache-wb", "smq, writeback, blocks of 32 KiB"),
                ("bcache-wb", "writeback, nothing bypassed"),
                ("dm-writeboost", WRITEBOOST),
            ],
        }
    }

    /// RAM disks and memory of the guest: models are large and need room for the data that is written.
    fn machine(self) -> (&'static str, &'static str) {
        match self {
            Self::Cost => ("brd:rd_nr=3:rd_size=65536", "1024"),
            Self::Time | Self::Drain => ("brd:rd_nr=3:rd_size=16777216", "4096"),
        }
    }
}

/// The processor's own checksum modules are loaded first, as on a machine with udev: a later user of a checksum takes
/// the fastest one.
const MODULES: &[&str] = &[
    "crc32c-intel",
    "dm-mod",
    "dm-writecache",
    "dm-cache",
    "dm-cache-smq",
    "bcache",
];

/// The peers that are no part of the kernel: the group of their pinned package, and their modules in the order in which they are
/// loaded.
const PEERS: [(&str, &[&str]); 2] = [
    ("dm-writeboost", &["dm-writeboost.ko"]),
    ("rapiddisk", &["rapiddisk.ko", "rapiddisk-cache.ko"]),
];

const WRITEBOOST: &str = "writeback, a log in memory of 127 blocks, streams of reads kept";
const RAPIDDISK: &str = "writethrough, in memory, blocks of 4 KiB";
const RAPIDDISK_AROUND: &str = "write-around, in memory";
const RAPIDDISK_SSD: &str = "writethrough, on the SSD";

/// Longest run of a guest that counts its instructions, without KVM.
const LIMIT: Duration = Duration::from_secs(900);

/// Figures of one device by name, as the suite printed them.
struct Figures {
    name: &'static str,
    about: &'static str,
    numbers: BTreeMap<String, u64>,
    /// Why figures are missing.
    stopped: Option<String>,
}

/// Runs the measurements and writes `tests/bench/RESULTS.md`.
pub fn command(cx: &Cx, args: &Args) -> Result<()> {
    match &args.other {
        Some(Other::Start(args)) => return start::command(cx, args),
        Some(Other::Seeds(args)) => return seeds::command(cx, args),
        Some(Other::Lines(args)) => return lines::command(cx, args),
        Some(Other::Ui) => return ui::command(cx),
        None => {}
    }
    let kinds = [Kind::Cost, Kind::Time, Kind::Drain].map(|kind| (kind, kind.devices()));
    if let Some(name) = args.only.iter().find(|name| {
        let mut devices = kinds.iter().flat_map(|(_, devices)| *devices);
        devices.all(|(known, _)| known != name)
    }) {
        bail!("there is no device {name}");
    }
    let log = cx.target.join("bench.log");
    let _ = fs::remove_file(&log);
    let commit = report::commit(cx)?;
    let guest = Guest::new(cx, log)?;
    // Everything is built before the first measurement: the sources may change in the half hour that follows.
    let mut prepared = Vec::new();
    for (kind, devices) in kinds {
        if args.kind.is_none_or(|only| only == kind) {
            prepared.push((kind, devices, guest.initramfs(cx, kind.name(), kind)?));
        }
    }
    let mut all = Vec::new();
    for (kind, devices, image) in prepared {
        let mut figures = Vec::new();
        for (name, about) in devices {
            if args.only.is_empty() || args.only.iter().any(|only| only == name) {
                figures.push(guest.measure(kind.name(), kind, (name, about), &image)?);
            }
        }
        all.push(figures);
    }
    if let ([cost, time, drain], true) = (all.as_slice(), args.only.is_empty()) {
        let path = cx.path("tests/bench/RESULTS.md");
        let text = report::text(&guest.target.kernel.release, &commit, [cost, time, drain])?;
        fs::write(&path, text)?;
        say(format!("written to {}", path.display()));
    }
    Ok(())
}

struct Guest {
    target: Target,
    /// The models, and the peers that are no part of the kernel.
    built: Vec<PathBuf>,
    make_bcache: PathBuf,
    qemu: Qemu,
    log: PathBuf,
}

impl Guest {
    fn new(cx: &Cx, log: PathBuf) -> Result<Self> {
        let target = kernels::target(cx, Source::Debian12Backports, &log)?;
        let headers = target.kernel.build.as_deref();
        let headers = headers.context("the kernel has no headers of its own")?;
        let mut built = Vec::new();
        let mut build = |source: &Path, name: &str, modules: &[&str]| -> Result<()> {
            let build = cx.target.join(format!("bench-{name}"));
            // The kernel's compiler, as for our module.
            let settings = ["CC=gcc-12"];
            kbuild::module(source, headers, &build, &settings, &log)?;
            built.extend(modules.iter().map(|module| build.join(module)));
            Ok(())
        };
        build(&cx.path("tests/bench/model"), "model", &["dm-model.ko"])?;
        for (name, modules) in PEERS {
            let peer = fetch::all_pinned(cx, &pins::group(name)?)?;
            let peer = fetch::unpacked(cx, name, &peer)?.join("usr/src");
            let Some(peer) = fs::read_dir(&peer)?.next().transpose()? else {
                bail!("{} is empty", peer.display());
            };
            build(&peer.path(), name, modules)?;
        }
        let tools = fetch::unpacked(cx, "bcache-tools", &[fetch::own(cx, "bcache-tools")?])?;
        Ok(Self {
            target,
            built,
            make_bcache: tools.join("usr/sbin/make-bcache"),
            qemu: Qemu::get(cx)?,
            log,
        })
    }

    /// The initial file system for the machine of this kind, kept under a name, and the words that load its modules.
    fn initramfs(&self, cx: &Cx, name: &str, kind: Kind) -> Result<(PathBuf, String)> {
        let modules: Vec<_> = [kind.machine().0]
            .into_iter()
            .chain(MODULES.iter().copied())
            .collect();
        let programs = [(self.make_bcache.as_path(), "/make-bcache")];
        let own: Vec<_> = self.built.iter().map(PathBuf::as_path).collect();
        let (built, modules) = kernels::initramfs(cx, &self.target, &modules, &own, &programs)?;
        let own = cx.target.join(format!("bench-{name}.cpio"));
        fs::copy(built, &own)?;
        Ok((own, modules))
    }

    /// A machine that counts instructions.
    fn machine(&self, processors: &str, memory: &str) -> Command {
        let mut guest = self.qemu.command();
        guest.args(["-accel", "tcg,thread=single", "-machine", "q35"]);
        // The processor has no string instructions that copy and clear by the byte: QEMU would count each byte.
        guest.args(["-cpu", "max,-erms,-fsrm", "-smp", processors, "-m", memory]);
        guest.args(["-icount", "shift=0,sleep=off", "-seed", "42"]);
        guest.args(["-rtc", "base=2025-01-01,clock=vm"]);
        guest
    }

    /// Starts the machine, and collects the figures that the suite prints under this word.
    fn follow(
        &self,
        guest: &mut Command,
        what: &str,
        (name, about): (&'static str, &'static str),
        (initramfs, modules): &(PathBuf, String),
    ) -> Result<Figures> {
        let words = format!(
            "{modules} SUITE_BENCH={what}:{name} tsc=reliable clocksource=tsc random.trust_cpu=on mitigations=off"
        );
        kernels::boot(guest, &self.target.kernel, initramfs, &words);
        let mut numbers = BTreeMap::new();
        let mut stopped = None;
        suite::follow(guest, LIMIT, &self.log, |line| {
            if let Some(why) = line.strip_prefix("FAIL start: ") {
                stopped = Some(why.to_owned());
            }
            let words = line
                .strip_prefix("bench: ")
                .and_then(|text| text.split_once(' '));
            if let Some((figure, Ok(number))) = words.map(|(figure, text)| (figure, text.parse())) {
                numbers.insert(figure.to_owned(), number);
            }
        })?;
        Ok(Figures {
            name,
            about,
            numbers,
            stopped,
        })
    }

    /// Measures a device with the machine of this kind, as the suite does under this word.
    fn measure(
        &self,
        what: &str,
        kind: Kind,
        device: (&'static str, &'static str),
        image: &(PathBuf, String),
    ) -> Result<Figures> {
        let mut guest = self.machine("1", kind.machine().1);
        let figures = self.follow(&mut guest, what, device, image)?;
        self.told(what, figures)
    }

    /// Says what was measured.
    fn told(&self, what: &str, figures: Figures) -> Result<Figures> {
        let Figures { name, numbers, .. } = &figures;
        ensure!(
            !numbers.is_empty(),
            "{name} gave no figures; see {}",
            self.log.display()
        );
        let list: Vec<_> = numbers
            .iter()
            .map(|(figure, number)| format!("{figure} {number}"))
            .collect();
        say(format!("{what} of {name}: {}", list.join(", ")));
        if let Some(why) = &figures.stopped {
            say(format!("{what} of {name} came to no end: {why}"));
        }
        Ok(figures)
    }
}

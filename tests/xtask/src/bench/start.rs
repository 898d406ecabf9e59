// SPDX-License-Identifier: GPL-3.0-or-later
//! Times of start and shutdown of one virtual machine, without Tandem and with a cache in each state.
//!
//! QEMU counts the guest's instructions, so that other load of this computer hardly counts; and the machines take turns.
//! The guest's own clocks measure: systemd's time stamps for the start, the kernel's messages for the shutdown.

mod report;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::report::commit;
use tandem_guest::disks::{self, Pair, Scratch};
use tandem_guest::guest::LONG;
use tandem_guest::stage::{self, Stage};
use tandem_guest::vm::{Parts, Vm};
use tandem_harness::cx::{Cx, say};

/// Arguments of `cargo xtask bench start`.
#[derive(clap::Args)]
pub struct Args {
    /// How often each machine is started. The file is written for 3 or more.
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

/// Fewest starts of which the figures are kept.
const RUNS: usize = 3;
/// Requests a second that the hard disk takes, as a real one does that seeks for each.
const DISK_IOPS: u64 = 120;
/// Longest time from power on until nothing of the start is left to do, on a busy computer without KVM.
const BOOT: Duration = Duration::from_secs(600);

/// A script that ends when the start is over, and prints its times in microseconds since the kernel began.
const STARTED: &str = r#"state=$(systemctl is-system-running --wait)
[ "$state" = running ] || { echo "the start is $state"; systemctl --failed; exit 1; }
findmnt --noheadings --output SOURCE /home/anna/Archive
systemctl show --value --property=ActiveEnterTimestampMonotonic multi-user.target
for unit in tandem-assemble.service home-anna-Archive.mount; do
	begun=$(systemctl show --value --property=InactiveExitTimestampMonotonic $unit)
	ended=$(systemctl show --value --property=ActiveEnterTimestampMonotonic $unit)
	echo $((ended - begun))
done"#;
/// Writes blocks of 4 KiB all over a file of 64 MiB and syncs them: the disk needs 25 s for them. The file is on
/// the SSD first: the file system has blocks of 1 KiB, so that each write changes a part of a quarter of a frame, and such a
/// write to a frame that is not on the SSD reads the rest of the quarter from the disk.
const SCATTER: &str = r#"echo 1 >/proc/sys/vm/drop_caches; cat /home/anna/Archive/scattered >/dev/null &&
perl -e 'open(F, "+<", "/home/anna/Archive/scattered") or die; $b = "x" x 4096;
for $n (0 .. 2999) { sysseek(F, ($n * 7 % 4096) * 16384, 0); syswrite(F, $b) == 4096 or die; }' && sync -d /home/anna/Archive/scattered && DIRTY"#;
/// Fewest sectors that are on the SSD only after that: a third of what was written.
const SCATTERED: u64 = 8_000;
/// Script that prints how many sectors are on the SSD only.
const DIRTY: &str = r#"dmsetup status --target tandem | awk '{ for (i = 1; i < NF; i++) if ($i == "tandem") n = $(i + 6) } END { print n + 0 }'"#;
/// What the kernel is told when the machine is ordered to switch itself off, and what it says at the end.
const ORDER: &str = "the order to switch off";
const END: &str = "reboot: Power down";

/// Which cache a machine has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cache {
    /// The project is not installed.
    None,
    Writethrough,
    WritebackClean,
    WritebackDirty,
}

impl Cache {
    const ALL: [Self; 4] = [
        Self::None,
        Self::Writethrough,
        Self::WritebackClean,
        Self::WritebackDirty,
    ];

    fn about(self) -> &'static str {
        match self {
            Self::None => "without Tandem",
            Self::Writethrough => "write-through",
            Self::WritebackClean => "write-back, all on the disk",
            Self::WritebackDirty => "write-back, data on the SSD only",
        }
    }

    fn mode(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Writethrough => Some("writethrough"),
            Self::WritebackClean | Self::WritebackDirty => Some("writeback"),
        }
    }
}

/// A machine whose disks survive when it is switched off, and what was measured of it.
struct Machine {
    cache: Cache,
    dir: PathBuf,
    pair: Pair,
    /// Seconds of each start, of each shutdown, and of the units of each start.
    starts: Vec<f64>,
    stops: Vec<f64>,
    assembled: Vec<f64>,
    mounted: Vec<f64>,
    /// Sectors on the SSD only at each order to switch off.
    dirty: Vec<u64>,
    _scratch: Scratch,
}

/// Measures all machines and writes `tests/bench/START.md`.
pub fn command(cx: &Cx, args: &Args) -> Result<()> {
    ensure!(args.runs > 0, "nothing is measured");
    let commit = commit(cx)?;
    let mut parts = Parts::get(cx)?;
    let stage = stage::build(cx, &parts)?;
    let all = Cache::ALL.into_iter();
    let all = all.map(|cache| Machine::new(cx, &parts, &stage, cache));
    let mut all = all.collect::<Result<Vec<_>>>()?;
    parts.counted = true;
    for run in 1..=args.runs {
        for machine in &mut all {
            machine.measure(cx, &parts)?;
            let last = |times: &[f64]| times.last().copied().unwrap_or_default();
            say(format!(
                "run {run}, {}: start {:.2} s, shutdown {:.2} s, {} sectors on the SSD only",
                machine.cache.about(),
                last(&machine.starts),
                last(&machine.stops),
                machine.dirty.last().copied().unwrap_or_default()
            ));
        }
    }
    let text = report::text(&parts, &commit, args.runs, &all)?;
    if args.runs < RUNS {
        println!("{text}");
        return Ok(());
    }
    let path = cx.path("tests/bench/START.md");
    fs::write(&path, text)?;
    say(format!("written to {}", path.display()));
    Ok(())
}

impl Machine {
    fn new(cx: &Cx, parts: &Parts, stage: &Stage, cache: Cache) -> Result<Self> {
        let scratch = Scratch::new()?;
        let pair = disks::pair(&scratch)?;
        let dir = scratch.path().join("machine");
        fs::create_dir(&dir)?;
        parts.copy_root(&dir)?;
        let machine = Self {
            cache,
            dir,
            pair,
            starts: Vec::new(),
            stops: Vec::new(),
            assembled: Vec::new(),
            mounted: Vec::new(),
            dirty: Vec::new(),
            _scratch: scratch,
        };
        let mut vm = machine.power_on(cx, parts)?;
        vm.agent.sh(
            "sed -i 's/noauto,nofail,//' /etc/fstab && systemctl daemon-reload && \
             rm /etc/systemd/system/multi-user.target.wants/desktop.service",
            LONG,
        )?;
        vm.mount()?;
        let fill =
            "dd if=/dev/zero of=/home/anna/Archive/scattered bs=1M count=64 conv=fsync status=none";
        vm.agent.sh(fill, LONG)?;
        if let Some(mode) = cache.mode() {
            stage::install(&mut vm, stage)?;
            let disk = vm.device(machine.pair.origin.serial)?;
            let ssd = vm.device(machine.pair.ssd.serial)?;
            let line = format!("tandemctl create --yes --erase-ssd --mode {mode} {disk}1 {ssd}");
            vm.agent.sh(&line, LONG)?;
        }
        vm.power_off()?;
        Ok(machine)
    }

    fn power_on(&self, cx: &Cx, parts: &Parts) -> Result<Vm> {
        let mut vm = Vm::power_on(cx, parts, &self.dir)?;
        for disk in [&self.pair.origin, &self.pair.ssd] {
            vm.plug(disk)?;
        }
        let limit = json!({ "id": self.pair.origin.serial, "bps": 0, "bps_rd": 0, "bps_wr": 0,
            "iops": DISK_IOPS, "iops_rd": 0, "iops_wr": 0 });
        vm.qmp.run("block_set_io_throttle", limit)?;
        vm.up(BOOT)?;
        Ok(vm)
    }

    /// Starts the machine and switches it off.
    fn measure(&mut self, cx: &Cx, parts: &Parts) -> Result<()> {
        let mut vm = self.power_on(cx, parts)?;
        let told = vm.agent.sh(STARTED, BOOT)?;
        let mut lines = told.lines();
        let source = lines.next().unwrap_or_default();
        ensure!(
            source.starts_with("/dev/mapper/tandem-") == (self.cache != Cache::None),
            "mounted from {source}"
        );
        let numbers = lines.map(|line| line.parse::<f64>().context(told.clone()));
        let numbers = numbers.collect::<Result<Vec<_>>>()?;
        let [start, assembled, mounted] = numbers[..] else {
            anyhow::bail!("no times: {told}");
        };
        self.starts.push(start / 1e6);
        self.assembled.push(assembled / 1e6);
        self.mounted.push(mounted / 1e6);
        let script = match self.cache {
            Cache::WritebackDirty => SCATTER.replace("DIRTY", DIRTY),
            // The start itself has written to the disk.
            Cache::WritebackClean => format!("tandemctl flush >/dev/null && {DIRTY}"),
            _ => DIRTY.to_owned(),
        };
        let dirty = vm.agent.sh(&script, LONG)?.trim().parse::<u64>()?;
        let is_as_wanted = match self.cache {
            Cache::WritebackDirty => dirty >= SCATTERED,
            _ => dirty == 0,
        };
        ensure!(is_as_wanted, "{dirty} sectors are on the SSD only");
        self.dirty.push(dirty);
        vm.agent
            .sh(&format!("echo '<3>{ORDER}' >/dev/kmsg"), LONG)?;
        let console = vm.off_by(tandem_guest::vm::POWER_OFF)?;
        self.stops
            .push(stamp(&console, END)? - stamp(&console, ORDER)?);
        Ok(())
    }
}

/// Seconds since the kernel began at which it printed a message.
fn stamp(console: &str, message: &str) -> Result<f64> {
    let mut lines = console.lines().rev();
    let line = lines.find(|line| line.contains(message));
    let stamp = line.and_then(|line| line.split_once('[')?.1.split_once(']'));
    let (seconds, _) = stamp.with_context(|| format!("the console has no '{message}'"))?;
    seconds.trim().parse().context("a time stamp is a number")
}

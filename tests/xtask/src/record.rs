// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers that record what the real module sends to its disks under file systems, cut the recordings at thousands of
//! moments, check offline what core recovers from each cut, and boot some of the cuts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tandem_harness::deps;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::suite;
use crate::uml::{self, Kernel};
use tandem_harness::cx::Cx;
use tandem_harness::layer::{Layer, Run, When};
use tandem_harness::{programs, run, seed};

/// A recording takes ten to thirty seconds; a machine under load takes several times as long.
const LIMIT: Duration = Duration::from_secs(300);
/// States to check of each recording, and of each recording of a boot from such a state.
const CUTS: [usize; 2] = [1600, 60];
/// States that must be checked in all.
const WANTED: u64 = 10_000;
/// Factor for the number of states with `--all`.
const MORE: usize = 2;
/// States to boot of each recording of a file system.
const BOOTS: usize = 4;
/// The end of the name of a recording that begins with one torn superblock. Where there is a file system, only
/// recordings in which the mode changes write superblocks.
pub const TORN: &str = "-boot-torn";
/// The mode of recordings in which the mode changes.
const CHANGING: &str = "changing";

/// Name of the recording with the seed of this run.
const FRESH: &str = "fresh";

// promise 1, 6: record/ext4-writeback: cut
// promise 1: record/xfs-writeback: cut
// promise 1: record/btrfs-writeback: cut
// promise 3, 11, 13: record/ext4-writethrough: cut
// promise 4: record/raw-writeback: cut
// promise 10, 21: record/btrfs-changing: cut
// promise 1: record/at least 10000 cuts
/// File system and mode of each recording; `raw` is no file system.
const RECORDINGS: [(&str, &str); 7] = [
    ("ext4", "writeback"),
    ("xfs", "writeback"),
    ("btrfs", "writeback"),
    ("ext4", "writethrough"),
    ("xfs", "writearound"),
    ("btrfs", CHANGING),
    ("raw", "writeback"),
];

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![Layer {
        name: "record",
        about: "what the module really writes, cut 10,000 times and recovered offline",
        needs: deps::KERNEL,
        when: When::Whole,
        run,
    }]
}

fn run(run: &mut Run) -> Result<()> {
    let kernel = uml::kernel(run.cx, "record")?;
    let module = kernel.module(run, "kmod", "dm-tandem.ko")?;
    let recorder = Recorder::new(run, &kernel, module, "record")?;
    let times = if run.all { MORE } else { 1 };
    let mut cuts = 0;
    for recording in &Recording::all() {
        if run.wants(&format!("{}: cut", recording.name)) {
            cuts += recorder.test(run, recording, times)?;
        }
    }
    if run.wants(&format!("{FRESH}: cut")) {
        let fresh = Recording::fresh(seed::of_this_run()?);
        run.note(&format!("fresh: {}, {}", fresh.filesystem, fresh.mode));
        cuts += recorder.test(run, &fresh, times)?;
    }
    run.figures.push(format!("{cuts} cuts"));
    if run.case.is_some() {
        return Ok(());
    }
    let result = match cuts {
        0..WANTED => Err(anyhow!("only {cuts} cuts")),
        _ => Ok(()),
    };
    run.check(&format!("at least {WANTED} cuts"), result);
    Ok(())
}

/// A recording to make: file system, mode and seed.
pub struct Recording {
    filesystem: &'static str,
    mode: &'static str,
    seed: u64,
    /// File system and mode.
    pub name: String,
}

impl Recording {
    /// All recordings.
    pub fn all() -> Vec<Self> {
        let recording = |(seed, (filesystem, mode)): (u64, &(&'static str, &'static str))| Self {
            filesystem,
            mode,
            seed,
            name: format!("{filesystem}-{mode}"),
        };
        (1..).zip(&RECORDINGS).map(recording).collect()
    }

    /// One of the recordings with the requests of another seed.
    fn fresh(seed: u64) -> Self {
        let (filesystem, mode) = RECORDINGS[seed as usize % RECORDINGS.len()];
        Self {
            filesystem,
            mode,
            seed,
            name: FRESH.to_owned(),
        }
    }
}

/// A recorder with one build of the module.
pub struct Recorder<'a> {
    kernel: &'a Kernel,
    module: PathBuf,
    checker: PathBuf,
    /// Directory of all files that a run leaves.
    dir: PathBuf,
}

impl<'a> Recorder<'a> {
    /// Makes a recorder for this build of the module; `dir` is below cargo's target directory.
    pub fn new(run: &Run, kernel: &'a Kernel, module: PathBuf, dir: &str) -> Result<Self> {
        let dir = run.cx.target.join(dir);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        Ok(Self {
            kernel,
            module,
            checker: programs::record_check(run.cx)?,
            dir,
        })
    }

    /// Makes the recording, cuts it, and boots some of the states from the cuts.
    fn test(&self, run: &mut Run, recording: &Recording, times: usize) -> Result<u64> {
        let name = &recording.name;
        let mut guest = self.guest(run.cx, recording, name, "")?;
        suite::cases(run, &mut guest, LIMIT)?;
        let boots = match recording.filesystem {
            "raw" => 0,
            _ => BOOTS * times,
        };
        let states = self.dir.join(name);
        fs::create_dir_all(&states)?;
        let mut cut = self.cut(name, CUTS[0] * times, recording.seed);
        if boots > 0 {
            cut.arg("--states").arg(&states);
            cut.args(["--count", &boots.to_string()]);
        }
        let mut cuts = count(run, name, &mut cut)?;
        for boot in 0..boots {
            let state = states.join(format!("{boot}.state"));
            if state.exists() {
                let name = format!("{name}-boot-{boot}");
                cuts += self.boot(run, recording, &name, &state, times)?;
            }
        }
        if recording.mode == CHANGING {
            let state = self.torn(name);
            let left = ensure_file(&state);
            run.check(&format!("{name}: a cut tears a superblock"), left);
            if state.exists() {
                let name = format!("{name}{TORN}");
                cuts += self.boot(run, recording, &name, &state, times)?;
            }
        }
        Ok(cuts)
    }

    /// Where the state with one torn superblock is.
    fn torn(&self, name: &str) -> PathBuf {
        self.dir.join(name).join("torn.state")
    }

    /// Boots a state, records what recovery and use write, and cuts that recording.
    fn boot(
        &self,
        run: &mut Run,
        recording: &Recording,
        name: &str,
        state: &Path,
        times: usize,
    ) -> Result<u64> {
        let from = state.display().to_string();
        let mut guest = self.guest(run.cx, recording, name, &from)?;
        suite::cases(run, &mut guest, LIMIT)?;
        let mut cut = self.cut(name, CUTS[1] * times, recording.seed);
        let cuts = count(run, name, &mut cut)?;
        // The files are large, and only of use after a failure.
        if !run.has_failed() {
            fs::remove_file(state)?;
            fs::remove_file(self.dir.join(name).with_extension("log"))?;
        }
        Ok(cuts)
    }

    /// Records with a module that has a bug, and returns what cuts of the recording find, or an error if they find
    /// nothing. The bug may show only when a state with a torn superblock boots: `boots`.
    pub fn broken(&self, run: &mut Run, recording: &Recording, boots: bool) -> Result<String> {
        let name = &recording.name;
        self.record(run, recording, name, "")?;
        let mut cut = self.cut(name, CUTS[0], recording.seed);
        if !boots {
            return self.must_fail(run, &mut cut);
        }
        fs::create_dir_all(self.dir.join(name))?;
        cut.arg("--states").arg(self.dir.join(name));
        cut.args(["--count", "0"]);
        run::logged(&mut cut, &run.log).context("found before a torn superblock was booted")?;
        let state = self.torn(name);
        ensure_file(&state)?;
        let booted = format!("{name}{TORN}");
        self.record(run, recording, &booted, &state.display().to_string())?;
        self.must_fail(run, &mut self.cut(&booted, CUTS[1], recording.seed))
    }

    /// Records, from nothing or from the boot of a state.
    fn record(&self, run: &Run, recording: &Recording, name: &str, from: &str) -> Result<()> {
        let mut guest = self.guest(run.cx, recording, name, from)?;
        let mut recorded = false;
        suite::follow(&mut guest, LIMIT, &run.log, |line| {
            recorded |= line.starts_with("ok   ");
        })?;
        ensure!(recorded, "the recording {name} itself failed");
        Ok(())
    }

    fn must_fail(&self, run: &mut Run, cut: &mut Command) -> Result<String> {
        match run.said(cut)? {
            (_, Ok(())) => bail!("not found by its cuts"),
            (said, Err(_)) => Ok(said),
        }
    }

    /// The guest that records, from nothing or from the boot of a state.
    fn guest(&self, cx: &Cx, recording: &Recording, name: &str, from: &str) -> Result<Command> {
        let Recording {
            filesystem,
            mode,
            seed,
            ..
        } = recording;
        let module = self.module.display().to_string();
        let words = format!("{filesystem}:{mode}:{seed}:{}:{name}", self.dir.display());
        let variables = [
            ("SUITE_MODULES", module.as_str()),
            ("SUITE_RECORD", &words),
            ("SUITE_RECORD_FROM", from),
        ];
        self.kernel.guest(cx, &variables)
    }

    fn cut(&self, name: &str, cuts: usize, seed: u64) -> Command {
        let mut cut = Command::new(&self.checker);
        cut.arg(self.dir.join(name).with_extension("log"));
        cut.args(["--cuts", &cuts.to_string()]);
        cut.args(["--seed", &seed.to_string()]);
        cut
    }
}

fn ensure_file(path: &Path) -> Result<()> {
    ensure!(path.exists(), "there is no {}", path.display());
    Ok(())
}

/// Cuts a recording, as one test; returns how many cuts it were.
fn count(run: &mut Run, name: &str, cut: &mut Command) -> Result<u64> {
    let (said, result) = run.said(cut)?;
    run.check(&format!("{name}: cut"), result);
    let cuts = said.lines().find_map(|line| line.split_once(" cuts: "));
    Ok(cuts.and_then(|(cuts, _)| cuts.parse().ok()).unwrap_or(0))
}

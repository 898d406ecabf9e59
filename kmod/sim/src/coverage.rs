// SPDX-License-Identifier: GPL-3.0-or-later
//! Which branches of journal and recovery are taken by cuts, random requests, torn writes and hostile metadata.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fuzz;
use crate::native::{self, Error, Sources, file_error, here};

/// The files that write and read what must survive a cut.
const FILES: [&str; 8] = [
    "ledger.c",
    "checkpoint.c",
    "marks.c",
    "marks_image.c",
    "flush.c",
    "load.c",
    "load_slots.c",
    "format.c",
];

/// What this program does with a core that counts.
const RUNS: [&[&str]; 3] = [
    &["cases"],
    &["crash", "--cuts", "60000", "--threads", "1", "--brief"],
    &["random", "--seeds", "8", "--requests", "20000", "--brief"],
];

/// Branches of a file, or of several.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Branches {
    /// How many were taken.
    pub taken: u64,
    /// How many there are.
    pub all: u64,
}

impl Branches {
    /// Taken of 100.
    pub fn percent(self) -> f64 {
        100.0 * self.taken as f64 / self.all.max(1) as f64
    }

    /// Of `file`, by gcov's report.
    pub fn of(report: &str, file: &str) -> Option<Branches> {
        let part = report.split("File '").find(|part| {
            let name = part.split('\'').next().unwrap_or_default();
            name.rsplit('/').next() == Some(file)
        })?;
        let line = part
            .lines()
            .find_map(|line| line.strip_prefix("Taken at least once:"))?;
        let (share, all) = line.split_once("% of ")?;
        let (share, all): (f64, u64) = (share.parse().ok()?, all.trim().parse().ok()?);
        let taken = (share * all as f64 / 100.0).round() as u64;
        Some(Branches { taken, all })
    }
}

impl fmt::Display for Branches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Branches { taken, all } = self;
        write!(f, "{:.1} % ({taken} of {all} branches)", self.percent())
    }
}

/// gcov's report on what was counted in `dir`.
///
/// # Errors
/// gcov refuses.
pub fn report(dir: &Path) -> Result<String, Error> {
    let mut gcov = Command::new("gcov");
    gcov.args(["--branch-probabilities", "--no-output"]);
    native::output(gcov.args(native::files(dir, "gcda")?).current_dir(dir))
}

/// Builds core so that it counts its branches, runs it, and returns the branches of each file.
///
/// # Errors
/// The compiler refuses, or a run found something.
pub fn run(sources: &Sources) -> Result<Vec<(&'static str, Branches)>, Error> {
    let dir = native::build_dir("coverage")?;
    std::fs::remove_dir_all(&dir).map_err(file_error(&dir))?;
    std::fs::create_dir_all(&dir).map_err(file_error(&dir))?;
    let core = &sources.core;
    let [user, own] = native::shims();
    let include = [
        core.join("env-user"),
        core.clone(),
        user.clone(),
        own.clone(),
    ];
    let compile = |source: &Path, name: &str, flags: &[&str]| -> Result<PathBuf, Error> {
        let object = dir.join(name).with_extension("o");
        let mut cc = Command::new("cc");
        cc.args([
            "-std=gnu11",
            "-O0",
            "-g",
            "-fPIC",
            "-fno-strict-aliasing",
            "-w",
        ]);
        for dir in &include {
            cc.arg("-I").arg(dir);
        }
        cc.args(flags).arg("-c").arg(source).arg("-o");
        native::run(cc.arg(&object))?;
        Ok(object)
    };
    let mut objects = Vec::new();
    for source in native::files(core, "c")? {
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        objects.push(compile(&source, &name, &["--coverage"])?);
    }
    let other = |name: &str| here().join(name);
    let link = |program: &str, parts: &[PathBuf], flags: &[&str]| -> Result<PathBuf, Error> {
        let program = dir.join(program);
        let mut cc = Command::new("cc");
        cc.args(["-w", "--coverage"]).args(flags).args(&objects);
        native::run(cc.args(parts).arg("-o").arg(&program))?;
        Ok(program)
    };
    // As build.rs has it: all that is there, whatever refers to whatever.
    let mut shim = native::files(&user, "c")?;
    shim.extend(native::files(&own, "c")?);
    let shim = shim
        .iter()
        .map(|source| {
            let name = source.file_stem().unwrap_or_default().to_string_lossy();
            compile(source, &format!("shim-{name}"), &[])
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut parts = native::objects(
        &["cc", "-std=gnu11", "-O1", "-fPIC", "-fno-strict-aliasing"],
        &[other("words/env"), other("words"), core.clone()],
        &["words/words.c", "words/schedule.c"].map(other),
    )?;
    parts.extend(shim);
    let library = link("core.so", &parts, &["-shared", "-Wl,-Bsymbolic"])?;
    for words in RUNS {
        native::run(
            crate::native::this_program()?
                .arg("--core")
                .arg(&library)
                .args(words),
        )?;
    }
    let torn = [
        compile(&other("shim/torn.c"), "torn-writes", &[])?,
        compile(&other("fuzz/torn.c"), "torn-main", &[])?,
    ];
    native::run(&mut Command::new(link("torn", &torn, &[])?))?;
    let load = [
        compile(&other("fuzz/load.c"), "load-target", &[])?,
        compile(&other("fuzz/replay.c"), "load-main", &[])?,
    ];
    let load = link("load", &load, &[])?;
    native::run(Command::new(load).args(fuzz::inputs("load")?))?;
    let report = report(&dir)?;
    let of = |file| Some((file, Branches::of(&report, file)?));
    Ok(FILES.into_iter().filter_map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::Branches;

    #[test]
    fn the_branches_of_one_file_are_read() {
        let report = "File '/x/core/upload.c'\nTaken at least once:10.00% of 4\n\n\
                      File '/x/core/load.c'\nLines executed:99.00% of 200\n\
                      Branches executed:100.00% of 150\nTaken at least once:92.00% of 150\n";
        let branches = Branches::of(report, "load.c").unwrap();
        assert_eq!(branches.to_string(), "92.0 % (138 of 150 branches)");
        assert_eq!(Branches::of(report, "super.c"), None);
    }
}

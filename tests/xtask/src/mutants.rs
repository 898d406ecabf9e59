// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers that show that tests find bugs: each seeded bug is a test, which passes when the bug is found.
//!
//! Those of the engine are in `kmod/sim/mutants` and the simulator hunts them. Those of the module's kernel part are in
//! `tests/uml/mutants`, in the same form: the case of User-mode Linux that `case` names must fail. Those of the helper are
//! in `helper/mutants`.

mod helper;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cx::Cx;
use crate::inputs::{Inputs, KMOD};
use crate::layer::{Bench, Layer};
use crate::results::{Outcome, Test};
use crate::rust_tests::simulator;
use crate::{case, suite, uml};

/// A case takes a second or a few; the suite itself ends one that hangs, unless the whole guest does.
const LIMIT: Duration = Duration::from_secs(200);

/// Seconds after which a case hangs with a bug; the slowest, which swaps, takes less than half of it.
const HANGS: &str = "120";

/// Of the module's, those that are tried without `--all`.
const ORDINARY: [&str; 5] = [
    "attached-twice",
    "changed-disk-taken",
    "loss-not-noted",
    "ssd-error-answered",
    "stop-drains",
];

/// What make is told for a kernel of User-mode Linux.
const UML: [&str; 1] = ["ARCH=um"];

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        Layer {
            name: "mutants",
            about: "each bug seeded into the engine is found by the simulator",
            cases: engine_bugs,
            inputs: Inputs {
                packages: &["tandem-sim"],
                programs: &[],
                paths: &[&KMOD],
                module: module_path!(),
            },
            run: engine,
        },
        Layer {
            name: "uml-mutants",
            about: "each bug seeded into the kernel module is found in User-mode Linux",
            cases: |cx| case::of_mutants(cx, "tests/uml/mutants"),
            inputs: Inputs {
                packages: &[],
                programs: &["tandem-suite"],
                paths: &[&KMOD, &uml::SOURCES, &["tests/uml/mutants"]],
                module: module_path!(),
            },
            run: module,
        },
        Layer {
            name: "helper-mutants",
            about: "each bug seeded into the helper is found by its tests",
            cases: |cx| case::of_mutants(cx, "helper/mutants"),
            inputs: Inputs {
                packages: &["tandem-helper", "tandem-simulated"],
                programs: &[],
                paths: &[&KMOD, &["helper/mutants", "data"]],
                module: module_path!(),
            },
            run: helper::run,
        },
    ]
}

fn engine(bench: &mut Bench) -> Result<()> {
    let mut words = vec!["mutants"];
    let case = bench.case.clone();
    words.extend(case.as_deref());
    let mut command = simulator(bench, &words);
    let (said, result) = bench.said(&mut command)?;
    let bugs = said.lines().filter_map(hunted);
    let bugs: Vec<_> = bugs.filter(|bug| bench.wants(&bug.name)).collect();
    let summary = said
        .lines()
        .rfind(|line| line.ends_with(" seeded bugs found"));
    bench.figures.extend(summary.map(str::to_owned));
    bugs.into_iter().for_each(|bug| bench.count(bug));
    if !bench.has_failed() {
        result?;
    }
    Ok(())
}

/// The bugs that have a file, without those that the simulator makes itself.
fn engine_bugs(cx: &Cx) -> Result<Vec<String>> {
    case::of_mutants(cx, "kmod/sim/mutants")
}

/// What the simulator says of a seeded bug: `NAME: found by random requests in 0.20 s: what was wrong`.
fn hunted(line: &str) -> Option<Test> {
    let (name, rest) = line.split_once(": ")?;
    let bug = |passed, seconds, words: &str| Test {
        name: name.to_owned(),
        outcome: Outcome::of(passed),
        seconds,
        words: words.to_owned(),
    };
    if let Some(found) = rest.strip_prefix("found by ") {
        let (by, rest) = found.split_once(" in ")?;
        let seconds = rest.split(' ').next()?.parse().ok()?;
        return Some(bug(true, Some(seconds), by));
    }
    let missed = ["NOT FOUND", "NOT TRIED", "NO END"];
    let missed = missed.iter().any(|words| rest.starts_with(words));
    missed.then(|| bug(false, None, rest))
}

/// A bug for the module.
pub struct Mutant {
    /// Its file's name without the ending.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
    /// The test that must fail.
    pub case: String,
    /// Beneath the sources that it is put into.
    file: String,
    old: String,
    new: String,
}

impl Mutant {
    fn parse(name: &str, text: &str) -> Option<Self> {
        let (head, texts) = text.split_once("\n-\n")?;
        let (old, new) = texts.split_once("\n+\n")?;
        let field = |name: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(name));
            line.map(|rest| rest.trim().to_owned())
        };
        Some(Self {
            name: name.to_owned(),
            why: field("why ")?,
            case: field("case ")?,
            file: field("file ")?,
            old: old.to_owned(),
            new: new.strip_suffix('\n').unwrap_or(new).to_owned(),
        })
    }

    /// Copies the module's sources `from` there, with this bug.
    pub fn plant(&self, from: &Path, to: &Path) -> Result<()> {
        suite::copy(from, to)?;
        self.seed(to)
    }

    /// Puts the bug into the sources at `root`.
    fn seed(&self, root: &Path) -> Result<()> {
        let file = root.join(&self.file);
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        ensure!(
            text.matches(&self.old).count() == 1,
            "its text is not once in {}: bring it up to date",
            self.file
        );
        Ok(fs::write(&file, text.replacen(&self.old, &self.new, 1))?)
    }
}

impl Test {
    /// What became of a bug that a test of `layer` had to find.
    fn hunted(mutant: &Mutant, layer: &str, result: Result<Duration>) -> Self {
        let (passed, seconds, words) = match result {
            Ok(time) => (
                true,
                Some(time.as_secs_f64()),
                format!("{layer}/{}", mutant.case),
            ),
            Err(error) => (false, None, format!("{error:#}")),
        };
        Self {
            name: mutant.name.clone(),
            outcome: Outcome::of(passed),
            seconds,
            words,
        }
    }
}

/// All seeded bugs in a directory, by name.
pub fn all(dir: &Path) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|end| end != "mutant") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mutant = Mutant::parse(&name, &fs::read_to_string(&path)?)
            .with_context(|| format!("{} is no seeded bug", path.display()))?;
        mutants.push(mutant);
    }
    mutants.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(mutants)
}

fn module(bench: &mut Bench) -> Result<()> {
    let kernel = uml::kernel(bench.cx, "plain")?;
    let build = bench.cx.target.join("uml-mutants/build");
    suite::module(
        &bench.cx.path("kmod"),
        &kernel.build,
        &build,
        &UML,
        &bench.log,
    )?;
    let mutants = all(&bench.cx.path("tests/uml/mutants"))?;
    for mutant in mutants
        .iter()
        .filter(|mutant| match &bench.case {
            Some(case) => *case == mutant.name,
            None => bench.all || ORDINARY.contains(&mutant.name.as_str()),
        })
        .collect::<Vec<_>>()
    {
        let result = hunt(bench, &kernel, &build, mutant);
        bench.note(&format!("{}: {}: {result:?}", mutant.name, mutant.why));
        let layer = uml::layer_of(uml::set_of(&mutant.case));
        bench.count(Test::hunted(mutant, layer, result));
    }
    Ok(())
}

/// Builds the module with the bug and runs the case that must fail; returns how long it took to.
fn hunt(bench: &Bench, kernel: &uml::Kernel, build: &Path, mutant: &Mutant) -> Result<Duration> {
    let (right, wrong) = (bench.cx.path("kmod"), build.with_file_name("source"));
    mutant.plant(&right, &wrong)?;
    // Of a module that is built already make compiles this file, and after it is put back, once more.
    fs::copy(wrong.join(&mutant.file), build.join(&mutant.file))?;
    let made = suite::make(&kernel.build, build, &UML, &bench.log);
    fs::copy(right.join(&mutant.file), build.join(&mutant.file))?;
    made.context("it does not build")?;
    let set = uml::set_of(&mutant.case);
    let modules = kernel.modules_of_set(bench, set, &build.join("dm-tandem.ko"))?;
    // A word of a kernel's command line has no spaces.
    let only = mutant.case.replace(' ', "_");
    let variables = [
        ("SUITE_MODULES", modules.as_str()),
        ("SUITE_ONLY", &only),
        ("SUITE_LIMIT", HANGS),
    ];
    let mut guest = kernel.guest_of_set(bench.cx, set, &variables)?;
    let (mut failed, mut passed) = (false, false);
    let start = Instant::now();
    let is_case = |rest: &str| rest.starts_with(&mutant.case);
    suite::follow(&mut guest, LIMIT, &bench.log, |line| {
        failed |= line.strip_prefix("FAIL ").is_some_and(is_case);
        passed |= line.strip_prefix("ok   ").is_some_and(is_case);
    })?;
    if failed {
        Ok(start.elapsed())
    } else if passed {
        bail!("not found by {:?}", mutant.case)
    } else {
        bail!("the case {:?} did not come to an end", mutant.case)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Mutant, all, hunted};
    use crate::cx::Cx;
    use crate::results::Outcome;

    #[test]
    fn each_bug_fits_the_sources_of_today() {
        let cx = Cx::new().unwrap();
        for (dir, sources) in [
            ("tests/uml/mutants", "kmod"),
            ("tests/record/mutants", "kmod"),
            ("helper/mutants", "."),
        ] {
            for mutant in all(&cx.path(dir)).unwrap() {
                let text = fs::read_to_string(cx.path(sources).join(&mutant.file)).unwrap();
                let times = text.matches(&mutant.old).count();
                assert_eq!(times, 1, "{dir}/{}.mutant", mutant.name);
            }
        }
    }

    #[test]
    fn each_bug_of_the_module_names_a_case_that_there_is() {
        let cx = Cx::new().unwrap();
        let cases: String = fs::read_dir(cx.path("tests/uml/suite/src/cases"))
            .unwrap()
            .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
            .collect();
        for mutant in all(&cx.path("tests/uml/mutants")).unwrap() {
            // It runs, and it is told by how its name begins.
            assert!(
                cases.contains(&format!("\"{}", mutant.case)),
                "{}.mutant: no case {:?}",
                mutant.name,
                mutant.case
            );
        }
    }

    #[test]
    fn the_simulators_lines_are_understood() {
        let bug = hunted("lost-update: found by power cuts in 0.31 s: seed 2: lost: #4").unwrap();
        assert_eq!(
            (bug.name.as_str(), bug.outcome),
            ("lost-update", Outcome::Passed)
        );
        assert_eq!(
            (bug.seconds, bug.words.as_str()),
            (Some(0.31), "power cuts")
        );
        for line in [
            "x: NOT FOUND in 9.00 s: why",
            "x: NOT TRIED: cannot build",
            "x: NO END of power cuts after 300.00 s: why",
        ] {
            assert_eq!(hunted(line).unwrap().outcome, Outcome::Failed, "{line}");
        }
        assert!(hunted("83 of 83 seeded bugs found").is_none());
    }

    #[test]
    fn a_mutant_has_a_reason_a_file_and_a_case() {
        let text = "# SPDX\nwhy it is wrong\nfile linux/map.c\ncase life: stop\n-\na\nb\n+\nc\n";
        let mutant = Mutant::parse("name", text).unwrap();
        assert_eq!(
            (mutant.case.as_str(), mutant.old.as_str()),
            ("life: stop", "a\nb")
        );
        assert_eq!(mutant.new, "c");
        assert!(Mutant::parse("name", &text.replace("case ", "by ")).is_none());
    }
}

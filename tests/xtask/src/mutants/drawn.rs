// SPDX-License-Identifier: GPL-3.0-or-later
//! Mutants that are made by rule and drawn by a seed. All drawn mutants of a source are compiled in one build, and the
//! tests of that source run with each until the first of them fails. What survives is named: the change makes no
//! difference, or a test is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tandem_harness::deps::{self, Need};
use tandem_harness::layer::{Layer, Run, When};
use tandem_harness::results::{Outcome, Test};
use tandem_harness::{kbuild, run, seed};
use tandem_mutants::{Copy, Drawn, SWITCH, enumerate, shuffled};

use super::{Chosen, WORKERS, build_all, copy_with, helper, limited, module, side_by_side};
use crate::{suite, uml};

/// How many mutants of each source are tried.
const DRAWN: usize = 40;
/// How many more are compiled, because some do not build.
const SPARE: usize = 30;
/// How many may survive. Some changes make no difference, such as an order of two statements that are independent.
const SURVIVING: usize = 8;
/// Longest time of a case of the kernel's suite, of the whole suite, and of a test program of the helper. A mutant
/// that hangs is found.
const CASE_SECONDS: &str = "90";
const SUITE: Duration = Duration::from_secs(3600);
/// Longest time of the cases in virtual time, which do not notice a hang themselves.
const VIRTUAL: Duration = Duration::from_secs(600);
const PROGRAM: Duration = Duration::from_secs(900);

/// The layers, in the order in which they run.
pub fn layers() -> [Layer; 2] {
    [
        Layer {
            name: "uml-drawn",
            about: "changes of the module, made by rule and drawn by a seed, are found",
            needs: deps::KERNEL,
            when: When::Whole,
            run: of_module,
        },
        Layer {
            name: "helper-drawn",
            about: "changes of the helper, made by rule and drawn by a seed, are found",
            needs: &[Need::Helper, Need::Services],
            when: When::Whole,
            run: of_helper,
        },
    ]
}

/// The mutants of the sources in `dir` below `root` that this run tries, and some more.
fn draw(run: &Run, prefix: &str, root: &str, dir: &str, ending: &str) -> Result<Vec<Drawn>> {
    let root = run.cx.path(root);
    let listed = run::output(run::cmd("git", ["ls-files", "--", dir]).current_dir(&root))?;
    let is_test = |file: &str| file.contains("/tests/") || file.ends_with("tests.rs");
    let mut files = Vec::new();
    for file in listed
        .lines()
        .filter(|file| file.ends_with(ending) && !is_test(file))
    {
        files.push((file.to_owned(), fs::read_to_string(root.join(file))?));
    }
    let mut order = shuffled(enumerate(prefix, &files), seed::of_this_run()?);
    match &run.case {
        Some(case) => order.retain(|drawn| drawn.change.name == *case),
        None => order.truncate(DRAWN + SPARE),
    }
    Ok(order)
}

/// Tries the drawn mutants of a source, whose files begin at `root`, that were built. `test` returns the test that fails; nothing if all pass.
fn try_all(
    run: &mut Run,
    [source, root]: [&str; 2],
    workers: usize,
    copy: &Copy,
    mut drawn: Vec<Drawn>,
    test: impl Fn(&mut Run, Option<&Drawn>, Chosen) -> Result<Option<String>> + Sync,
) -> Result<()> {
    drawn.retain(|drawn| copy.number(&drawn.change.name).is_some());
    drawn.truncate(DRAWN);
    // The first one is no mutant: if the tests fail without a change, their failures prove nothing.
    let tried: Vec<_> = std::iter::once(None)
        .chain(drawn.iter().map(Some))
        .collect();
    let found = side_by_side(run, workers, &tried, |run, drawn, worker| {
        let number = drawn.and_then(|drawn| copy.number(&drawn.change.name));
        let number = number.unwrap_or_default();
        let found = test(run, *drawn, Chosen { number, worker });
        let words = match &found {
            Ok(Some(test)) => format!("found by {test}"),
            Ok(None) => "SURVIVES".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        run.note(&format!("{}: {words}", told(root, *drawn)));
        found
    })?;
    let mut survivors = 0;
    for (drawn, found) in tried.into_iter().zip(found) {
        let found = found?;
        let Some(drawn) = drawn else {
            ensure!(
                found.is_none(),
                "without a change fails {}",
                found.unwrap_or_default()
            );
            continue;
        };
        if found.is_none() {
            survivors += 1;
            run.figures
                .push(format!("survives: {}", told(root, Some(drawn))));
        }
        run.count(Test {
            name: drawn.change.name.clone(),
            outcome: Outcome::Passed,
            seconds: None,
            words: found.unwrap_or_else(|| "survives".to_owned()),
        });
    }
    let few = match survivors {
        0..=SURVIVING => Ok(()),
        _ => Err(anyhow::anyhow!("{survivors} of {} survive", drawn.len())),
    };
    run.figures
        .push(format!("{source}: {survivors} of {} survive", drawn.len()));
    run.check(&format!("{source}: few survive"), few);
    Ok(())
}

/// A mutant for a person.
fn told(root: &str, drawn: Option<&Drawn>) -> String {
    let Some(Drawn {
        change,
        line,
        words,
    }) = drawn
    else {
        return "no change".to_owned();
    };
    let file = Path::new(root).join(&change.file);
    format!("{} {}:{line} {words}", change.name, file.display())
}

fn of_module(run: &mut Run) -> Result<()> {
    let drawn = draw(run, "kmod", "kmod", "linux", ".c")?;
    let kernel = uml::kernel(run.cx, "plain")?;
    let changes = drawn.iter().map(|drawn| drawn.change.clone()).collect();
    let place = "uml-drawn/module";
    let mut copy = copy_with(run, "kmod", &kbuild::KMOD, place, changes)?;
    let dir = copy.dir().to_owned();
    build_all(run, &mut copy, |run| module::build(run, &kernel, &dir))?;
    for set in ["", "time"] {
        kernel.modules_of_set(run, set, &dir)?;
    }
    let seeded = tandem_mutants::all(&run.cx.path(module::DIR))?;
    // A guest waits for half of the time.
    try_all(
        run,
        ["kmod/linux", "kmod"],
        2 * WORKERS,
        &copy,
        drawn,
        |run, drawn, chosen| {
            let tested = chosen.module(&dir)?;
            // Cases that find seeded bugs of this file find other bugs of it first.
            let likely = |set: &str| {
                let of_file = seeded.iter().filter(|bug| {
                    drawn.is_some_and(|drawn| drawn.change.file == bug.file)
                        && uml::set_of(&bug.case) == set
                });
                let mut cases: Vec<_> = of_file.map(|bug| bug.case.replace(' ', "_")).collect();
                cases.sort();
                cases.dedup();
                cases.join("|")
            };
            let stages = [
                ("", likely("")),
                ("time", likely("time")),
                ("", "_".to_owned()),
                ("time", "_".to_owned()),
            ];
            for (set, only) in stages {
                if only.is_empty() {
                    continue;
                }
                let modules = kernel.modules_of_set(run, set, &tested)?;
                let variables = [
                    ("SUITE_MODULES", modules.as_str()),
                    ("SUITE_ONLY", &only),
                    ("SUITE_LIMIT", CASE_SECONDS),
                    ("SUITE_SEED", "0"),
                ];
                let limit = if set == "time" { VIRTUAL } else { SUITE };
                let mut guest = kernel.guest_of_set(run.cx, set, &variables)?;
                if let Some((case, words)) = suite::first_failure(&mut guest, limit, &run.log)? {
                    return Ok(Some(format!("{case}: {words}")));
                }
            }
            Ok(None)
        },
    )
}

fn of_helper(run: &mut Run) -> Result<()> {
    let _lock = helper::locked(run.cx)?;
    let drawn = draw(run, "helper", ".", "helper/src", ".rs")?;
    let changes = drawn.iter().map(|drawn| drawn.change.clone()).collect();
    let mut copy = copy_with(run, ".", &["."], helper::COPY, changes)?;
    let tree = copy.dir().to_owned();
    build_all(run, &mut copy, |run| helper::build(run, &tree))?;
    let programs = helper::programs(run, &tree)?;
    let program = |name: &str| {
        programs
            .get(name)
            .with_context(|| format!("no test program {name}"))
    };
    let mut all: Vec<(&PathBuf, &str)> = Vec::new();
    for (name, dir) in PROGRAMS {
        all.push((program(name)?, dir));
    }
    try_all(
        run,
        ["helper/src", ""],
        WORKERS,
        &copy,
        drawn,
        |run, drawn, chosen| {
            // The file's own tests first.
            let own = drawn.map(|drawn| {
                let path = drawn
                    .change
                    .file
                    .trim_start_matches("helper/src/")
                    .trim_end_matches(".rs");
                path.trim_end_matches("/mod").replace('/', "::")
            });
            let stages = own.iter().map(|own| (all[0], Some(own.as_str())));
            for ((program, dir), filter) in stages.chain(all.iter().map(|program| (*program, None)))
            {
                let found = failing(run, program, &tree.join(dir), filter, chosen)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            Ok(None)
        },
    )
}

/// The first test of a program that fails, and fails again when it runs alone: on a busy machine a test may fail once
/// without a reason in the program.
fn failing(
    run: &Run,
    program: &Path,
    dir: &Path,
    filter: Option<&str>,
    chosen: Chosen,
) -> Result<Option<String>> {
    let run = |words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).current_dir(dir);
        command.env(SWITCH, chosen.number.to_string());
        limited(run, &mut command, PROGRAM)
    };
    let ran = run(filter.as_slice())?;
    match ran.code {
        Some(0) => return Ok(None),
        Some(_) => {}
        None => return Ok(Some("a program hangs".to_owned())),
    }
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let failed: Vec<_> = ran.said.lines().filter_map(failed_test).collect();
    if failed.is_empty() {
        return Ok(Some(format!("{name}: a crash")));
    }
    for test in failed {
        if run(&["--exact", test])?.code != Some(0) {
            return Ok(Some(format!("{name}: {test}")));
        }
    }
    Ok(None)
}

/// The name of the test in a line `test NAME ... FAILED`.
fn failed_test(line: &str) -> Option<&str> {
    let (begun, _) = line.rsplit_once(" ... FAILED")?;
    begun.split_once("test ").map(|(_, name)| name)
}

/// The test programs that run with each mutant of the helper, with their directories. The one that is most likely to
/// find a mutant comes first.
const PROGRAMS: [(&str, &str); 9] = [
    ("tandem_helper", "helper"),
    ("conformance", "helper/sim"),
    ("recovery", "helper/sim"),
    ("changed_devices", "helper/sim"),
    ("inhibitor", "helper/sim"),
    ("authorization", "helper/sim"),
    ("hostile", "helper/sim"),
    ("root_binary", "helper"),
    ("probe_binary", "helper"),
];

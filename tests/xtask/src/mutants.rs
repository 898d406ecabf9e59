// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers that prove that the tests find bugs. Each seeded bug is a test, which passes when the bug is found for the
//! reason in the bug's file.
//!
//! A bug is a file `*.mutant`: a file of the sources, a text in it, the text that replaces that text, the test that
//! must fail, and words that the failing test must print.

mod engine;
mod helper;
mod module;
mod recordings;

use std::fs;
use std::path::Path;
use std::time::Duration;
use tandem_harness::kbuild;
use tandem_harness::sample;

use anyhow::{Context, Result, bail, ensure};

use tandem_harness::layer::{Bench, Layer};
use tandem_harness::results::{Outcome, Test};

/// Length of a test's output that an error repeats, in characters.
const SAID: usize = 300;

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        recordings::layer(),
        engine::layer(),
        module::layer(),
        helper::layer(),
    ]
}

/// Each directory of seeded bugs, the layer that hunts them, and the sources that they change.
pub const DIRS: [(&str, &str, &str); 4] = [
    (engine::DIR, "mutants", "kmod"),
    (module::DIR, "uml-mutants", "kmod"),
    (recordings::DIR, "record-mutants", "kmod"),
    (helper::DIR, "helper-mutants", "."),
];

/// A seeded bug.
pub struct Mutant {
    /// The name of its file without the ending.
    pub name: String,
    /// The fault that the bug makes.
    pub why: String,
    /// The test that must fail.
    pub test: String,
    /// Words that the test must print when it fails; empty where the file does not state them yet.
    says: String,
    /// Time after which the test counts as hanging, if it differs from the layer's other bugs.
    pub limit: Option<Duration>,
    /// The changed file, relative to the sources that the layer builds from.
    pub file: String,
    old: String,
    new: String,
}

/// A test that has failed with a bug.
pub struct Failure {
    /// The test, for the promises.
    pub test: String,
    /// Everything that the test printed.
    pub said: String,
    /// How long the test took to fail.
    pub time: Duration,
}

impl Mutant {
    fn parse(name: &str, text: &str) -> Result<Self> {
        let (head, texts) = text.split_once("\n-\n").context("no line `-`")?;
        let (old, new) = texts.split_once("\n+\n").context("no line `+`")?;
        let mut mutant = Self {
            name: name.to_owned(),
            why: String::new(),
            test: String::new(),
            says: String::new(),
            limit: None,
            file: String::new(),
            old: old.to_owned(),
            new: new.strip_suffix('\n').unwrap_or(new).to_owned(),
        };
        for line in head.lines().filter(|line| !line.starts_with('#')) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let rest = rest.trim();
            match word {
                "why" => rest.clone_into(&mut mutant.why),
                "file" => rest.clone_into(&mut mutant.file),
                "case" => rest.clone_into(&mut mutant.test),
                "says" => rest.clone_into(&mut mutant.says),
                "limit" => {
                    let seconds = rest.parse().context("`limit` takes seconds")?;
                    mutant.limit = Some(Duration::from_secs(seconds));
                }
                // A mark for `cargo xtask promises`.
                "promise" => {}
                _ => bail!("a bug has no {word:?}"),
            }
        }
        for (word, value) in [
            ("why", &mutant.why),
            ("file", &mutant.file),
            ("case", &mutant.test),
        ] {
            ensure!(!value.is_empty(), "no line `{word}`");
        }
        Ok(mutant)
    }

    /// A bug that the simulator makes without a changed source.
    fn of_flaw(name: &str, says: &str) -> Self {
        Self {
            name: name.to_owned(),
            why: "made by the simulator".to_owned(),
            test: String::new(),
            says: says.to_owned(),
            limit: None,
            file: String::new(),
            old: String::new(),
            new: String::new(),
        }
    }

    /// Copies the module's sources to a directory and puts the bug in.
    fn plant(&self, from: &Path, to: &Path) -> Result<()> {
        kbuild::copy(from, to)?;
        self.seed(to)
    }

    /// Puts the bug into the sources in a directory.
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

    /// Whether the failed test has found this bug and no other fault.
    fn is_found_by(&self, said: &str) -> Result<()> {
        if said.contains(&self.says) {
            return Ok(());
        }
        let end = said
            .char_indices()
            .nth(SAID)
            .map_or(said.len(), |(at, _)| at);
        bail!(
            "failed for another reason: not {:?} but {:?}",
            self.says,
            &said[..end]
        )
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
            .with_context(|| path.display().to_string())?;
        mutants.push(mutant);
    }
    mutants.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(mutants)
}

/// Tests with each bug in a directory, or without `--all` with so many of the bugs, others in each run. `hunt` returns
/// how the test failed, or an error if the test did not fail.
fn hunt_all(
    bench: &mut Bench,
    dir: &str,
    ordinary: usize,
    mut hunt: impl FnMut(&mut Bench, &Mutant) -> Result<Failure>,
) -> Result<()> {
    for mutant in sample::of(bench, dir, all(&bench.cx.path(dir))?, ordinary)? {
        if bench.wants(&mutant.name) {
            let failure = hunt(bench, &mutant);
            bench.note(&format!("{}: {}", mutant.name, mutant.why));
            count(bench, &mutant, failure);
        }
    }
    Ok(())
}

/// Counts a bug as a test: passed if the bug was found.
fn count(bench: &mut Bench, mutant: &Mutant, failure: Result<Failure>) {
    let found = failure.and_then(|failure| mutant.is_found_by(&failure.said).map(|()| failure));
    let (seconds, words) = match &found {
        Ok(failure) => (Some(failure.time.as_secs_f64()), failure.test.clone()),
        Err(error) => (None, format!("{error:#}")),
    };
    bench.note(&format!("{}: {words}", mutant.name));
    bench.count(Test {
        name: mutant.name.clone(),
        outcome: Outcome::of(found.is_ok()),
        seconds,
        words,
    });
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use tandem_harness::cx::Cx;

    #[test]
    fn each_bug_fits_the_sources_of_today() {
        let cx = Cx::new().unwrap();
        for (dir, _, sources) in DIRS {
            for mutant in all(&cx.path(dir)).unwrap() {
                let text = fs::read_to_string(cx.path(sources).join(&mutant.file)).unwrap();
                let times = text.matches(&mutant.old).count();
                assert_eq!(times, 1, "{dir}/{}.mutant", mutant.name);
            }
        }
    }

    #[test]
    fn a_bug_has_a_reason_a_file_and_a_test() {
        let text = "# SPDX\nwhy it is wrong\nfile linux/map.c\ncase life: stop\nsays left behind\nlimit 20\n-\na\nb\n+\nc\n";
        let mutant = Mutant::parse("name", text).unwrap();
        assert_eq!(
            (mutant.test.as_str(), mutant.old.as_str()),
            ("life: stop", "a\nb")
        );
        assert_eq!(mutant.new, "c");
        assert_eq!(mutant.limit, Some(Duration::from_secs(20)));
        for broken in ["case ", "test t", "limit x"] {
            let text = text.replace("case life: stop", broken);
            assert!(Mutant::parse("name", &text).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_failure_for_another_reason_is_no_find() {
        let text = "why w\nfile f\ncase t\nsays lost: #4\n-\na\n+\nb\n";
        let mutant = Mutant::parse("name", text).unwrap();
        assert!(mutant.is_found_by("seed 2: lost: #4 at 7").is_ok());
        assert!(
            mutant
                .is_found_by("seed 2: the model is not quiet")
                .is_err()
        );
    }
}

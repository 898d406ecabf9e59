// SPDX-License-Identifier: GPL-3.0-or-later
//! The files `*.mutant`: one seeded bug each.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::weave::Change;
use crate::woven::Edit;

/// Length of a test's output that an error repeats, in characters.
const SAID: usize = 300;

/// A seeded bug.
#[derive(Clone, Debug, Default)]
pub struct Bug {
    /// The name of its file without the ending.
    pub name: String,
    /// The fault that the bug makes.
    pub why: String,
    /// The test that must fail.
    pub case: String,
    /// Words that the failing test must print.
    pub says: String,
    /// Time after which the test counts as hanging, if it differs from the layer's other bugs.
    pub limit: Option<Duration>,
    /// The changed file, relative to the sources.
    pub file: String,
    old: String,
    new: String,
}

impl Bug {
    fn parse(name: &str, text: &str) -> Result<Self> {
        let (head, texts) = text.split_once("\n-\n").context("no line `-`")?;
        let (old, new) = texts.split_once("\n+\n").context("no line `+`")?;
        let mut bug = Self {
            name: name.to_owned(),
            old: old.to_owned(),
            new: new.strip_suffix('\n').unwrap_or(new).to_owned(),
            ..Self::default()
        };
        for line in head.lines().filter(|line| !line.starts_with('#')) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let rest = rest.trim();
            match word {
                "why" => rest.clone_into(&mut bug.why),
                "file" => rest.clone_into(&mut bug.file),
                "case" => rest.clone_into(&mut bug.case),
                "says" => rest.clone_into(&mut bug.says),
                "limit" => {
                    let seconds = rest.parse().context("`limit` takes seconds")?;
                    bug.limit = Some(Duration::from_secs(seconds));
                }
                // A mark for `cargo xtask promises`.
                "promise" => {}
                _ => bail!("a bug has no {word:?}"),
            }
        }
        for (word, value) in [("why", &bug.why), ("file", &bug.file), ("case", &bug.case)] {
            ensure!(!value.is_empty(), "no line `{word}`");
        }
        Ok(bug)
    }

    /// A bug that a test program makes without a changed source.
    #[must_use]
    pub fn without_source(name: &str, says: &str) -> Self {
        Self {
            name: name.to_owned(),
            why: "made by the test program".to_owned(),
            says: says.to_owned(),
            ..Self::default()
        }
    }

    /// Where the bug changes its file.
    ///
    /// # Errors
    /// The text of the bug is not exactly once in the file.
    pub fn change(&self, sources: &Path) -> Result<Change> {
        let file = sources.join(&self.file);
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut places = text.match_indices(&self.old);
        let (Some((start, _)), None) = (places.next(), places.next()) else {
            bail!(
                "{}: its text is not once in {}: bring it up to date",
                self.name,
                self.file
            );
        };
        Ok(Change {
            name: self.name.clone(),
            file: self.file.clone(),
            edit: Edit::between(start, &self.old, &self.new),
        })
    }

    /// Whether the failed test has found this bug and no other fault.
    ///
    /// # Errors
    /// The test did not print the words of the bug.
    pub fn is_found_by(&self, said: &str) -> Result<()> {
        if said.contains(&self.says) {
            return Ok(());
        }
        let end = said.char_indices().nth(SAID);
        bail!(
            "failed for another reason: not {:?} but {:?}",
            self.says,
            &said[..end.map_or(said.len(), |(at, _)| at)]
        )
    }
}

/// All seeded bugs in a directory, by name.
///
/// # Errors
/// The directory or a file in it cannot be read, or a file is no bug.
pub fn all(dir: &Path) -> Result<Vec<Bug>> {
    let mut bugs = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|end| end != "mutant") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let bug = Bug::parse(&name, &fs::read_to_string(&path)?)
            .with_context(|| path.display().to_string())?;
        bugs.push(bug);
    }
    bugs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(bugs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_has_a_reason_a_file_a_test_and_its_words() {
        let text = "# SPDX\nwhy it is wrong\nfile linux/map.c\ncase life: stop\nsays left behind\nlimit 20\n-\na\nb\n+\nc\n";
        let bug = Bug::parse("name", text).unwrap();
        assert_eq!(
            (bug.case.as_str(), bug.old.as_str(), bug.new.as_str()),
            ("life: stop", "a\nb", "c")
        );
        assert_eq!(bug.limit, Some(Duration::from_secs(20)));
        for broken in ["case ", "test t", "limit x"] {
            let text = text.replace("case life: stop", broken);
            assert!(Bug::parse("name", &text).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_failure_for_another_reason_is_no_find() {
        let bug = Bug::without_source("name", "lost: #4");
        assert!(bug.is_found_by("seed 2: lost: #4 at 7").is_ok());
        assert!(bug.is_found_by("seed 2: the model is not quiet").is_err());
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The results of layers as a table, and as a file to keep: `cargo xtask test --log`.

use std::fmt::Write;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::cx::{Cx, say};
use crate::inputs::Tree;
use crate::results::{Counts, LOGS, Layer, Outcome};
use crate::{promises, run, test};

/// Results as a person reads them on a terminal, and why what failed did.
pub fn table(results: &[Layer]) -> String {
    let mut text = format!(
        "{:<22} {:>7} {:>7} {:>7} {:>7}  {}\n",
        "layer", "passed", "failed", "skipped", "seconds", "commit"
    );
    for result in results {
        let counts = result.counts();
        let _ = writeln!(
            text,
            "{:<22} {:>7} {:>7} {:>7} {:>7.0}  {}",
            result.name,
            counts.passed,
            counts.failed,
            counts.skipped,
            result.seconds,
            result.origin()
        );
        for test in result.tests_that(Outcome::Skipped) {
            let _ = writeln!(text, "    skipped: {}: {}", test.name, test.words);
        }
        for test in result.tests_that(Outcome::Failed) {
            let _ = writeln!(text, "    failed: {}", test.name);
            for line in test.words.lines() {
                let _ = writeln!(text, "      {line}");
            }
        }
    }
    let _ = write!(text, "\n{}", counts(results));
    text
}

fn counts(results: &[Layer]) -> Counts {
    Counts::of(results.iter().flat_map(|result| &result.tests))
}

/// Green when something passed and nothing failed. A skipped test changes neither.
pub fn verdict(results: &[Layer]) -> ExitCode {
    let counts = counts(results);
    if counts.failed == 0 && counts.passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Keeps each result whose inputs are those of the commit. If all layers have one, writes them to a file below
/// tests/logs.
pub fn command(cx: &Cx) -> Result<ExitCode> {
    let head = Tree::of_head(cx)?;
    let mut results = Vec::new();
    let mut refused = Vec::new();
    for layer in test::layers() {
        if let Some(result) = Layer::of_inputs(cx, layer.name, &layer.inputs.key(cx, &head)?)? {
            result.keep(cx)?;
            results.push(result);
            continue;
        }
        let words = Layer::load(cx, layer.name)?.map_or_else(
            || "was not run".to_owned(),
            |result| format!("of other inputs, {}", result.origin()),
        );
        refused.push(format!("{}: {words}", layer.name));
    }
    let commit = run::output(run::cmd("git", ["rev-parse", "HEAD"]).current_dir(&cx.root))?;
    let commit = commit.trim();
    let short = commit.get(..12).unwrap_or(commit);
    if !refused.is_empty() {
        bail!(
            "{} results are kept; a log takes the results of all layers with the inputs of {short}:\n  {}",
            results.len(),
            refused.join("\n  ")
        );
    }
    let last = results.iter().max_by_key(|result| &result.date);
    let last = last.context("there are layers")?;
    let day = last.date.split(' ').next().unwrap_or_default();
    let dir = cx.path(LOGS);
    fs::create_dir_all(&dir)?;
    let file = dir.join(format!("{day}-{short}.md"));
    fs::write(&file, page(cx, &results, last, commit)?)?;
    say(format!("{}; {}", file.display(), counts(&results)));
    Ok(verdict(&results))
}

fn page(cx: &Cx, results: &[Layer], last: &Layer, commit: &str) -> Result<String> {
    let mut text = format!(
        "<!-- SPDX-License-Identifier: GPL-3.0-or-later -->\n# Tests of {}\n\n\
         Commit {commit}, until {} UTC, {} processors: {}.\n\
         Written by `cargo xtask test --log` from each layer's own results; \"whole\" are those with `--all`. A result of another\n\
         commit has the same inputs; `+` stands for changes that were committed later.\n\n\
         | layer | commit | matrix | passed | failed | skipped | seconds | figures |\n|---|---|---|--:|--:|--:|--:|---|\n",
        commit.get(..12).unwrap_or(commit),
        last.date,
        last.processors,
        counts(results),
    );
    for result in results {
        let matrix = if result.all { "whole" } else { "pairwise" };
        let Counts {
            passed,
            failed,
            skipped,
        } = result.counts();
        let _ = writeln!(
            text,
            "| {} | {} | {matrix} | {passed} | {failed} | {skipped} | {:.0} | {} |",
            result.name,
            result.origin(),
            result.seconds,
            result.figures.join("; ").replace('|', "/"),
        );
    }
    for (outcome, word) in [(Outcome::Failed, "Failed"), (Outcome::Skipped, "Skipped")] {
        for result in results {
            for test in result.tests_that(outcome) {
                let why = test.words.lines().next().unwrap_or_default();
                let _ = writeln!(text, "\n{word}: {}/{}: {why}", result.name, test.name);
            }
        }
    }
    let lines = promises::lines(cx)?;
    let kept = lines.iter().filter(|line| line.kept).count();
    let _ = writeln!(
        text,
        "\n## The crash contract: {kept} of {} promises kept\n",
        lines.len()
    );
    for line in lines {
        let _ = writeln!(text, "- {}", line.text);
    }
    Ok(text)
}

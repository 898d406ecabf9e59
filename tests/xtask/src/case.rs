// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask test --case NAME`: finds the layer of a test, and the names of tests in the sources.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cx::{Cx, notice};
use crate::layer::Layer;

/// How many similar names an error lists.
const SIMILAR: usize = 12;

/// The first of these layers that has the test `name` and can run it alone.
pub fn layer_with<'a>(cx: &Cx, layers: &'a [Layer], name: &str) -> Result<&'a Layer> {
    let mut found = Vec::new();
    let mut similar = Vec::new();
    for layer in layers {
        let names = (layer.cases)(cx)?;
        if names.iter().any(|known| is_called(known, name)) {
            found.push(layer);
        }
        let alike = names.iter().filter(|known| known.contains(name));
        similar.extend(alike.map(|known| format!("{}/{known}", layer.name)));
    }
    let Some((first, others)) = found.split_first() else {
        similar.truncate(SIMILAR);
        let similar = match similar.as_slice() {
            [] => String::new(),
            names => format!("; there are:\n  {}", names.join("\n  ")),
        };
        bail!("no layer has a test called {name:?} that it can run alone{similar}");
    };
    if !others.is_empty() {
        let others: Vec<_> = others.iter().map(|layer| layer.name).collect();
        notice(format!(
            "run in {}; with `--only` also in {}",
            first.name,
            others.join(", ")
        ));
    }
    Ok(first)
}

/// Whether `name` means this test. The last parts of the path are enough for a test in Rust.
fn is_called(known: &str, name: &str) -> bool {
    known == name || name.ends_with(&format!("::{known}"))
}

/// The names of the suite's cases in User-mode Linux, from its sources: the first of each pair `("NAME", function)`.
pub fn of_suite(cx: &Cx) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in rust_files(&cx.path("tests/uml/suite/src/cases"))? {
        names.extend(pairs(&fs::read_to_string(file)?));
    }
    Ok(names)
}

/// The first strings of pairs, which rustfmt leaves as `("NAME", ...` or as `"NAME",` on the line below `(`.
fn pairs(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut before = "";
    for line in text.lines().map(str::trim) {
        let string = if before == "(" || before.ends_with("[(") {
            line.strip_prefix('"')
        } else {
            // The first pair of a list may be on the line of the list's bracket.
            let first = line.split_once("[(\"").map(|(_, rest)| rest);
            first.or_else(|| line.strip_prefix("(\""))
        };
        let name = string.and_then(|string| Some(string.split_once("\",")?.0));
        names.extend(name.filter(|name| name.contains(": ")).map(str::to_owned));
        before = line;
    }
    names
}

/// A test function of a package.
pub struct RustTest {
    /// The package.
    pub package: &'static str,
    /// The option that has cargo build the test's program and no other.
    pub target: Vec<String>,
    /// Its name, without modules.
    pub name: String,
}

/// All test functions of packages, from their sources; each package with its directory below the top of the work tree.
pub fn in_rust(cx: &Cx, packages: &[(&'static str, &str)]) -> Result<Vec<RustTest>> {
    let mut tests = Vec::new();
    for &(package, dir) in packages {
        let dir = cx.path(dir);
        for part in ["src", "tests"] {
            let part = dir.join(part);
            if !part.is_dir() {
                continue;
            }
            for file in rust_files(&part)? {
                let target = target(file.strip_prefix(&dir)?)?;
                let text = fs::read_to_string(&file)?;
                tests.extend(functions(&text).into_iter().map(|name| RustTest {
                    package,
                    target: target.clone(),
                    name: name.to_owned(),
                }));
            }
        }
    }
    Ok(tests)
}

/// cargo's option for the program that a file of a package belongs to: `tests/NAME.rs`, `tests/NAME/...` or `src/...`.
fn target(file: &Path) -> Result<Vec<String>> {
    let mut parts = file.iter().map(|part| part.to_string_lossy());
    let (first, second) = parts.next().zip(parts.next()).context("an empty path")?;
    Ok(match first.as_ref() {
        "tests" => vec!["--test".into(), second.trim_end_matches(".rs").to_owned()],
        _ => vec!["--lib".into(), "--bins".into()],
    })
}

/// The functions of a source that have an attribute `#[test]`, `#[tokio::test(...)]` or the like.
fn functions(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split([']', '(']).next().unwrap_or_default();
            is_test |= path == "test" || path.ends_with("::test");
        } else if let Some((_, rest)) = line.split_once("fn ") {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            if std::mem::take(&mut is_test) {
                names.push(name);
            }
        }
    }
    names
}

/// All files `*.rs` below a directory.
pub fn rust_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The names of the seeded bugs in a directory.
pub fn of_mutants(cx: &Cx, dir: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(cx.path(dir))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "mutant") {
            names.push(
                path.file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into(),
            );
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_the_names_of_pairs() {
        let text = r#"
            pub const ONE: &[Entry] = &[("hits: one", one)];
            pub const TWO: &[Entry] = &[(
                "hits: two",
                two,
            )];
            pub const CASES: &[Entry] = &[
                ("starts: a cut", || cut("writeback")),
                (
                    "starts: a stop, then a start",
                    stop,
                ),
            ];
            fn cut() { bail!("lost: all"); format!("lost: {}", 3); }
        "#;
        assert_eq!(
            pairs(text),
            [
                "hits: one",
                "hits: two",
                "starts: a cut",
                "starts: a stop, then a start"
            ]
        );
    }

    #[test]
    fn every_case_that_the_promises_name_is_known() {
        let cx = Cx::new().unwrap();
        let names = of_suite(&cx).unwrap();
        let promises = fs::read_to_string(cx.path("tests/promises.toml")).unwrap();
        let mut tried = 0;
        for named in promises
            .split('"')
            .filter_map(|s| s.strip_prefix("uml-plain/"))
        {
            assert!(names.iter().any(|name| name == named), "{named}");
            tried += 1;
        }
        assert!(tried > 20, "only {tried} cases");
    }

    #[test]
    fn test_functions_are_found_by_their_attribute() {
        let text = "#[test]\nfn one() {}\n#[tokio::test(start_paused = true)]\n#[ignore]\nasync fn two() {}\nfn three() {}\n";
        assert_eq!(functions(text), ["one", "two"]);
    }

    #[test]
    fn the_end_of_a_path_names_a_test() {
        assert!(is_called(
            "no_cut_breaks_a_promise",
            "crash::no_cut_breaks_a_promise"
        ));
        assert!(!is_called("cut", "crash::no_cut"));
    }
}

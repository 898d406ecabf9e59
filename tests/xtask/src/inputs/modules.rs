// SPDX-License-Identifier: GPL-3.0-or-later
//! The modules of xtask that a layer's module uses, found in their sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::XTASK;
use crate::cx::Cx;

/// The source of a module of xtask, of all modules that this source names, and the files that these sources include.
pub fn modules(cx: &Cx, module: &str) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let path = module.trim_start_matches("xtask::").replace("::", "/");
    let inputs = format!("{XTASK}/inputs");
    let mut left = vec![format!("{XTASK}/{path}.rs")];
    while let Some(file) = left.pop() {
        if !found.insert(file.clone()) {
            continue;
        }
        let text = fs::read_to_string(cx.path(&file)).with_context(|| format!("no {file}"))?;
        // xtask's own tests are no part of a layer, and this module changes no test.
        let text = text
            .split("#[cfg(test)]")
            .next()
            .unwrap_or_default()
            .to_owned();
        let parent = Path::new(&file).parent().context("a file lies somewhere")?;
        let is_file = |path: &Path| cx.root.join(path).is_file();
        for (word, base) in [("crate::", Path::new(XTASK)), ("super::", parent)] {
            for name in names_after(word, &text) {
                // The last part may be an item of the module.
                let used = base.join(name);
                let module = if is_file(&used.with_extension("rs")) {
                    Some(used.as_path())
                } else {
                    used.parent().filter(|module| *module != base)
                };
                left.extend(module.map(source_of));
            }
        }
        left.retain(|file| !file.starts_with(&inputs) && is_file(Path::new(file)));
        let children = Path::new(&file).with_extension("");
        for name in declared_modules(&text) {
            left.push(source_of(&children.join(name)));
        }
        for included in included(&text) {
            found.insert(normal(&parent.join(included)));
        }
    }
    Ok(found)
}

/// The modules and items that a source names behind `word`, which is `crate::` or `super::`: as `crate::NAME` or in
/// `crate::{NAME, ...}`. A name is a path of two parts at most.
fn names_after(word: &str, text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rest in text.split(word).skip(1) {
        let Some(group) = rest.strip_prefix('{') else {
            names.insert(path(rest));
            continue;
        };
        let mut depth = 0;
        let mut is_start = true;
        for (at, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_start = true,
                letter if is_start && !letter.is_whitespace() => {
                    names.insert(path(&group[at..]));
                    is_start = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// The modules that a source declares as `mod NAME;`.
fn declared_modules(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub ");
        line.strip_prefix("mod ")?.strip_suffix(';')
    })
}

/// The paths in `include_str!("PATH")`.
fn included(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("include_str!(\"").skip(1);
    parts.filter_map(|rest| Some(rest.split_once("\")")?.0))
}

/// The first two identifiers of a path such as `module::child::Item`.
fn path(text: &str) -> String {
    let first = identifier(text);
    match text[first.len()..].strip_prefix("::").map(identifier) {
        None | Some("") => first.to_owned(),
        Some(second) => format!("{first}/{second}"),
    }
}

/// The source of a module by its path without an extension.
fn source_of(module: &Path) -> String {
    module.with_extension("rs").display().to_string()
}

fn identifier(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// A path without `..` in it.
fn normal(path: &Path) -> String {
    let mut parts: Vec<_> = Vec::new();
    for part in path.iter() {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.iter().collect::<PathBuf>().display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_in_groups_and_paths() {
        let text = "use crate::cx::{Cx, say};\nuse crate::{fetch, hash as h, pins::{self, Pin}};\ncrate::run::cmd();";
        let expected = ["cx", "fetch", "hash", "pins", "run/cmd"];
        assert_eq!(
            names_after("crate::", text),
            expected.map(str::to_owned).into()
        );
    }

    #[test]
    fn a_layer_depends_on_the_modules_behind_its_own() {
        let cx = Cx::new().unwrap();
        let found = modules(&cx, "xtask::uml").unwrap();
        for path in [
            "src/uml.rs",
            "src/suite.rs",
            "src/fetch.rs",
            "src/apt.rs",
            "pins.toml",
        ] {
            assert!(found.contains(&format!("tests/xtask/{path}")), "{path}");
        }
        assert!(!found.contains(&format!("{XTASK}/vm.rs")));
    }

    #[test]
    fn a_layer_depends_on_its_siblings_only_where_it_names_them() {
        let cx = Cx::new().unwrap();
        let names = |module: &str, file: &str| {
            let found = modules(&cx, &format!("xtask::vm_tests::{module}")).unwrap();
            found.contains(&format!("{XTASK}/{file}.rs"))
        };
        for file in [
            "vm_tests/cut",
            "vm_tests/cut/outcome",
            "vm_tests/kept",
            "vm_tests/kill",
        ] {
            assert!(names("cut", file), "{file}");
        }
        assert!(names("advice", "vm_tests/scene") && names("cut", "vm/start"));
        assert!(names("restart::ports", "vm_tests/kept"));
        assert!(!names("cut", "vm_tests/restart") && !names("cut", "vm_tests"));
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! In no package do more than two files use each other in a circle, and no two folders do. The rooms of the service use only
//! rooms before them.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of the service's sources, with those that each may use.
const ROOMS: [(&str, &[&str]); 7] = [
    ("model", &[]),
    ("decide", &["model"]),
    ("machine", &["model", "decide"]),
    ("start", &["model", "decide", "machine"]),
    ("host", &["model", "decide", "machine"]),
    ("kinds", &["model", "decide", "machine", "host"]),
    ("service", &["model", "decide", "machine", "host", "kinds"]),
];

/// Which modules of a package use which.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The files of a folder and of those in it that end so.
fn files(folder: &Path, end: &str, to: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files(&path, end, to);
        } else if name.ends_with(end) {
            to.push(path);
        }
    }
}

/// The words of a source without comments, and without the tests at its end: `crate`, `:`, `:` and so on.
fn words(source: &str) -> Vec<&str> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().map(|line| line.split("//").next().unwrap());
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    lines
        .flat_map(|line| line.split_inclusive(move |c| !is_name(c)))
        .flat_map(|piece| {
            let name = piece.trim_end_matches(|c| !is_name(c));
            [name, &piece[name.len()..]]
        })
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect()
}

/// Adds the paths that begin with `prefix` and go on with these words, in braces several. Returns the words behind.
fn paths<'a>(mut rest: &'a [&'a str], prefix: &[&str], to: &mut Vec<String>) -> &'a [&'a str] {
    let mut path = prefix.to_vec();
    loop {
        match rest {
            ["{", behind @ ..] => {
                rest = behind;
                while !matches!(rest, ["}", ..] | []) {
                    rest = paths(rest, &path, to);
                    if let ["as", _, behind @ ..] = rest {
                        rest = behind;
                    }
                    if let [",", behind @ ..] = rest {
                        rest = behind;
                    } else if !matches!(rest, ["}", ..]) {
                        break;
                    }
                }
                return rest.get(1..).unwrap_or_default();
            }
            [name, behind @ ..] => {
                path.push(name);
                rest = behind;
            }
            [] => {}
        }
        match rest {
            [":", ":", behind @ ..] => rest = behind,
            _ => break,
        }
    }
    to.push(path.join("::"));
    rest
}

/// The modules of a package that are named in the source of a module, by their paths from the package's top.
fn named(source: &str, module: &str) -> Vec<String> {
    let words = words(source);
    let mut found = Vec::new();
    for at in 0..words.len() {
        let begins = matches!(words[at], "crate" | "super" | "self");
        if begins && at.checked_sub(1).is_none_or(|before| words[before] != ":") {
            paths(&words[at..], &[], &mut found);
        }
    }
    let full = |path: String| {
        let mut from: Vec<_> = module.split("::").filter(|name| !name.is_empty()).collect();
        let mut names = path.split("::").peekable();
        while let Some(name) = names.next_if(|name| matches!(*name, "crate" | "super" | "self")) {
            match name {
                "crate" => from.clear(),
                "super" => drop(from.pop()),
                _ => {}
            }
        }
        from.extend(names.filter(|name| *name != "self"));
        from.join("::")
    };
    found.into_iter().map(full).collect()
}

/// A module with its source, by the path of the module from the package's top. Not the top itself, and no tests.
fn modules(src: &Path) -> BTreeMap<String, String> {
    let mut all = Vec::new();
    files(src, ".rs", &mut all);
    let module = |path: PathBuf| {
        let inside = path.strip_prefix(src).unwrap().with_extension("");
        let names: Vec<_> = inside.iter().map(|name| name.to_str().unwrap()).collect();
        let names = match names.as_slice() {
            [rest @ .., "mod"] => rest,
            ["lib" | "main"] | ["bin", ..] => return None,
            names => names,
        };
        let is_test = names.contains(&"tests");
        (!is_test).then(|| (names.join("::"), fs::read_to_string(&path).unwrap()))
    };
    all.into_iter().filter_map(module).collect()
}

fn graph(src: &Path) -> Graph {
    let modules = modules(src);
    let known = |path: String| {
        let mut path = path.as_str();
        loop {
            if modules.contains_key(path) {
                return Some(path.to_owned());
            }
            path = path.rsplit_once("::")?.0;
        }
    };
    // A module and those inside it are one thing with parts.
    let is_inside = |one: &str, other: &str| format!("{one}::").starts_with(&format!("{other}::"));
    let arrows = |(module, source): (&String, &String)| {
        let used = named(source, module).into_iter().filter_map(known);
        let apart = used.filter(|used| !is_inside(used, module) && !is_inside(module, used));
        (module.clone(), apart.collect())
    };
    modules.iter().map(arrows).collect()
}

/// The folder at the package's top that has a module, or the module itself.
fn top(module: &str) -> String {
    module.split("::").next().unwrap().to_owned()
}

/// The repository.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
}

/// The same for the folders at the package's top.
fn folders(src: &Path, graph: &Graph) -> Graph {
    let mut all = Graph::new();
    for (module, used) in graph {
        let from = top(module);
        if src.join(&from).is_dir() {
            let used = used
                .iter()
                .map(|used| top(used))
                .filter(|used| *used != from);
            all.entry(from.clone()).or_default().extend(used);
        }
    }
    all
}

/// Sets of more than `most` that all use each other.
fn circles(graph: &Graph, most: usize) -> Vec<BTreeSet<String>> {
    let reach = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = next.pop() {
            for used in graph.get(&module).into_iter().flatten() {
                if graph.contains_key(used) && seen.insert(used.clone()) {
                    next.push(used.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = graph.keys().map(|from| (from, reach(from))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (module, to) in &reached {
        let back = to.iter().filter(|other| reached[other].contains(*module));
        let circle: BTreeSet<_> = back.cloned().chain([(*module).clone()]).collect();
        if circle.len() > most && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

#[test]
fn files_and_folders_use_each_other_in_one_direction() {
    let top = repository();
    let mut manifests = Vec::new();
    files(top, "Cargo.toml", &mut manifests);
    let mut told = Vec::new();
    let mut arrows = 0;
    for src in manifests.iter().map(|file| file.with_file_name("src")) {
        if !src.is_dir() {
            continue;
        }
        let graph = graph(&src);
        arrows += graph.values().map(BTreeSet::len).sum::<usize>();
        let name = src.strip_prefix(top).unwrap().display();
        for circle in circles(&graph, 2) {
            told.push(format!("files of {name}: {circle:?}"));
        }
        for circle in circles(&folders(&src, &graph), 1) {
            told.push(format!("folders of {name}: {circle:?}"));
        }
    }
    assert!(arrows > 1000, "{arrows} arrows were read");
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn a_room_uses_only_rooms_before_it() {
    let mut arrows = 0;
    for (module, used) in graph(&repository().join("helper/src")) {
        let Some((room, may)) = ROOMS.into_iter().find(|(room, _)| *room == top(&module)) else {
            continue;
        };
        for other in used.iter().map(|used| top(used)) {
            let is_room = ROOMS.iter().any(|(name, _)| *name == other);
            if is_room && other != room {
                assert!(may.contains(&other.as_str()), "{module} uses {other}");
                arrows += 1;
            }
        }
    }
    assert!(arrows > 100, "{arrows} arrows");
}

#[test]
fn uses_are_read_in_each_form() {
    let of = |source| named(source, "a::b");
    assert_eq!(
        of("use crate::x::{self, y::Z, w as v};"),
        ["x", "x::y::Z", "x::w", "a::b"]
    );
    assert_eq!(
        of("let v = super::c::make(self::d::E);"),
        ["a::c::make", "a::b::d::E"]
    );
    assert_eq!(
        of("// use crate::x;\npub(crate) fn f(&self) {}"),
        ["", "a::b"]
    );
}

#[test]
fn circles_are_found() {
    let graph: Graph = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]
        .map(|(from, to)| (from.to_owned(), [to.to_owned()].into()))
        .into();
    assert_eq!(
        circles(&graph, 2),
        [["a", "b", "c"].map(str::to_owned).into()]
    );
    assert!(circles(&graph, 3).is_empty());
}

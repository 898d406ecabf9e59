// SPDX-License-Identifier: GPL-3.0-or-later
//! Which files are inputs of which layers.

use super::*;
use crate::case::rust_files;
use crate::layer::Layer;
use crate::test;

fn all_paths(cx: &Cx, layer: &Layer) -> Paths {
    let built = layer.inputs.built(cx).unwrap();
    layer.inputs.all_paths(cx, &built).unwrap()
}

/// GTK is of the app only, and serde of all programs.
#[test]
fn an_entry_of_cargo_lock_counts_for_those_that_use_it() {
    let cx = Cx::new().unwrap();
    let text = fs::read_to_string(cx.path("Cargo.lock")).unwrap();
    let layers = test::layers();
    let changes = |layer: &str, name: &str| {
        let layer = layers.iter().find(|other| other.name == layer).unwrap();
        let uses = layer.inputs.built(&cx).unwrap().uses;
        let at = text.find(&format!("name = \"{name}\"\n")).unwrap();
        let (before, after) = text.split_at(at);
        let changed = before.to_owned() + &after.replacen("checksum = \"", "checksum = \"0", 1);
        cargo::lock(&text, &uses).unwrap() != cargo::lock(&changed, &uses).unwrap()
    };
    for layer in ["app", "vm-main"] {
        assert!(changes(layer, "gtk4") && changes(layer, "serde"), "{layer}");
    }
    for layer in ["uml-plain", "kernel-6.1-debian12"] {
        assert!(
            !changes(layer, "gtk4") && changes(layer, "serde"),
            "{layer}"
        );
    }
}

#[test]
fn a_package_brings_those_that_it_depends_on() {
    let cx = Cx::new().unwrap();
    let of = |names: &[(&str, bool)]| packages(&cx, names).unwrap().directories;
    let found = of(&[("tandem-suite", false)]);
    assert!(found.contains("tests/uml/suite") && found.contains("tests/record/log"));
    // The suite uses the rescue program without the feature that needs the service.
    assert!(found.contains("helper/rescue") && !found.contains("helper"));
    let found = of(&[("tandem-helper", true)]);
    assert!(found.contains("helper/api") && found.contains("kmod/sim"));
    let found = of(&[("tandem-rescue", false)]);
    assert!(found.contains("helper"));
}

/// A change in the app does not change the keys of the kernel module's layers, but a change in the module does.
#[test]
fn only_a_change_of_an_input_changes_the_key() {
    let cx = Cx::new().unwrap();
    let layers = test::layers();
    let of = |name: &str| layers.iter().find(|layer| layer.name == name).unwrap();
    let key = |name: &str, tree: &Tree| of(name).inputs.key(&cx, tree).unwrap();
    let tree = Tree::of_head(&cx).unwrap();
    let changed = |path: &str| {
        let mut files = tree.0.clone();
        let old = files.insert(path.to_owned(), "changed".to_owned());
        assert!(old.is_some(), "{path} is no file of the commit");
        Tree(files)
    };
    let cases: [(&str, [&str; 2], &[&str]); 8] = [
        (
            "helper/sim/tests/conformance/speed.rs",
            ["programs", "vm-conformance"],
            &["vm-kill", "rescue", "uml-plain"],
        ),
        ("app/tests/speed.rs", ["app", "style"], &["vm-main"]),
        (
            "app/src/main.rs",
            ["app", "vm-main"],
            &["uml-plain", "kernel-6.1-debian12"],
        ),
        (
            "kmod/linux/map.c",
            ["uml-plain", "vm-kill"],
            &["app", "programs"],
        ),
        ("kmod/core/load.c", ["engine", "app"], &["data"]),
        (
            "tests/uml/suite/src/main.rs",
            ["uml-kasan", "kernel-7.2-debian13"],
            &["engine", "vm-main"],
        ),
        (
            "tests/xtask/src/suite.rs",
            ["uml-plain", "record"],
            &["engine", "app"],
        ),
        (
            "tests/xtask/pins.toml",
            ["uml-plain", "vm-main"],
            &["engine", "app"],
        ),
    ];
    for (path, stale, valid) in cases {
        let other = changed(path);
        for name in stale {
            assert_ne!(
                key(name, &tree),
                key(name, &other),
                "{path} is no input of {name}"
            );
        }
        for name in valid {
            assert_eq!(
                key(name, &tree),
                key(name, &other),
                "{path} is an input of {name}"
            );
        }
    }
}

/// A file outside its package that a source names, by a path with `..`, must be an input of the package's layers.
#[test]
fn what_packages_name_outside_themselves_is_an_input() {
    let cx = Cx::new().unwrap();
    let mut tried = 0;
    for layer in test::layers() {
        let built = layer.inputs.built(&cx).unwrap();
        let paths = layer.inputs.all_paths(&cx, &built).unwrap();
        let is_built = |file: &PathBuf| {
            let file = file.strip_prefix(&cx.root).unwrap();
            paths.cover(file.to_str().unwrap())
        };
        for directory in built.directories {
            let files = rust_files(&cx.path(&directory)).unwrap();
            for file in files.into_iter().filter(is_built) {
                let text = fs::read_to_string(&file).unwrap();
                for named in text.split('"').filter(|text| text.contains("../")) {
                    let named = named.trim_start_matches('/');
                    for base in [cx.path(&directory).as_path(), file.parent().unwrap()] {
                        let Ok(there) = base.join(named).canonicalize() else {
                            continue;
                        };
                        let Ok(there) = there.strip_prefix(&cx.root) else {
                            continue;
                        };
                        let there = there.to_str().unwrap();
                        let is_input = paths.cover(there);
                        assert!(is_input, "{}: {} names {there}", layer.name, file.display());
                        tried += 1;
                    }
                }
            }
        }
    }
    assert!(tried > 5, "only {tried} names");
}

/// A path that a module of xtask names must be an input of each layer of that module.
#[test]
fn what_modules_name_is_an_input() {
    let cx = Cx::new().unwrap();
    let layers: Vec<_> = test::layers()
        .iter()
        .map(|layer| {
            (
                modules(&cx, layer.inputs.module).unwrap(),
                all_paths(&cx, layer),
            )
        })
        .collect();
    let mut tried = 0;
    for file in rust_files(&cx.path(XTASK)).unwrap() {
        let file = file.strip_prefix(&cx.root).unwrap().to_str().unwrap();
        let inputs: Vec<_> = layers
            .iter()
            .filter(|(modules, _)| modules.contains(file))
            .collect();
        let text = fs::read_to_string(cx.path(file)).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for named in text.split('"').filter(|text| text.contains('/')) {
            if inputs.is_empty()
                || named.starts_with('/')
                || !cx.path(named).exists()
                || is_below(named, LOGS)
            {
                continue;
            }
            // `kmod` stands for those parts of it that are inputs.
            let is_input = inputs.iter().any(|(_, paths)| {
                let mut paths = paths.inputs.iter();
                paths.any(|path| is_below(named, path) || is_below(path, named))
            });
            assert!(is_input, "{file} names {named}, which is no input");
            tried += 1;
        }
    }
    assert!(tried > 10, "only {tried} paths");
}

#[test]
fn every_declared_path_is_there() {
    let cx = Cx::new().unwrap();
    for layer in test::layers() {
        for path in all_paths(&cx, &layer).inputs {
            assert!(cx.path(&path).exists(), "{}: no {path}", layer.name);
        }
    }
}

#[test]
fn the_key_of_an_untouched_file_is_the_same_in_the_work_tree() {
    let cx = Cx::new().unwrap();
    let (head, now) = (
        Tree::of_head(&cx).unwrap(),
        Tree::of_work_tree(&cx).unwrap(),
    );
    assert_eq!(head.0.get("LICENSE"), now.0.get("LICENSE"));
    assert!(head.0.contains_key("LICENSE"));
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! What the result of a layer depends on: the files that it builds from and reads, and the tools that it runs.
//!
//! A result counts as long as no input has changed. A layer names the packages that cargo builds for it, further files,
//! and its own module. The packages and modules that these use are found in the manifests and sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::cx::Cx;
use crate::results::LOGS;
use crate::{deps, guest_kernel, hash, run};

mod cargo;
mod modules;

use modules::modules;

/// Directory of xtask's own modules.
const XTASK: &str = "tests/xtask/src";
/// The file that cargo reads for every package and that counts as a whole.
const CARGO_CONFIG: &str = ".cargo/config.toml";
/// The sources of the kernel module.
pub const KMOD: [&str; 5] = [
    "kmod/Kbuild",
    "kmod/Makefile",
    "kmod/configure.d",
    "kmod/core",
    "kmod/linux",
];

/// The inputs of a layer as its module declares them.
#[derive(Clone, Copy)]
pub struct Inputs {
    /// Packages that cargo builds with their tests.
    pub packages: &'static [&'static str],
    /// Packages of which cargo builds only the programs.
    pub programs: &'static [&'static str],
    /// Files and directories, relative to the top of the work tree.
    pub paths: &'static [&'static [&'static str]],
    /// The module of xtask that runs the layer: `module_path!()`.
    pub module: &'static str,
}

/// Files by their path relative to the top, each with git's mode and checksum of its content.
#[derive(Clone)]
pub struct Tree(BTreeMap<String, String>);

impl Tree {
    /// The files of the commit that is checked out.
    pub fn of_head(cx: &Cx) -> Result<Self> {
        Self::listed(cx, "HEAD")
    }

    /// The files as they lie in the work tree, without those that git ignores.
    pub fn of_work_tree(cx: &Cx) -> Result<Self> {
        let git = |words: &[&str]| {
            let mut git = run::cmd("git", words);
            git.current_dir(&cx.root);
            git
        };
        // git compares the files with an index. A copy of the index is used, so that the person's own index stays as it
        // is.
        let real = run::output(&mut git(&["rev-parse", "--git-path", "index"]))?;
        let scratch = cx
            .target
            .join(format!("index-{}-{}", std::process::id(), unique()));
        fs::copy(cx.root.join(real.trim()), &scratch).context("cannot copy the index of git")?;
        let tree = run::output(git(&["add", "--all"]).env("GIT_INDEX_FILE", &scratch))
            .and_then(|_| run::output(git(&["write-tree"]).env("GIT_INDEX_FILE", &scratch)));
        fs::remove_file(&scratch)?;
        Self::listed(cx, tree?.trim())
    }

    fn listed(cx: &Cx, tree: &str) -> Result<Self> {
        let words = ["ls-tree", "-r", "-z", "--full-tree", tree];
        let list = run::output(run::cmd("git", words).current_dir(&cx.root))?;
        let files = list.split('\0').filter_map(|line| line.split_once('\t'));
        // Logs are about tests and change nothing that is tested.
        let files = files.filter(|(_, path)| !is_below(path, LOGS));
        Ok(Self(
            files
                .map(|(object, path)| (path.to_owned(), object.to_owned()))
                .collect(),
        ))
    }

    /// A key of the files at and below these paths.
    fn key(&self, paths: &BTreeSet<String>) -> String {
        let is_input = |path: &str| paths.iter().any(|input| is_below(path, input));
        let files = self.0.iter().filter(|(path, _)| is_input(path));
        hash::key(files.flat_map(|(path, object)| [path, object]))
    }

    /// The content of a file.
    fn text(&self, cx: &Cx, path: &str) -> Result<String> {
        // git lists a file as its mode, "blob" and the checksum of its content.
        let object = self
            .0
            .get(path)
            .and_then(|object| object.rsplit(' ').next());
        let object = object.with_context(|| format!("there is no {path}"))?;
        run::output(run::cmd("git", ["cat-file", "blob", object]).current_dir(&cx.root))
    }
}

/// Whether a path is the directory or file itself, or below it. `.` is the top.
fn is_below(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    directory == "." || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A number that is unique in this process.
fn unique() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Inputs {
    /// A key of all inputs: the same key means the same result.
    pub fn key(&self, cx: &Cx, tree: &Tree) -> Result<String> {
        let built = self.built(cx)?;
        let paths = self.all_paths(cx, &built)?;
        let mut parts = vec![tree.key(&paths), tools()?];
        if !built.directories.is_empty() {
            parts.push(cargo::manifest(&tree.text(cx, "Cargo.toml")?)?);
            parts.push(cargo::lock(&tree.text(cx, "Cargo.lock")?, &built.uses)?);
        }
        if paths.contains(&format!("{XTASK}/guest_kernel.rs")) {
            parts.push(guest_kernel::debian12(cx)?.release);
        }
        if paths.contains(".") {
            // The layer that reads all files also reads the subjects of all commits.
            let words = ["log", "--format=%s"];
            parts.push(run::output(run::cmd("git", words).current_dir(&cx.root))?);
        }
        Ok(hash::key(parts))
    }

    /// The declared paths, and all paths that follow from packages and modules.
    fn all_paths(&self, cx: &Cx, built: &Built) -> Result<BTreeSet<String>> {
        let declared = self.paths.iter().copied().flatten();
        let mut paths: BTreeSet<String> = declared.map(|&path| path.to_owned()).collect();
        if !built.directories.is_empty() {
            paths.insert(CARGO_CONFIG.to_owned());
            let is_built = |directory: &str| built.directories.contains(directory);
            let named = NAMED.iter().filter(|(package, _)| is_built(package));
            paths.extend(named.map(|(_, path)| (*path).to_owned()));
            paths.extend(built.directories.iter().cloned());
        }
        paths.extend(modules(cx, self.module)?);
        Ok(paths)
    }
}

impl Inputs {
    /// The packages that cargo builds for the layer.
    fn built(&self, cx: &Cx) -> Result<Built> {
        let tested = self.packages.iter().map(|&name| (name, true));
        let built = self.programs.iter().map(|&name| (name, false));
        packages(cx, &tested.chain(built).collect::<Vec<_>>())
    }
}

/// A package's directory, and a path outside that directory which the package's sources name.
const NAMED: [(&str, &str); 5] = [
    ("kmod/user", "kmod/core"),
    ("helper", "data"),
    ("helper", "kmod/core"),
    ("helper/rescue", "kmod/sim/fuzz"),
    ("app/tray", "app/src/display"),
];

/// Versions of the compiler and of all programs that `cargo xtask deps` installs.
fn tools() -> Result<String> {
    use std::sync::OnceLock;
    static TOOLS: OnceLock<String> = OnceLock::new();
    if let Some(tools) = TOOLS.get() {
        return Ok(tools.clone());
    }
    let rustc = run::output(&mut run::cmd("rustc", ["--version", "--verbose"]))?;
    let key = hash::key([rustc, deps::versions()?]);
    Ok(TOOLS.get_or_init(|| key).clone())
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<PathBuf>,
    /// Built only with a feature.
    optional: bool,
    uses_default_features: bool,
    features: Vec<String>,
}

/// Packages of the workspace that cargo builds.
#[derive(Default)]
struct Built {
    directories: BTreeSet<String>,
    /// What they use of packages outside the workspace.
    uses: BTreeSet<cargo::Use>,
}

/// The packages of these names, and the workspace packages that they depend on. Each name comes with whether the
/// package's tests are built, because tests have dependencies of their own. An optional dependency of a package counts
/// unless the package is used without any of its features.
fn packages(cx: &Cx, names: &[(&str, bool)]) -> Result<Built> {
    let mut built = Built::default();
    if names.is_empty() {
        return Ok(built);
    }
    let words = ["metadata", "--no-deps", "--offline", "--format-version=1"];
    let text = run::output(run::cmd("cargo", words).current_dir(&cx.root))?;
    let metadata: Metadata = serde_json::from_str(&text).context("cargo's metadata")?;
    let mut seen = BTreeSet::new();
    let mut left: Vec<_> = names
        .iter()
        .map(|&(name, with_tests)| (name, with_tests, true))
        .collect();
    while let Some((name, with_tests, with_features)) = left.pop() {
        if !seen.insert((name, with_tests, with_features)) {
            continue;
        }
        let package = metadata
            .packages
            .iter()
            .find(|package| package.name == name);
        let package = package.with_context(|| format!("there is no package {name}"))?;
        let directory = package
            .manifest_path
            .parent()
            .context("a manifest lies somewhere")?;
        let directory = directory.strip_prefix(&cx.root)?.display().to_string();
        built.directories.insert(directory);
        let counts = |d: &&Dependency| {
            (with_tests || d.kind.as_deref() != Some("dev")) && (with_features || !d.optional)
        };
        for d in package.dependencies.iter().filter(counts) {
            if d.path.is_some() {
                let with_features = d.uses_default_features || !d.features.is_empty();
                left.push((d.name.as_str(), false, with_features));
            } else {
                built.uses.insert((name.to_owned(), d.name.clone()));
            }
        }
    }
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::rust_files;
    use crate::layer::Layer;
    use crate::test;

    fn all_paths(cx: &Cx, layer: &Layer) -> BTreeSet<String> {
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
        let cases: [(&str, [&str; 2], &[&str]); 6] = [
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
            for directory in built.directories {
                for file in rust_files(&cx.path(&directory)).unwrap() {
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
                            let is_input = paths.iter().any(|path| is_below(there, path));
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
                    paths
                        .iter()
                        .any(|path| is_below(named, path) || is_below(path, named))
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
            for path in all_paths(&cx, &layer) {
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
}

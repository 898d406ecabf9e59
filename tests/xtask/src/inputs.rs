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
    fn key(&self, paths: &Paths) -> String {
        let files = self.0.iter().filter(|(path, _)| paths.cover(path));
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

/// The paths of a layer's inputs.
struct Paths {
    /// Files and directories.
    inputs: BTreeSet<String>,
    /// Directories in directories of packages, whose files cargo does not build for the layer.
    aside: BTreeSet<String>,
}

impl Paths {
    /// Whether a file is an input. The longest of the paths above the file decides.
    fn cover(&self, file: &str) -> bool {
        let longest = |paths: &BTreeSet<String>| {
            let above = paths.iter().filter(|path| is_below(file, path));
            above.map(|path| path.len()).max()
        };
        longest(&self.inputs).is_some_and(|input| {
            self.inputs.contains(".") || longest(&self.aside).is_none_or(|aside| input >= aside)
        })
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
        if paths.inputs.contains(&format!("{XTASK}/guest_kernel.rs")) {
            parts.push(guest_kernel::debian12(cx)?.release);
        }
        if paths.inputs.contains(".") {
            // The layer that reads all files also reads the subjects of all commits.
            let words = ["log", "--format=%s"];
            parts.push(run::output(run::cmd("git", words).current_dir(&cx.root))?);
        }
        Ok(hash::key(parts))
    }

    /// The declared paths, and all paths that follow from packages and modules.
    fn all_paths(&self, cx: &Cx, built: &Built) -> Result<Paths> {
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
        Ok(Paths {
            inputs: paths,
            aside: built.aside.clone(),
        })
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

/// Directories of a package from which cargo builds nothing for the package's programs.
const TESTS: [&str; 3] = ["tests", "examples", "benches"];

/// A package's directory, and a path outside that directory which the package's sources name.
const NAMED: [(&str, &str); 7] = [
    ("kmod/user", "kmod/core"),
    ("helper", "data"),
    ("helper", "kmod/core"),
    ("helper", "helper/sim/tests/common"),
    ("helper/rescue", "kmod/sim/fuzz"),
    ("helper/ctl", "helper/rescue/tests/rescue"),
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
    /// Directories of other packages, and of tests that are not built.
    aside: BTreeSet<String>,
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
    let directory_of = |package: &Package| -> Result<String> {
        let directory = package.manifest_path.parent();
        let directory = directory.context("a manifest lies somewhere")?;
        Ok(directory.strip_prefix(&cx.root)?.display().to_string())
    };
    let mut tested = BTreeSet::new();
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
        let directory = directory_of(package)?;
        if with_tests {
            tested.insert(directory.clone());
        }
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
    let all: Result<BTreeSet<_>> = metadata.packages.iter().map(directory_of).collect();
    built.aside = all?.difference(&built.directories).cloned().collect();
    let untested = built.directories.difference(&tested);
    let tests = untested.flat_map(|directory| TESTS.map(|tests| format!("{directory}/{tests}")));
    built.aside.extend(tests);
    Ok(built)
}

#[cfg(test)]
mod tests;

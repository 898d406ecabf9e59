// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask deb`: builds the Debian packages in a clean Debian 12 and has lintian check them.
//!
//! One package serves Debian 12 and 13, because the libraries that it needs have the same names in both, or Debian 13's
//! packages provide the old names. What Debian 12 is too old for comes from this machine: the Rust compiler is mounted
//! into the chroot, and the crates are fetched before, so that the build needs no network.

mod chroot;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use chroot::Chroot;
use tandem_harness::cx::{Cx, say};
use tandem_harness::{deps, hash, run};

/// What the packages are built from.
pub const SOURCES: [&str; 12] = [
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "app",
    "data",
    "helper",
    "kmod",
    "meson.build",
    "meson_options.txt",
    "po",
    "words",
];
/// Parts of the source that cargo's workspace names besides.
const WORKSPACE: &str = "tests";

/// Arguments of `cargo xtask deb`.
#[derive(clap::Args)]
pub struct Args {}

/// The built packages.
pub struct Packages {
    /// App, service and command line.
    pub tandem: PathBuf,
    /// Source of the module.
    pub dkms: PathBuf,
}

/// `cargo xtask deb`.
pub fn command(cx: &Cx, _args: &Args) -> Result<()> {
    deps::ensure(deps::GUEST)?;
    let packages = build(cx)?;
    for deb in [&packages.tandem, &packages.dkms] {
        say(deb.display().to_string());
    }
    Ok(())
}

/// Builds the packages unless those of these sources are there. lintian must find no error in them.
pub fn build(cx: &Cx) -> Result<Packages> {
    let dir = cx.target.join("deb");
    let key = key(cx)?;
    let made = dir.join("key");
    if !fs::read_to_string(&made).is_ok_and(|old| old == key) {
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        let start = Instant::now();
        build_in(cx, &dir)?;
        fs::write(&made, &key)?;
        say(format!("packages built in {} s", start.elapsed().as_secs()));
    }
    Ok(Packages {
        tandem: the_deb(&dir, "tandem_")?,
        dkms: the_deb(&dir, "tandem-dkms_")?,
    })
}

/// The checksum of all files that the packages are built from, and of what builds them.
fn key(cx: &Cx) -> Result<String> {
    let mut key = vec![
        run::output(&mut run::cmd("rustc", ["--version", "--verbose"]))?,
        chroot::PACKAGES.join(","),
    ];
    for path in files(cx, &SOURCES)? {
        key.push(hash::file(&cx.path(&path))?);
        key.push(path);
    }
    Ok(hash::key(key))
}

fn build_in(cx: &Cx, dir: &Path) -> Result<()> {
    let crates = crates(cx)?;
    let chroot = Chroot::get(cx, &crates)?;
    say("building the Debian packages in a clean Debian 12");
    let source = dir.join("source");
    lay_out(cx, &source)?;
    // Cargo's results lie elsewhere in the chroot, so that only what has changed is built again.
    let mut copy = run::cmd("rsync", ["-a", "--delete"]);
    copy.arg(format!("{}/", source.display()));
    run::output(copy.arg(chroot.build().join("tandem")))?;
    for entry in fs::read_dir(chroot.build())? {
        let path = entry?.path();
        if path.is_file() {
            fs::remove_file(path)?;
        }
    }
    let log = dir.join("build.log");
    chroot
        .run("cd /build/tandem && dpkg-buildpackage -b -uc -us", &log)
        .context("the packages do not build")?;
    let check = "lintian --allow-root --fail-on error --suppress-tags bad-distribution-in-changes-file /build/*.changes";
    chroot
        .run(check, &dir.join("lintian.log"))
        .context("lintian finds errors in the packages")?;
    for entry in fs::read_dir(chroot.build())? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "deb") {
            let name = path.file_name().context("a file has a name")?;
            fs::copy(&path, dir.join(name))?;
        }
    }
    fs::remove_dir_all(source)?;
    Ok(())
}

/// Makes the source package's directory: the tracked files, and `debian` where Debian's tools look for it.
fn lay_out(cx: &Cx, source: &Path) -> Result<()> {
    fs::create_dir_all(source)?;
    let list: Vec<_> = SOURCES.into_iter().chain([WORKSPACE]).collect();
    let list = files(cx, &list)?.join("\n");
    let names = source.with_extension("list");
    fs::write(&names, list)?;
    let mut copy = run::cmd("rsync", ["-a", "--files-from"]);
    run::output(copy.arg(&names).arg(&cx.root).arg(source))?;
    let debian = source.join("debian");
    run::output(
        run::cmd("cp", ["-r"])
            .arg(source.join("data/debian"))
            .arg(&debian),
    )?;
    fs::copy(
        source.join("data/dkms/dkms.conf"),
        debian.join("tandem-dkms.dkms"),
    )?;
    let text = fs::read_to_string(debian.join("changelog"))?;
    let version = version(&text)?;
    ensure!(
        version == env!("CARGO_PKG_VERSION"),
        "data/debian/changelog says {version}, Cargo.toml {}",
        env!("CARGO_PKG_VERSION")
    );
    Ok(())
}

/// The version in the first line of a changelog.
fn version(changelog: &str) -> Result<&str> {
    let rest = changelog.split_once('(');
    let found = rest.and_then(|(_, rest)| Some(rest.split_once(')')?.0));
    found.context("data/debian/changelog names no version")
}

/// The files below these paths that are in git or would be added to it.
fn files(cx: &Cx, paths: &[&str]) -> Result<Vec<String>> {
    let words = [
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
    ];
    let mut list = run::cmd("git", words);
    let list = run::output(list.args(paths).current_dir(&cx.root).stdin(Stdio::null()))?;
    let there = |path: &&str| cx.path(path).is_symlink() || cx.path(path).exists();
    Ok(list.lines().filter(there).map(str::to_owned).collect())
}

/// The crates that Cargo.lock names, with the configuration by which cargo finds them in the chroot.
fn crates(cx: &Cx) -> Result<PathBuf> {
    let key = hash::key([hash::file(&cx.path("Cargo.lock"))?]);
    cx.newest("crates", &key, |dir| {
        let vendor = ["vendor", "--locked", "--versioned-dirs"];
        let mut cargo = run::cmd("cargo", vendor);
        run::output(cargo.arg(dir.join("vendor")).current_dir(&cx.root)).map(drop)
    })
}

fn the_deb(dir: &Path, prefix: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(dir)?.filter_map(Result::ok);
    entries
        .map(|entry| entry.path())
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(prefix) && name.ends_with(".deb")
        })
        .with_context(|| format!("no package {prefix}*.deb was built"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_changelog_has_the_version_of_the_programs() {
        let changelog = include_str!("../../../data/debian/changelog");
        assert_eq!(
            super::version(changelog).unwrap(),
            env!("CARGO_PKG_VERSION")
        );
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks the crates that everything is built from with cargo-deny, which reads `deny.toml`: licences, second versions,
//! sources and known holes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use tandem_harness::cx::{self, Cx};
use tandem_harness::layer::Run;
use tandem_harness::run;

/// The version of cargo-deny that `deny.toml` is written for.
const VERSION: &str = "0.20.2";
/// Names of the tests, each with the check of cargo-deny.
const CHECKS: [(&str, &str); 3] = [
    ("licences of crates", "licenses"),
    ("second versions of crates", "bans"),
    ("sources of crates", "sources"),
];
/// Name of the test that asks a database in the network.
const HOLES: &str = "known holes of crates";
/// Most crates have this licence, so that `deny.toml` without it must be refused.
const MOST_COMMON: &str = "\"MIT\",";

/// Counts each check as a test.
pub fn check(run: &mut Run) {
    let deny = match installed(run.cx, &run.log) {
        Ok(program) => program,
        Err(error) => {
            let why = format!("cargo-deny cannot be built: {error:#}");
            for (name, _) in CHECKS {
                run.skip(name, &why);
            }
            return run.skip(HOLES, &why);
        }
    };
    for (name, what) in CHECKS {
        let mut command = denies(&deny, &run.cx.root);
        run.command(name, command.args(["check", "--deny", "warnings", what]));
    }
    let result = refuses(run, &deny);
    run.check("a licence that is not listed is refused", result);
    let mut fetch = denies(&deny, &run.cx.root);
    if run::logged(fetch.args(["fetch", "db"]), &run.log).is_err() {
        return run.skip(HOLES, "the database of RustSec cannot be fetched");
    }
    let mut command = denies(&deny, &run.cx.root);
    run.command(
        HOLES,
        command.args(["check", "--disable-fetch", "advisories"]),
    );
}

/// Builds cargo-deny into the cache, unless an earlier run did: four minutes on two cores.
fn installed(cx: &Cx, log: &Path) -> Result<PathBuf> {
    let root = cx.cached("cargo-deny", VERSION, |dir| {
        cx::say("cargo-deny is built, once");
        let build = dir.join("build");
        let mut install = run::cmd("cargo", ["install", "cargo-deny", "--locked", "--debug"]);
        install.args(["--version", VERSION, "--root"]).arg(dir);
        // Nobody debugs the program.
        install.env("CARGO_PROFILE_DEV_DEBUG", "false");
        install.env("CARGO_TARGET_DIR", &build);
        run::logged(&mut install, log)?;
        fs::remove_dir_all(&build).context("cannot remove what the build has left")
    })?;
    Ok(root.join("bin/cargo-deny"))
}

fn denies(program: &Path, root: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--locked").current_dir(root);
    command
}

/// Shows that the check of licences can fail.
fn refuses(run: &Run, deny: &Path) -> Result<()> {
    let listed = fs::read_to_string(run.cx.path("deny.toml"))?;
    let without = listed.replace(MOST_COMMON, "");
    ensure!(without != listed, "deny.toml does not list {MOST_COMMON}");
    let file = run.cx.target.join("deny-without-a-licence.toml");
    fs::write(&file, without)?;
    let mut command = denies(deny, &run.cx.root);
    command.arg("--config").arg(&file);
    let said = command.args(["check", "licenses"]).output()?;
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    ensure!(
        !said.status.success() && words.contains("license is not explicitly allowed"),
        "without {MOST_COMMON} cargo-deny said: {}",
        run::tail(&words)
    );
    Ok(())
}

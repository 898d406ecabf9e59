// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask screenshots`: pictures of every page on a simulated machine, light, dark, narrow, German and large.

use std::path::PathBuf;

use anyhow::{Context, Result};

use tandem_harness::cx::{Cx, say};
use tandem_harness::{deps, run};

/// Arguments of `cargo xtask screenshots`.
#[derive(clap::Args)]
pub struct Args {
    /// The variants to take, such as `dark` or `german-narrow`; all without.
    variants: Vec<String>,
}

/// Builds service and app, and takes the pictures into target/screenshots.
pub fn command(cx: &Cx, args: &Args) -> Result<()> {
    deps::ensure(&[deps::Need::App, deps::Need::Helper, deps::Need::Display])?;
    let cargo = |words: &[&str]| {
        let mut command = run::cmd("cargo", words);
        command.current_dir(&cx.root);
        command
    };
    say("building the service and the app");
    run::show(&mut cargo(&[
        "build",
        "--quiet",
        "--package",
        "tandem-simulated",
    ]))?;
    let to = cx.target.join("screenshots");
    let tour = [
        "run",
        "--quiet",
        "--package",
        "tandem",
        "--example",
        "screenshots",
        "--",
    ];
    run::show(
        cargo(&tour)
            .arg(&to)
            .args(&args.variants)
            .env("LOCPATH", german(cx)?),
    )?;
    say(format!("pictures are in {}", to.display()));
    Ok(())
}

/// A folder with the German locale, which few machines have; the locale gives numbers a decimal comma.
fn german(cx: &Cx) -> Result<PathBuf> {
    cx.cached("locale", "de_DE.UTF-8", |dir| {
        let words = ["--no-archive", "-i", "de_DE", "-f", "UTF-8"];
        run::output(run::cmd("localedef", words).arg(dir.join("de_DE.UTF-8")))
            .context("cannot make the German locale")
            .map(drop)
    })
}

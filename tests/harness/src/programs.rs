// SPDX-License-Identifier: GPL-3.0-or-later
//! Programs of the project that layers run. Each is built once in a run of xtask and shared by the layers.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use crate::cx::Cx;
use crate::run;

/// Target of programs that run in a guest without libraries.
const STATIC: &str = "x86_64-unknown-linux-gnu";

/// The functional suite of the kernel module.
pub fn suite(cx: &Cx) -> Result<PathBuf> {
    let words = ["--release", "--package", "tandem-suite", "--target", STATIC];
    build(cx, &words, Some("-C target-feature=+crt-static"))?;
    Ok(cx.target.join(STATIC).join("release/tandem-suite"))
}

/// The simulator of the cache engine.
pub fn simulator(cx: &Cx) -> Result<PathBuf> {
    build(cx, &["--package", "tandem-sim"], None)?;
    Ok(cx.target.join("debug/tandem-sim"))
}

/// The program that cuts recordings.
pub fn record_check(cx: &Cx) -> Result<PathBuf> {
    build(cx, &["--release", "--package", "tandem-record-check"], None)?;
    Ok(cx.target.join("release/tandem-record-check"))
}

/// Has cargo build a program, unless this process has built it already: even if nothing has changed, cargo waits for
/// the build of the other lane.
fn build(cx: &Cx, words: &[&str], flags: Option<&str>) -> Result<()> {
    static BUILT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let key = words.join(" ");
    if built.contains(&key) {
        return Ok(());
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(&cx.root)
        .args(["build", "--quiet"])
        .args(words);
    if let Some(flags) = flags {
        cargo.env("RUSTFLAGS", flags);
    }
    run::show(&mut cargo)?;
    built.insert(key);
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes the figures to `tests/bench/RESULTS.md`.

pub mod ahead;
mod cost;
mod drain;
mod time;

use std::fmt::Write;

use anyhow::{Context, Result, ensure};

use self::ahead::{Column, Reason};
use super::Figures;
use tandem_harness::cx::Cx;
use tandem_harness::run;

impl Figures {
    fn get(&self, figure: &str) -> Result<u64> {
        self.find(figure)
            .with_context(|| format!("{} has no {figure}", self.name))
    }

    pub(super) fn find(&self, figure: &str) -> Option<u64> {
        self.numbers.get(figure).copied()
    }
}

fn find<'a>(all: &'a [Figures], name: &str) -> Result<&'a Figures> {
    let mut all = all.iter();
    all.find(|figures| figures.name == name)
        .with_context(|| format!("{name} was not measured"))
}

/// An aim, and the figure that was measured.
struct Aim {
    what: String,
    most: String,
    is: String,
    met: bool,
}

impl Aim {
    fn at_most(what: impl Into<String>, most: u64, is: u64, unit: &str) -> Self {
        Self {
            what: what.into(),
            most: format!("at most {most} {unit}"),
            is: format!("{is} {unit}"),
            met: is <= most,
        }
    }

    /// An aim of at least this share, in tenths of a percent.
    fn share_at_least(what: impl Into<String>, least: u64, is: u64) -> Self {
        Self {
            what: what.into(),
            most: format!("at least {} %", permille(least)),
            is: format!("{} %", permille(is)),
            met: is >= least,
        }
    }

    fn share_at_most(what: impl Into<String>, most: u64, is: u64) -> Self {
        Self {
            what: what.into(),
            most: format!("at most {} %", permille(most)),
            is: format!("{} %", permille(is)),
            met: is <= most,
        }
    }
}

fn permille(of: u64) -> String {
    if of.is_multiple_of(10) {
        format!("{}", of / 10)
    } else {
        format!("{}.{}", of / 10, of % 10)
    }
}

/// Tenths of a percent that `part` is of `whole`.
fn share(part: u64, whole: u64) -> u64 {
    part * 1000 / whole.max(1)
}

/// A table with a row for each device, and why other caches are ahead of Tandem.
fn compared(
    text: &mut String,
    all: &[Figures],
    columns: &[Column],
    reasons: &[Reason],
) -> Result<()> {
    ahead::heading(text, columns)?;
    ahead::rows(text, all, columns)?;
    ahead::ahead(text, all, columns, reasons)?;
    text.push('\n');
    Ok(())
}

/// A table with a row for each device.
fn table(text: &mut String, all: &[Figures], columns: &[Column]) -> Result<()> {
    ahead::heading(text, columns)?;
    ahead::rows(text, all, columns)?;
    text.push('\n');
    Ok(())
}

/// The last commit that changed the sources of the module, and whether they have changed since.
pub fn commit(cx: &Cx) -> Result<String> {
    let sources = ["kmod/core", "kmod/linux", "kmod/Kbuild", "kmod/configure.d"];
    let mut log = run::cmd("git", ["log", "-1", "--format=%h", "--"]);
    let commit = run::output(log.args(sources).current_dir(&cx.root))?;
    let commit = commit.trim();
    ensure!(!commit.is_empty(), "the module has no commit");
    let mut status = run::cmd("git", ["status", "--porcelain", "--"]);
    let changed = run::output(status.args(sources).current_dir(&cx.root))?;
    let more = if changed.trim().is_empty() {
        ""
    } else {
        ", changed since"
    };
    Ok(format!("{commit}{more}"))
}

/// The whole file `RESULTS.md`.
pub fn text(release: &str, commit: &str, [cost, time, drain]: [&[Figures]; 3]) -> Result<String> {
    let mut tables = String::new();
    let mut aims = cost::write(&mut tables, cost)?;
    aims.extend(time::write(&mut tables, time)?);
    aims.extend(drain::write(&mut tables, drain)?);
    let mut text = format!(
        "# Figures beside other caches\n\n\
         `cargo xtask bench` writes this file. QEMU counts one nanosecond of virtual time for each instruction\n\
         (`-icount shift=0`, one processor), so that the figures repeat exactly, but for bcache and RapidDisk, whose\n\
         threads run beside. Kernel {release}, module of commit {commit}.\n\n\
         | aim | | measured | |\n|---|---|---|---|\n"
    );
    for aim in &aims {
        let verdict = if aim.met { "met" } else { "**missed**" };
        writeln!(
            text,
            "| {} | {} | {} | {verdict} |",
            aim.what, aim.most, aim.is
        )?;
    }
    for figures in [cost, time, drain].into_iter().flatten() {
        if let Some(why) = &figures.stopped {
            writeln!(text, "\nFigures of {} are missing: {why}.", figures.name)?;
        }
    }
    text.push_str(tables.trim_end());
    text.push('\n');
    Ok(text)
}

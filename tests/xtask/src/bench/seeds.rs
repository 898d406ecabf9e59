// SPDX-License-Identifier: GPL-3.0-or-later
//! What five articles measured of other caches, repeated on models of a disk and an SSD.
//!
//! People set those caches up by hand and published what came of it. The same jobs run here with files and an SSD of a 64th
//! of the size, so that a guest's memory holds them; the disk is as much smaller, and its model seeks by the part of
//! the way. Each article has a guest of its own for each device (`tests/module/src/bench/seeds.rs`).

mod articles;
mod record;
mod report;

use std::fs;

use anyhow::{Result, ensure};

use self::articles::{ARTICLES, Article};
use super::report::commit;
use super::{Figures, Guest, Kind};
use tandem_harness::cx::{Cx, say};

/// Arguments of `cargo xtask bench seeds`.
#[derive(clap::Args)]
pub struct Args {
    /// Repeat only this article and write no file.
    #[arg(long, value_parser = ARTICLES.map(|article| article.name))]
    article: Option<String>,
    /// Measure only these devices and write no file; may be given several times.
    #[arg(long, value_name = "DEVICE")]
    only: Vec<String>,
    /// Make the recordings of a desktop's start and of a scan anew, and measure nothing.
    #[arg(long)]
    record: bool,
}

/// An article, and the figures of each device.
type Repeated = (&'static Article, Vec<Figures>);

/// Measures and writes `tests/bench/SEEDS.md`.
pub fn command(cx: &Cx, args: &Args) -> Result<()> {
    if args.record {
        return record::command(cx);
    }
    let log = cx.target.join("bench-seeds.log");
    let _ = fs::remove_file(&log);
    let commit = commit(cx)?;
    let guest = Guest::new(cx, log)?;
    let image = guest.initramfs(cx, "seeds", Kind::Time)?;
    let mut all: Vec<Repeated> = Vec::new();
    for article in &ARTICLES {
        if args
            .article
            .as_ref()
            .is_some_and(|only| only != article.name)
        {
            continue;
        }
        let what = format!("seeds-{}", article.name);
        let mut figures = Vec::new();
        for device in article.devices() {
            if args.only.is_empty() || args.only.iter().any(|only| only == device.0) {
                figures.push(guest.measure(&what, Kind::Time, device, &image)?);
            }
        }
        ensure!(!figures.is_empty(), "there is no such device");
        all.push((article, figures));
    }
    let text = report::text(&guest.target.kernel.release, &commit, &all)?;
    if args.article.is_some() || !args.only.is_empty() {
        println!("{text}");
        return Ok(());
    }
    let path = cx.path("tests/bench/SEEDS.md");
    fs::write(&path, text)?;
    say(format!("written to {}", path.display()));
    Ok(())
}

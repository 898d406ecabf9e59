// SPDX-License-Identifier: GPL-3.0-or-later
//! Lines of the processors' caches that go from one processor to another: `tests/bench/lines/lines.c` counts them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::report::commit;
use super::{Figures, Guest, Kind};
use tandem_harness::cx::{Cx, say};
use tandem_harness::run;

/// Arguments of `cargo xtask bench lines`.
#[derive(clap::Args)]
pub struct Args {
    /// Measure only these devices and write no file; may be given several times.
    #[arg(long, value_name = "DEVICE")]
    only: Vec<String>,
}

const DEVICES: [(&str, &str); 6] = [
    ("ssd", "RAM disk itself"),
    ("dm-linear", "device-mapper without any work"),
    ("tandem", "writethrough"),
    ("tandem-wb", "writeback"),
    ("dm-writecache", "blocks of 4 KiB, writeback"),
    ("dm-cache-wb", "smq, writeback, blocks of 32 KiB"),
];
/// The kinds of requests, as the plugin numbers them.
const KINDS: [&str; 2] = ["read hit", "write of what was just written"];
const PROCESSORS: [u64; 4] = [1, 2, 4, 8];

/// Measures and writes `tests/bench/PROCESSORS.md`.
pub fn command(cx: &Cx, args: &Args) -> Result<()> {
    let log = cx.target.join("bench-lines.log");
    let _ = fs::remove_file(&log);
    let commit = commit(cx)?;
    let plugin = plugin(cx)?;
    let guest = Guest::new(cx, log)?;
    let image = guest.initramfs(cx, "lines", Kind::Cost)?;
    let mut all = Vec::new();
    for device in DEVICES {
        if args.only.is_empty() || args.only.iter().any(|only| only == device.0) {
            all.push(measure(cx, &guest, &plugin, device, &image)?);
        }
    }
    let text = text(&guest.target.kernel.release, &commit, &all)?;
    if !args.only.is_empty() {
        println!("{text}");
        return Ok(());
    }
    let path = cx.path("tests/bench/PROCESSORS.md");
    fs::write(&path, text)?;
    say(format!("written to {}", path.display()));
    Ok(())
}

fn plugin(cx: &Cx) -> Result<PathBuf> {
    let plugin = cx.target.join("bench-lines.so");
    let flags = [
        "-std=gnu11",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-o",
    ];
    let mut compiler = run::cmd("cc", flags);
    compiler
        .arg(&plugin)
        .arg(cx.path("tests/bench/lines/lines.c"));
    run::output(&mut compiler)?;
    Ok(plugin)
}

fn measure(
    cx: &Cx,
    guest: &Guest,
    plugin: &Path,
    device: (&'static str, &'static str),
    image: &(PathBuf, String),
) -> Result<Figures> {
    let out = cx.target.join("bench-lines.figures");
    let _ = fs::remove_file(&out);
    let mut machine = guest.machine("8", Kind::Cost.machine().1);
    machine.arg("-plugin");
    machine.arg(format!("{},out={}", plugin.display(), out.display()));
    let mut figures = guest.follow(&mut machine, "lines", device, image)?;
    for line in fs::read_to_string(&out).unwrap_or_default().lines() {
        let (figure, number) = line.split_once(' ').context("a figure and its number")?;
        figures.numbers.insert(figure.to_owned(), number.parse()?);
    }
    guest.told("lines", figures)
}

/// The whole file.
fn text(release: &str, commit: &str, all: &[Figures]) -> Result<String> {
    let mut text = format!(
        "<!-- SPDX-License-Identifier: GPL-3.0-or-later -->\n\
         # How hits scale with the number of processors\n\n\
         `cargo xtask bench lines` writes this file. QEMU emulates eight processors, and a plugin keeps what each request\n\
         touches in the kernel. The requests of all processors are replayed in turns, one after the other, so that the\n\
         figures repeat. Each processor has a range of 1 MiB of its own, which the cache holds. Kernel {release}, module of\n\
         commit {commit}.\n\n\
         A write of what was just written goes to the SSD alone in write-back; in write-through it takes the lock and workers.\n\
         Hits of Tandem take neither, and so go as well with eight processors as dm-linear.\n\n\
         *Transfers*: lines that have to come from another processor, for each request; a line takes some 50 to 100 ns on\n\
         its way. *Exposed*: lines that each request touches, and that the kernel writes while the last processor reads and\n\
         writes what no cache has.\n"
    );
    for (kind, about) in KINDS.iter().enumerate() {
        write!(text, "\n## A {about}\n\n| device | |")?;
        for processors in PROCESSORS {
            write!(text, " transfers, {processors} |")?;
        }
        text.push_str(" exposed |\n|---|---|--:|--:|--:|--:|--:|\n");
        for figures in all {
            let number = |figure: String| {
                let number = figures.numbers.get(&figure).copied();
                number.with_context(|| format!("{} has no {figure}", figures.name))
            };
            write!(text, "| {} | {} |", figures.name, figures.about)?;
            for processors in PROCESSORS {
                let each = number(format!("transfers-{kind}-{processors}"))? as f64 / 1000.0;
                write!(text, " {each:.2} |")?;
            }
            writeln!(text, " {} |", number(format!("exposed-{kind}"))?)?;
        }
    }
    Ok(text)
}

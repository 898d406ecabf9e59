// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask bench ui`: how soon the window is there, what it costs while nobody touches it, and memory. The figures
//! come from `app/examples/bench_ui`, with limits that fail the run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, ensure};

use tandem_harness::cx::{Cx, say};
use tandem_harness::{deps, run};

/// Most time to the first frame, in hundredths of that of an empty window.
const FIRST_FRAME: u64 = 150;
/// Processor time of an idle window, in thousandths of a percent of one core.
const IDLE: u64 = 2000;
/// Memory, in KiB.
const TRAY: u64 = 10 * 1024;
const SERVICE: u64 = 15 * 1024;

const ABOUT: &str = "\
# The window, the indicator and the service

`cargo xtask bench ui` writes this file and fails if a limit is missed. Programs of the release build run on a simulated
machine, on a screen without a monitor and without a graphics card, so that GTK draws with the processor. Each time is the
median of 10. A first frame is there when GTK has drawn it, from the start of the process on; the app and the empty
`AdwApplicationWindow` of the same size start by turns. The idle window shows a cache with its live chart, and is measured
for 5 seconds ten times. Memory is PSS: a program's own memory, and its part of what it shares with others. The service
includes the simulated machine.
";

/// A figure with its limit, if it has one.
struct Line {
    what: &'static str,
    limit: String,
    is: String,
    /// None without a limit.
    met: Option<bool>,
}

impl Line {
    fn new(what: &'static str, is: String) -> Self {
        Self {
            what,
            limit: String::new(),
            is,
            met: None,
        }
    }

    fn limited(self, limit: &str, met: bool) -> Self {
        Self {
            limit: limit.to_owned(),
            met: Some(met),
            ..self
        }
    }
}

/// Measures, and writes `tests/bench/UI.md`.
pub fn command(cx: &Cx) -> Result<()> {
    deps::ensure(&[deps::Need::App, deps::Need::Helper, deps::Need::Display])?;
    say("building the service, the indicator and the app");
    let build = [
        "build",
        "--quiet",
        "--release",
        "--package=tandem",
        "--package=tandem-simulated",
        "--package=tandem-tray",
        "--bins",
        "--example=bench_ui",
    ];
    run::show(run::cmd("cargo", build).current_dir(&cx.root))?;
    say("measuring, for about two minutes");
    let said = run::output(&mut run::cmd::<&str>(
        &cx.target
            .join("release/examples/bench_ui")
            .display()
            .to_string(),
        [],
    ))?;
    let lines = lines(&figures(&said))?;
    let text = text(&lines, &date()?);
    let path = cx.path("tests/bench/UI.md");
    fs::write(&path, &text)?;
    say(&text[ABOUT.len()..]);
    say(format!("written to {}", path.display()));
    let missed: Vec<_> = lines
        .iter()
        .filter(|line| line.met == Some(false))
        .map(|line| line.what)
        .collect();
    ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
    Ok(())
}

/// The lines `bench: NAME NUMBER`.
fn figures(said: &str) -> BTreeMap<&str, u64> {
    let words = said
        .lines()
        .filter_map(|line| line.strip_prefix("bench: ")?.split_once(' '));
    words
        .filter_map(|(name, number)| Some((name, number.parse().ok()?)))
        .collect()
}

fn lines(figures: &BTreeMap<&str, u64>) -> Result<Vec<Line>> {
    let get = |name: &str| {
        let figure = figures.get(name).copied();
        figure.with_context(|| format!("{name} was not measured"))
    };
    let (empty, app) = (get("first-frame-empty-us")?, get("first-frame-app-us")?);
    ensure!(empty > 0, "an empty window takes time");
    let ratio = app * 100 / empty;
    let idle = get("idle-thousandths")?;
    let (tray, service) = (get("tray-kib")?, get("service-kib")?);
    let ms = |us: u64| format!("{} ms", us / 1000);
    let mib = |kib: u64| format!("{}.{} MiB", kib / 1024, kib % 1024 * 10 / 1024);
    Ok(vec![
        Line::new("first frame of an empty window", ms(empty)),
        Line::new("first frame of the app", ms(app)),
        Line::new(
            "first frame of the app, by that of an empty window",
            format!("{}.{:02}", ratio / 100, ratio % 100),
        )
        .limited("at most 1.5", ratio <= FIRST_FRAME),
        Line::new(
            "idle with the live chart, of one core",
            format!("{}.{:02} %", idle / 1000, idle % 1000 / 10),
        )
        .limited("below 2 %", idle < IDLE),
        Line::new("memory of the app with the chart", mib(get("app-kib")?)),
        Line::new("memory of the indicator", mib(tray)).limited("below 10 MiB", tray < TRAY),
        Line::new("memory of the service", mib(service)).limited("below 15 MiB", service < SERVICE),
    ])
}

fn text(lines: &[Line], date: &str) -> String {
    let mut text =
        format!("{ABOUT}\n{date}\n\n| figure | measured | limit | |\n|---|---:|---|---|\n");
    for line in lines {
        let met = match line.met {
            None => "",
            Some(true) => "met",
            Some(false) => "**missed**",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {met} |",
            line.what, line.is, line.limit
        );
    }
    text
}

fn date() -> Result<String> {
    Ok(run::output(&mut run::cmd("date", ["+%Y-%m-%d"]))?
        .trim()
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::{figures, lines, text};

    const SAID: &str = "bench: first-frame-empty-us 200000\nbench: first-frame-app-us 299000\n\
        bench: idle-thousandths 1990\nbench: app-kib 60000\nbench: tray-kib 10239\nbench: service-kib 15359\n";

    fn missed(said: &str) -> Vec<&'static str> {
        let lines = lines(&figures(said)).unwrap();
        lines
            .into_iter()
            .filter(|line| line.met == Some(false))
            .map(|line| line.what)
            .collect()
    }

    #[test]
    fn each_limit_fails_the_run_when_it_is_missed() {
        assert_eq!(missed(SAID), Vec::<&str>::new());
        for (within, beyond) in [
            ("app-us 299000", "app-us 302000"),
            ("thousandths 1990", "thousandths 2000"),
            ("tray-kib 10239", "tray-kib 10240"),
            ("service-kib 15359", "service-kib 15360"),
        ] {
            assert_eq!(missed(&SAID.replace(within, beyond)).len(), 1, "{beyond}");
        }
    }

    #[test]
    fn a_figure_that_is_missing_is_an_error() {
        assert!(lines(&figures("bench: tray-kib 1\n")).is_err());
    }

    #[test]
    fn the_table_says_what_is_missed() {
        let lines = lines(&figures(&SAID.replace("tray-kib 10239", "tray-kib 20480"))).unwrap();
        let text = text(&lines, "2026-01-01");
        assert!(
            text.contains("| memory of the indicator | 20.0 MiB | below 10 MiB | **missed** |")
        );
        assert!(text.contains("| 1.49 | at most 1.5 | met |"));
    }
}

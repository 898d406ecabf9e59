// SPDX-License-Identifier: GPL-3.0-or-later
//! The service's conformance suite, which otherwise runs on a simulated machine, on the guest's own disks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::scene::Scene;
use tandem_guest::vm::Disk;
use tandem_harness::cx::Cx;
use tandem_harness::layer::Run;
use tandem_harness::libtest;
use tandem_harness::{run, sample};

/// Longest run of the whole suite, whose own waits end after 90 seconds each.
const LIMIT: Duration = Duration::from_secs(1800);

/// How many of the suite's tests run without `--all`, with each target.
const ORDINARY: usize = 5;
/// What serves the caches: a name for the results, a variable for the suite, and the beginnings of the names of tests for what this
/// target does not have.
const TARGETS: [(&str, &str, &[&str]); 2] = [
    ("conformance", "", &[]),
    (
        "dm-cache",
        "TANDEM_TEST_TARGET=dm-cache",
        &["settings::", "writeback::"],
    ),
];
/// Beginning of the names of tests that need the simulated machine.
const SIMULATED: &str = "simulated::";

/// Runs the layer.
pub fn run(run: &mut Run) -> Result<()> {
    let suite = build(run.cx)?;
    let mut scene = Scene::new(run)?;
    let disk = packed(run.cx, &suite)?;
    scene.vm.plug(&disk)?;
    let name = scene.vm.device(disk.serial)?;
    let unpack = format!("tar --extract --file /dev/{name} --directory /usr/local/bin");
    scene.vm.agent.sh(&unpack, LIMIT)?;
    for (target, variable, without) in TARGETS {
        let has = |case: &String| !without.iter().any(|begin| case.starts_with(begin));
        let cases: Vec<_> = match &run.case {
            Some(case) => vec![case.clone()],
            None => sample::of(run, target, cases(&suite)?, ORDINARY)?,
        };
        let cases: Vec<_> = cases.into_iter().filter(has).collect();
        if !cases.is_empty() {
            on_target(run, &mut scene, target, variable, &cases.join(" "))?;
        }
    }
    Ok(())
}

/// Runs the named tests of the suite.
fn on_target(
    run: &mut Run,
    scene: &mut Scene,
    target: &str,
    variable: &str,
    cases: &str,
) -> Result<()> {
    let script = format!(
        "{variable} TANDEM_TEST_DISK={} TANDEM_TEST_SSD={} conformance --test-threads=1 --show-output --exact {cases}",
        scene.disk, scene.ssd
    );
    let ended = scene.vm.agent.run(&script, LIMIT, |line| {
        if line.starts_with("test ") {
            println!("    {target} {line}");
        }
    })?;
    run.note(&ended.text);
    let failed = libtest::count(run, target, &ended.text)?;
    if failed > 0 || ended.code != 0 {
        let service = "journalctl -b --no-pager -o short-monotonic | tail -n 300";
        run.note(&scene.vm.agent.sh(service, LIMIT)?);
    }
    ensure!(
        failed > 0 || ended.code == 0,
        "the suite ended with {}: {}",
        ended.code,
        run::tail(&ended.text)
    );
    Ok(())
}

/// The names of the suite's tests that a real machine can run, as the suite lists them.
fn cases(suite: &Path) -> Result<Vec<String>> {
    let listed = run::output(&mut run::cmd(&suite.display().to_string(), ["--list"]))?;
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|name| !name.starts_with(SIMULATED));
    Ok(names.map(str::to_owned).collect())
}

/// The suite as a program.
fn build(cx: &Cx) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&cx.root).args([
        "test",
        "--quiet",
        "--no-run",
        "--package=tandem-simulated",
        "--test=conformance",
        "--message-format=json",
    ]);
    let said = run::output(&mut cargo)?;
    let program = said.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "conformance").then_some(())?;
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    program.context("cargo names no program")
}

/// A disk with the suite on it.
fn packed(cx: &Cx, suite: &Path) -> Result<Disk> {
    let file = cx.target.join("vm-conformance.tar");
    let name = suite.file_name().context("a program has a name")?;
    let words = [
        "--create",
        "--dereference",
        "--transform=s/.*/conformance/",
        "--file",
    ];
    let mut tar = run::cmd("tar", words);
    tar.arg(&file).arg("--directory");
    tar.arg(suite.parent().context("a program lies somewhere")?);
    run::output(tar.arg(name))?;
    Ok(Disk {
        file,
        vendor: "Tandem",
        product: "Conformance",
        serial: "SUITE0001",
        wwn: 0x5000_0000_0000_00ab,
        rotation_rate: 1,
        read_only: true,
    })
}

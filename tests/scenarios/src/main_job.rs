// SPDX-License-Identifier: GPL-3.0-or-later
//! The main job in the real app: by clicks, and with `--all` then in the same machine with the keyboard alone, and from
//! the indicator in the panel.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::demo::{drive, once, show_failure};
use tandem_guest::guest::{MOUNT_POINT, SHORT};
use tandem_guest::image::PASSWORD;
use tandem_guest::vm::{Screen, Vm};
use tandem_harness::layer::Run;
use tandem_harness::report::Report;

/// Runs the layer.
pub fn run(run: &mut Run) -> Result<()> {
    let result = once(run.cx, Screen::Hidden, "main");
    let (result, machine) = match result {
        Ok(vm) => (Ok(()), Some(vm)),
        Err(error) => (Err(error), None),
    };
    run.check("wizard, cache, figures, removal, same bytes", result);
    // The app's own tests show the keyboard on the simulated machine in each run.
    if let Some(vm) = machine
        && run.is_whole()
    {
        keys_and_panel(run, vm)?;
    }
    let result = nothing_left();
    run.check("no machine is left when xtask is killed", result);
    Ok(())
}

/// The further tests, in a machine whose app shows the plain disk again.
fn keys_and_panel(run: &mut Run, mut vm: Vm) -> Result<()> {
    let mut report = Report::new(
        &run.cx.target.join("main-keys"),
        "Tandem with the keyboard alone, and from the panel",
    )?;
    for (name, part) in [
        (
            "wizard and password with the keyboard alone",
            by_keys as Part,
        ),
        ("a speed test of the cache by clicks", speed_test),
        ("the indicator in a panel opens the window", from_panel),
        ("removal with the keyboard alone", removed_by_keys),
    ] {
        report.chapter(name);
        let result = part(&mut vm, &mut report);
        let failed = result.is_err();
        if let Err(error) = &result {
            run.note(&show_failure(&mut vm, &mut report, error));
        }
        run.check(name, result);
        // Each test starts where the test before it has ended.
        if failed {
            break;
        }
    }
    report.finish().map(drop)
}
type Part = fn(&mut Vm, &mut Report) -> Result<()>;

fn by_keys(vm: &mut Vm, report: &mut Report) -> Result<()> {
    let wizard = format!("create-by-keys --disk 'Archive*' --ssd '*Dart*' --password {PASSWORD}");
    drive(vm, report, &wizard)?;
    let table = vm.agent.sh("dmsetup table --target tandem", SHORT)?;
    ensure!(
        table.starts_with("tandem-"),
        "no device-mapper table is ours: {table}"
    );
    report.output(&table);
    Ok(())
}

/// A person at the machine needs no password for it.
fn speed_test(vm: &mut Vm, report: &mut Report) -> Result<()> {
    drive(vm, report, "enter 'Speed test' 'Speed test'")?;
    drive(vm, report, "press 'Start Test'")?;
    drive(vm, report, "wait 'Reading from the hard disk…'")?;
    drive(vm, report, "wait 'Test Again'")?;
    drive(vm, report, "show --shot speed")?;
    let told = vm.agent.sh("tandemctl speed-test --last", SHORT)?;
    report.output(&told);
    ensure!(
        !told.contains("not tested yet"),
        "the result is not kept: {told}"
    );
    drive(vm, report, "press Close").map(drop)
}

/// Closes the window first, so that only the entry in the indicator's menu can have opened it.
fn from_panel(vm: &mut Vm, report: &mut Report) -> Result<()> {
    vm.as_user("systemctl --user stop tandem-app", SHORT)?;
    vm.as_user(include_str!("../../guest/machine/panel.sh"), SHORT)?;
    report.step("the window is shut; a panel and the indicator are started");
    let read = format!("cat {MOUNT_POINT}/'1024 KiB'/*.bin >/dev/null");
    vm.drop_page_cache()?;
    vm.as_user(&read, SHORT)?;
    drive(vm, report, "tray --says working").map(drop)
}

fn removed_by_keys(vm: &mut Vm, report: &mut Report) -> Result<()> {
    let keys = format!("remove-by-keys --open Archive --password {PASSWORD}");
    drive(vm, report, &keys)?;
    let table = vm.agent.sh("dmsetup table", SHORT)?;
    ensure!(!table.contains("tandem"), "a mapping is left: {table}");
    Ok(())
}

/// Kills an xtask with a running machine, as the system does when there is no memory left, and waits for the end of
/// that machine.
fn nothing_left() -> Result<()> {
    let mut xtask = Command::new(std::env::current_exe()?)
        .args(["vm", "echo it runs; sleep 600"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let pid = xtask.id();
    let output = xtask.stdout.take().context("xtask has an output")?;
    let runs = BufReader::new(output)
        .lines()
        .any(|line| line.is_ok_and(|line| line == "it runs"));
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    xtask.kill()?;
    xtask.wait()?;
    ensure!(runs, "xtask started no machine");
    let children = children.context("who is whose child is not told here")?;
    let children: Vec<_> = children.split_whitespace().collect();
    ensure!(children.len() == 1, "not one QEMU: {children:?}");
    let qemu = format!("/proc/{}/exe", children[0]);
    let end = Instant::now() + Duration::from_secs(10);
    while fs::read_link(&qemu).is_ok_and(|exe| exe.ends_with("qemu-system-x86_64")) {
        ensure!(Instant::now() < end, "QEMU outlives xtask");
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::remove_dir_all(std::env::temp_dir().join(format!("tandem-vm-{pid}-0")))?;
    Ok(())
}

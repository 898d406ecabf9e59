// SPDX-License-Identifier: GPL-3.0-or-later
//! The functional suite of the kernel module: the first process of a guest that is there for nothing else.
//!
//! The suite gets what it needs from variables on the kernel's command line:
//! `SUITE_MODULES` modules to load, in order, separated by commas, arguments behind colons;
//! `SUITE_ONLY` runs the cases whose names, with `_` for spaces, contain the text, or one of several texts with `|` between them; `SUITE_INJECT` injects a bug instead of running cases;
//! `SUITE_PART` is `K/N`: of these, every N-th from the K-th on, counted from 0; `SUITE_WHOLE` is there if cases are to try all
//! that they can; `SUITE_LIMIT` is the number of seconds after which a case hangs; `SUITE_EMULATED` is there if QEMU
//! emulates the processor, which makes everything slow;
//! `SUITE_SET` names another set of cases: "time" for a guest whose clock runs ahead, "memory" for one with little, "scale" for one with the disks of a very large cache,
//! "pulled" for one whose disks are pulled and plugged in again by who reads what it says, "formats" for one with the tools
//! of many file systems;
//! `SUITE_PROCESSORS` is how many there have to be; `SUITE_SCHEDULER` is a module of the kernel that orders requests by priority;
//! `SUITE_BENCH` measures a device instead, `SUITE_RECORD` records what the module does to its disks.
//!
//! The suite prints one line for each case and one at the end, and switches the machine off:
//!
//! ```text
//! ok   NAME (1.20 s)
//! SKIP NAME (0.10 s): because this kernel has no dm-dust
//! FAIL NAME (0.30 s): what was wrong
//! ```

mod aio;
mod bench;
mod beside;
mod cases;
mod checked;
mod disk;
mod dm;
mod faults;
mod io;
mod kmsg;
mod loopback;
mod model;
mod module;
mod record;
mod rig;
mod skipped;
mod stamps;
mod status;

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

use crate::kmsg::Kmsg;
use crate::skipped::Skipped;

/// A case that takes longer hangs, unless `SUITE_LIMIT` says otherwise.
const LIMIT: Duration = Duration::from_secs(480);

/// One test.
pub struct Case {
    /// What holds when it passes.
    pub name: &'static str,
    /// The test. An error that is [`Skipped`] says that it cannot run here.
    pub run: fn() -> Result<()>,
}

static RUNNING: Mutex<Option<(&'static str, Instant)>> = Mutex::new(None);

fn main() {
    let code = match run() {
        Ok(0) => 0,
        Ok(failed) => failed.min(100),
        Err(error) => {
            println!("FAIL start: {error:#}");
            101
        }
    };
    finish(code);
}

fn finish(code: u64) -> ! {
    println!("suite: exit {code}");
    if std::process::id() == 1 {
        let _ = reboot(RebootCommand::PowerOff);
    }
    std::process::exit(i32::try_from(code).unwrap_or(102));
}

fn run() -> Result<u64> {
    mounts()?;
    let processors = variable("SUITE_PROCESSORS");
    let found = thread::available_parallelism()?.to_string();
    ensure!(
        processors.is_empty() || processors == found,
        "{found} processors, not {processors}"
    );
    let modules: Vec<String> = variable("SUITE_MODULES")
        .split(',')
        .filter(|m| !m.is_empty())
        .map(Into::into)
        .collect();
    let mut kmsg = Kmsg::open()?;
    let inject = variable("SUITE_INJECT");
    for module in &modules {
        let (path, arguments) = module.split_once(':').unwrap_or((module, ""));
        module::load(Path::new(path), &arguments.replace(':', " "))?;
    }
    if !inject.is_empty() {
        module::load(
            Path::new(&variable("SUITE_INJECTOR")),
            &format!("bug={inject}"),
        )?;
        module::scan_for_leaks();
        let found = kmsg::splat(&kmsg.new_lines()).cloned();
        println!(
            "suite: injected {inject}: {}",
            found.as_deref().unwrap_or("nothing found")
        );
        return Ok(u64::from(found.is_none()));
    }
    let device = variable("SUITE_BENCH");
    if !device.is_empty() {
        bench::run(&device)?;
        return Ok(0);
    }
    let recording = variable("SUITE_RECORD");
    if !recording.is_empty() {
        record::run(&recording, &variable("SUITE_RECORD_FROM"))?;
        return match kmsg::splat(&kmsg.new_lines()) {
            Some(line) => bail!("the kernel says: {line}"),
            None => Ok(0),
        };
    }
    mount_configfs()?;
    let set = variable("SUITE_SET");
    let cases = cases::of(&set).context("no such set")?;
    // A clock that runs ahead says nothing of a case that hangs.
    if set != "time" {
        thread::spawn(watch);
    }
    if set == "memory" {
        // Otherwise the thread that detects a hanging case would itself wait for memory.
        // SAFETY: it takes no pointer.
        let result = unsafe { libc::mlockall(libc::MCL_CURRENT) };
        ensure!(result == 0, "cannot keep the suite in memory");
    }
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    if let Some(line) = kmsg::splat(&kmsg.new_lines()) {
        println!("FAIL load: the kernel says: {line}");
        failed += 1;
    }
    let only = variable("SUITE_ONLY");
    let (part, parts) = part(&variable("SUITE_PART"))?;
    let chosen = cases
        .iter()
        .filter(|case| {
            let name = case.name.replace(' ', "_");
            only.split('|').any(|text| name.contains(text))
        })
        .skip(part)
        .step_by(parts);
    for case in chosen {
        set_running(Some((case.name, Instant::now())));
        let start = Instant::now();
        let result = (case.run)();
        let ran = result
            .as_ref()
            .err()
            .is_none_or(|error| error.downcast_ref::<Skipped>().is_some());
        let result = if ran { left_over().and(result) } else { result };
        let lines = kmsg.new_lines();
        let result = match kmsg::splat(&lines) {
            Some(line) => Err(anyhow::anyhow!("the kernel says: {line}")),
            None => result,
        };
        set_running(None);
        let seconds = start.elapsed().as_secs_f32();
        match result {
            Ok(()) => {
                println!("ok   {} ({seconds:.2} s)", case.name);
                passed += 1;
            }
            Err(error) => match error.downcast_ref::<Skipped>() {
                Some(missing) => {
                    println!("SKIP {} ({seconds:.2} s): because {missing}", case.name);
                    skipped += 1;
                }
                None => {
                    println!("FAIL {} ({seconds:.2} s): {error:#}", case.name);
                    failed += 1;
                }
            },
        }
    }
    module::scan_for_leaks();
    if let Some(line) = kmsg::splat(&kmsg.new_lines()) {
        println!("FAIL leaks: the kernel says: {line}");
        failed += 1;
    }
    println!("suite: {passed} passed, {failed} failed, {skipped} skipped");
    if passed + failed + skipped == 0 {
        bail!("no case of that name");
    }
    Ok(failed)
}

/// `K/N`; nothing is all.
fn part(words: &str) -> Result<(usize, usize)> {
    let (part, parts) = words.split_once('/').unwrap_or(("0", "1"));
    let (part, parts) = (part.parse()?, parts.parse()?);
    if part >= parts {
        bail!("SUITE_PART is {words}");
    }
    Ok((part, parts))
}

/// Whether cases try all that they can.
fn whole() -> bool {
    !variable("SUITE_WHOLE").is_empty()
}

/// Whether QEMU emulates the processor.
fn is_emulated() -> bool {
    !variable("SUITE_EMULATED").is_empty()
}

/// A variable of the kernel's command line; empty if it is not there.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn mounts() -> Result<()> {
    for (kind, at) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/mnt"),
    ] {
        match mount(kind, at, kind, MountFlags::empty(), None) {
            Ok(()) | Err(rustix::io::Errno::BUSY) => {}
            Err(error) => return Err(error).with_context(|| format!("cannot mount {at}")),
        }
    }
    // Both are optional: a kernel without them lacks leak detection only.
    let _ = mount(
        "debugfs",
        "/sys/kernel/debug",
        "debugfs",
        MountFlags::empty(),
        None,
    );
    Ok(())
}

/// Mounts configfs, which appears when the first module that uses it is loaded.
fn mount_configfs() -> Result<()> {
    if !Path::new("/sys/kernel/config/nullb").exists() {
        mount(
            "configfs",
            "/sys/kernel/config",
            "configfs",
            MountFlags::empty(),
            None,
        )
        .context("cannot mount configfs")?;
    }
    Ok(())
}

/// Whether a case has left a device behind.
fn left_over() -> Result<()> {
    let left: Vec<String> = fs::read_dir("/sys/block")?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| {
            name.starts_with("dm-") || name.starts_with("suite") || name.starts_with("nullb")
        })
        .collect();
    match left.as_slice() {
        [] => Ok(()),
        left => bail!("left behind: {}", left.join(" ")),
    }
}

fn set_running(case: Option<(&'static str, Instant)>) {
    if let Ok(mut running) = RUNNING.lock() {
        *running = case;
    }
}

/// Ends the machine when a case hangs, with what every thread of the suite and the kernel's workers wait for.
fn watch() {
    let limit = variable("SUITE_LIMIT")
        .parse()
        .map_or(LIMIT, Duration::from_secs);
    loop {
        thread::sleep(Duration::from_secs(1));
        let running = RUNNING.lock().ok().and_then(|running| *running);
        if let Some((name, since)) = running
            && since.elapsed() > limit
        {
            println!("FAIL {name} ({} s): hangs", limit.as_secs());
            module::print_waiting();
            finish(103);
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Loading and removing kernel modules; what the kernel knows of its memory and threads.

use std::ffi::CString;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::system::{delete_module, finit_module};

static PATHS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Loads a module from a file and remembers where it was; one that is there already is fine.
pub fn load(path: &Path, arguments: &str) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    match finit_module(&file, &CString::new(arguments)?, 0) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error).with_context(|| format!("cannot load {}", path.display())),
    }
    if let Ok(mut paths) = PATHS.lock() {
        paths.push(path.display().to_string());
    }
    Ok(())
}

/// File that the module under test was loaded from.
pub fn tested() -> Result<String> {
    let paths = PATHS.lock().ok().context("poisoned")?;
    paths
        .iter()
        .find(|path| path.ends_with("dm-tandem.ko"))
        .cloned()
        .context("dm-tandem was not loaded by the suite")
}

/// Removes a module.
pub fn unload(name: &str) -> Result<()> {
    delete_module(&CString::new(name)?, 0)
        .with_context(|| format!("cannot remove the module {name}"))
}

/// Users of a loaded module; `None` if it is not loaded.
pub fn users(name: &str) -> Result<Option<u64>> {
    let text = fs::read_to_string("/proc/modules")?;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&name) {
            return Ok(Some(
                words
                    .get(2)
                    .context("short line in /proc/modules")?
                    .parse()?,
            ));
        }
    }
    Ok(None)
}

/// Lets kmemleak, where the kernel has it, report what nothing points to any more; it does so in the kernel's log.
pub fn scan_for_leaks() {
    let file = "/sys/kernel/debug/kmemleak";
    if !Path::new(file).exists() {
        return;
    }
    // An object counts as leaked when two scans with a few seconds between them have not found it: kmemleak
    // passes over objects younger than 5 s.
    std::thread::sleep(std::time::Duration::from_secs(6));
    for _ in 0..2 {
        let _ = fs::write(file, "scan\n");
    }
    let found = fs::read_to_string(file).unwrap_or_default();
    if !found.is_empty() {
        let _ = fs::write("/dev/kmsg", "suite: kmemleak: unreferenced object\n");
        println!("{found}");
        let _ = fs::write(file, "clear\n");
    }
}

/// Prints what each thread waits for.
pub fn print_waiting() {
    let Ok(processes) = fs::read_dir("/proc") else {
        return;
    };
    for process in processes.flatten() {
        let Ok(threads) = fs::read_dir(process.path().join("task")) else {
            continue;
        };
        for thread in threads.flatten() {
            let read =
                |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            let status = read("status");
            if status
                .lines()
                .any(|line| line.starts_with("State:") && line.contains("D ("))
            {
                println!(
                    "     waits: {} {}\n{}",
                    read("comm").trim(),
                    read("wchan").trim(),
                    read("stack")
                );
            }
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The kernel's fault injection: the n-th allocation of a thread or of the kernel's workers.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::skipped::Skipped;

const DEBUG: &str = "/sys/kernel/debug";

/// Sets a property of one of the kernel's faults.
pub fn set(fault: &str, property: &str, value: &str) -> Result<()> {
    let path = Path::new(DEBUG).join(fault).join(property);
    fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))
}

/// Skips the case if the kernel has no fault injection.
pub fn needed() -> Result<()> {
    if Path::new(DEBUG).join("fail_page_alloc").exists() {
        return Ok(());
    }
    Err(Skipped::because("this kernel has no fault injection"))
}

/// The numbers of the requests or allocations that fail. The plain kernel takes each number below `many`, and some from
/// `many` on; with `--all` it takes each of those too. Where a detector or emulation makes the kernel slow, the suite
/// takes some of all numbers.
pub fn numbers(many: usize) -> impl Iterator<Item = u32> {
    let detector = ["/proc/lockdep", "/sys/kernel/debug/kmemleak"]
        .iter()
        .any(|file| Path::new(file).exists());
    let slow = detector || crate::is_emulated();
    let (few, rest) = match (slow, crate::whole()) {
        (true, _) => (4, 17),
        (false, true) => (1, 1),
        (false, false) => (1, 7),
    };
    let many = u32::try_from(many).unwrap_or(u32::MAX);
    (1..many).step_by(few).chain((many..).step_by(rest))
}

/// ESRCH.
const ENDED: i32 = 3;

/// A thread of which the n-th allocation from now on is to fail.
struct Armed(File);

/// Nothing if the thread has ended: the kernel has fewer workers when they have little to do.
fn unless_ended<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) if e.raw_os_error() == Some(ENDED) => Ok(None),
        Err(e) => Err(e),
    }
}

impl Armed {
    fn open(path: &Path) -> Result<Option<Self>> {
        let file = File::options().read(true).write(true).open(path);
        let file = unless_ended(file).with_context(|| format!("cannot open {}", path.display()))?;
        Ok(file.map(Self))
    }

    fn arm(&self, n: u32) -> Result<()> {
        unless_ended(self.0.write_all_at(n.to_string().as_bytes(), 0))?;
        Ok(())
    }

    /// Disarms the fault; false: there were less than n requests.
    fn fired(&self) -> Result<bool> {
        let mut left = [0; 16];
        let Some(length) = unless_ended(self.0.read_at(&mut left, 0))? else {
            return Ok(false);
        };
        unless_ended(self.0.write_all_at(b"0", 0))?;
        let left: u32 = String::from_utf8_lossy(&left[..length]).trim().parse()?;
        Ok(left == 0)
    }
}

/// A fault that lets the n-th allocation fail that a thread causes, whether it may wait or not.
pub struct Allocations(Vec<Armed>);

impl Allocations {
    fn of(threads: Vec<Armed>) -> Result<Self> {
        ensure!(!threads.is_empty(), "no such thread");
        for fault in ["failslab", "fail_page_alloc"] {
            set(fault, "ignore-gfp-wait", "N")?;
            set(fault, "verbose", "0")?;
        }
        set("fail_page_alloc", "min-order", "0")?;
        Ok(Self(threads))
    }

    /// Of the calling thread.
    pub fn of_this_thread() -> Result<Self> {
        let this = Armed::open(Path::new("/proc/thread-self/fail-nth"))?;
        Self::of(this.into_iter().collect())
    }

    /// Of each thread that works off the kernel's queues, counted by itself; those that come later have none.
    pub fn of_workers() -> Result<Self> {
        let mut threads = Vec::new();
        for process in fs::read_dir("/proc")?.flatten() {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            if name.starts_with("kworker") {
                threads.extend(Armed::open(&process.path().join("fail-nth"))?);
            }
        }
        Self::of(threads)
    }

    /// Runs `act` with the n-th allocation failing; false: there were less than n.
    pub fn fail<T>(&self, n: u32, act: impl FnOnce() -> T) -> Result<(T, bool)> {
        for thread in &self.0 {
            thread.arm(n)?;
        }
        let result = act();
        let mut fired = false;
        for thread in &self.0 {
            fired |= thread.fired()?;
        }
        Ok((result, fired))
    }
}

impl Drop for Allocations {
    fn drop(&mut self) {
        for fault in ["failslab", "fail_page_alloc"] {
            let _ = set(fault, "ignore-gfp-wait", "Y");
        }
    }
}

/// A fault that lets allocations fail that may not wait, which are those of the module's jobs.
pub struct Starved;

const FAULTS: [&str; 2] = ["failslab", "fail_page_alloc"];

impl Starved {
    /// This percentage of them.
    pub fn new(percent: &str) -> Result<Self> {
        Self::of(&FAULTS, percent)
    }

    /// This percentage of the allocations of pages.
    pub fn of_pages(percent: &str) -> Result<Self> {
        Self::of(&FAULTS[1..], percent)
    }

    fn of(faults: &[&str], percent: &str) -> Result<Self> {
        for name in faults {
            set(name, "ignore-gfp-wait", "Y")?;
            set(name, "verbose", "0")?;
            set(name, "times", "-1")?;
            set(name, "interval", "1")?;
        }
        set("fail_page_alloc", "min-order", "0")?;
        for name in faults {
            set(name, "probability", percent)?;
        }
        Ok(Self)
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        for name in FAULTS {
            let _ = set(name, "probability", "0");
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A load that checks what it reads. Each thread has its own part of the device. The threads can be held while
//! something is changed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::dm::Dm;
use crate::io::{self, MIB};
use crate::stamps::Stamps;

/// As soon as there is a loss, tells the module that the loss is on record, as the helper does.
pub struct Recorder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// For the device of this name.
    pub fn new(name: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (name, stopped) = (name.to_owned(), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // In any other state the module refuses the message.
                let _ = Dm::tell(&name, "loss recorded");
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Part = Arc<Mutex<Stamps>>;

fn locked(part: &Part) -> MutexGuard<'_, Stamps> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The content of the first four MiB of a device.
pub struct Parts(Vec<Part>);

impl Parts {
    /// Writes first values to the plain disk.
    pub fn put(disk: &Path) -> Result<Self> {
        let plain = io::direct(disk)?;
        (0..4_u64)
            .map(|n| {
                let stamps = Stamps::put(&plain, n * MIB as u64, MIB, n)?;
                Ok(Arc::new(Mutex::new(stamps)))
            })
            .collect::<Result<_>>()
            .map(Self)
    }
}

/// Threads, each of which reads and writes its own part.
pub struct Load {
    parts: Vec<Part>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Load {
    /// On a mapped device.
    pub fn new(parts: Parts, device: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let Parts(parts) = parts;
        let threads = parts
            .iter()
            .map(|part| {
                let (path, part) = (device.to_owned(), Arc::clone(part));
                let stop = Arc::clone(&stop);
                thread::spawn(move || {
                    let (file, durable) = (io::direct(&path)?, io::durable(&path)?);
                    while !stop.load(Ordering::Relaxed) {
                        locked(&part).step(&file, &durable)?;
                        thread::sleep(Duration::from_micros(200));
                    }
                    Ok(())
                })
            })
            .collect();
        Self {
            parts,
            stop,
            threads,
        }
    }

    /// Runs `act` while no thread reads or writes. If `act` returns that unflushed data may be lost, reads everything.
    pub fn held(&self, device: &Path, act: impl FnOnce() -> Result<bool>) -> Result<bool> {
        let mut parts: Vec<_> = self.parts.iter().map(locked).collect();
        let lost = act()?;
        if lost {
            let file = io::direct(device)?;
            for stamps in &mut parts {
                stamps.check(&file, true).context("after the loss")?;
            }
        }
        Ok(lost)
    }

    /// Requests that failed so far.
    pub fn failed(&self) -> u32 {
        self.parts.iter().map(|part| locked(part).failed).sum()
    }

    /// What the threads are doing, for the text of an error.
    pub fn progress(&self) -> String {
        let ended = self.threads.iter().filter(|t| t.is_finished()).count();
        let busy = self.parts.iter().filter(|p| p.try_lock().is_err()).count();
        format!("{ended} threads have ended, {busy} are at a request")
    }

    /// Stops the threads; returns the error that a thread met.
    pub fn stop(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(())
    }

    /// Reads everything; nothing of it may be lost.
    pub fn check(&self, device: &Path) -> Result<()> {
        let file = io::direct(device)?;
        let check = |part| locked(part).check(&file, false);
        self.parts.iter().try_for_each(check)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

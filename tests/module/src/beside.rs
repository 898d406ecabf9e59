// SPDX-License-Identifier: GPL-3.0-or-later
//! What is done beside a case: again and again, or once while something holds it up.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

/// A thread that does something every so often beside a case.
pub struct Beside {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Result<()>>>,
}

impl Beside {
    /// Begins.
    pub fn new(every: Duration, mut act: impl FnMut() -> Result<()> + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                act()?;
                sleep(every);
            }
            Ok(())
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Ends the thread; an error of what was done is one of the case.
    pub fn end(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("ended twice")?;
        thread.join().map_err(|_| anyhow!("a thread panicked"))?
    }
}

/// A thread that waits in the kernel.
pub struct Blocked<T> {
    thread: thread::JoinHandle<Result<T>>,
    /// Directory of the thread in /proc.
    directory: String,
}

impl<T: Send + 'static> Blocked<T> {
    /// Does something in a thread; returns when the thread waits for it in the kernel.
    pub fn new(act: impl FnOnce() -> Result<T> + Send + 'static) -> Result<Self> {
        let (sender, receiver) = channel();
        let thread = thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero())?;
            act()
        });
        let blocked = Self {
            thread,
            directory: format!("/proc/self/task/{}", receiver.recv()?),
        };
        let until = Instant::now() + Duration::from_secs(60);
        // A short wait on the way does not last for so many looks.
        let mut waits = 0;
        while waits < 20 {
            ensure!(!blocked.is_over(), "a thread did not wait");
            ensure!(Instant::now() < until, "a thread does not wait");
            let stat = fs::read_to_string(format!("{}/stat", blocked.directory))?;
            let (_, state) = stat.rsplit_once(") ").context("no state of a thread")?;
            waits = if state.starts_with('D') { waits + 1 } else { 0 };
            sleep(Duration::from_millis(10));
        }
        Ok(blocked)
    }

    /// Whether the thread has ended.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// How long the thread has had the processor.
    pub fn processor_time(&self) -> Result<Duration> {
        processor_time(&self.directory)
    }

    /// The result of what the thread did.
    pub fn join(self) -> Result<T> {
        let ended = self.thread.join();
        ended.map_err(|_| anyhow!("a thread panicked"))?
    }
}

/// How long a thread has had the processor, by its directory in /proc.
pub fn processor_time(directory: &str) -> Result<Duration> {
    let stat = fs::read_to_string(format!("{directory}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("no fields")?;
    let fields = fields.split(' ').skip(11).take(2);
    let ticks = fields.map(|field| Ok(field.parse::<u64>()?));
    Ok(Duration::from_millis(10 * ticks.sum::<Result<u64>>()?))
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

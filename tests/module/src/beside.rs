// SPDX-License-Identifier: GPL-3.0-or-later
//! What is done beside a case, again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context, Result};

/// Does something every so often beside a case.
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

    /// Ends; an error of what was done is one of the case.
    pub fn end(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("ended twice")?;
        thread
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))?
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

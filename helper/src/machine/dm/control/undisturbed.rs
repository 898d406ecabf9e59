// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls of the kernel that no signal may cut short.
//!
//! Whatever waits for udev, or for the requests of a mapping, ends with EINTR when the thread gets a signal that has a
//! handler, and the devicemapper crate reports that as a failure though the kernel has done what it was asked for. The
//! service has such a handler: of SIGCHLD, for the programs that it starts. Any thread may get it.

use super::Control;
use devicemapper::{DevId, DmError, DmOptions};
use nix::sys::signal::{SigSet, SigmaskHow};

/// Keeps signals from this thread; on its end they come as before.
struct Masked(Option<SigSet>);

impl Drop for Masked {
    fn drop(&mut self) {
        if let Some(before) = &self.0
            && let Err(e) = before.thread_set_mask()
        {
            tracing::warn!("signals stay away from a thread: {e}");
        }
    }
}

/// Calls `f`, which starts no program, without signals for this thread. Another thread gets them.
fn undisturbed<T>(f: impl FnOnce() -> T) -> T {
    let _masked = Masked(
        SigSet::all()
            .thread_swap_mask(SigmaskHow::SIG_BLOCK)
            .inspect_err(|e| tracing::warn!("signals may disturb a call: {e}"))
            .ok(),
    );
    f()
}

/// All such calls go through these two.
impl Control {
    /// Suspends a mapping, or resumes it and puts a loaded table in force, as the flags say.
    pub(super) fn device_suspend(&self, id: &DevId<'_>, options: DmOptions) -> Result<(), DmError> {
        undisturbed(|| self.dm.device_suspend(id, options)).map(drop)
    }

    /// Removes a mapping.
    pub(super) fn device_remove(&self, id: &DevId<'_>, options: DmOptions) -> Result<(), DmError> {
        undisturbed(|| self.dm.device_remove(id, options)).map(drop)
    }
}

#[cfg(feature = "service")]
#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::pthread::{pthread_kill, pthread_self};
    use nix::sys::signal::Signal;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;
    use tokio::signal::unix::{SignalKind, signal};

    /// Waits for a third of a second, or until a signal comes; false: one came.
    fn waits() -> bool {
        let limit = rustix::fs::Timespec {
            tv_sec: 0,
            tv_nsec: 300_000_000,
        };
        rustix::event::poll(&mut [], Some(&limit)).is_ok()
    }

    /// Whether `wait` came to its end in a thread that gets signals all the time.
    fn survives(wait: impl FnOnce() -> bool + Send + 'static) -> bool {
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            tell.send(pthread_self()).unwrap();
            wait()
        });
        let id = told.recv().unwrap();
        while !thread.is_finished() {
            let _ = pthread_kill(id, Signal::SIGUSR1);
            thread::sleep(Duration::from_millis(5));
        }
        thread.join().unwrap()
    }

    #[tokio::test]
    async fn a_signal_cuts_no_call_short() {
        let _handler = signal(SignalKind::user_defined1()).unwrap();
        assert!(!survives(waits), "signals disturb nothing here");
        assert!(survives(|| undisturbed(waits)));
    }
}

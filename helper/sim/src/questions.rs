// SPDX-License-Identifier: GPL-3.0-or-later
//! Counts what the service asks of the machine, without the status of a cache, which is sampled all the time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The questions of the service.
#[derive(Default)]
pub struct Questions {
    asked: AtomicU64,
    open: AtomicU32,
    /// The most questions that were open at a time, since they were counted last.
    most_open: AtomicU32,
    /// How long the machine takes for each, in milliseconds.
    time: AtomicU32,
}

/// A question without an answer yet.
pub struct Question<'a>(&'a Questions);

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Questions {
    /// Takes the time of a question.
    pub async fn ask(&self) -> Question<'_> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_open.fetch_max(open, Ordering::SeqCst);
        let question = Question(self);
        let time = self.time.load(Ordering::SeqCst);
        if time > 0 {
            tokio::time::sleep(Duration::from_millis(time.into())).await;
        }
        question
    }

    /// How many questions there were so far, and the most that were open at a time since the last count.
    pub fn count(&self) -> (u64, u32) {
        let asked = self.asked.load(Ordering::SeqCst);
        (asked, self.most_open.swap(0, Ordering::SeqCst))
    }

    /// How long the machine takes for each question from now on.
    pub fn set_time(&self, milliseconds: u32) {
        self.time.store(milliseconds, Ordering::SeqCst);
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The words of caches and jobs, from the values that the window has of them.

use tandem_api::Failure;
use tandem_words::{CacheWords, FailureWords, Reader, StateFacts, plain_name, state_words};

use crate::model::facts::{CacheFacts, JobFacts};

/// The name of a cache: the one that a person gave it, or the name of its disk.
#[must_use]
pub fn cache_name(cache: &CacheFacts) -> String {
    if cache.chosen_name.is_empty() {
        plain_name(&cache.origin)
    } else {
        cache.chosen_name.clone()
    }
}

/// Words for a cache whose newest sample counts `dirty` bytes that are on the SSD only.
#[must_use]
pub fn words_of(facts: &CacheFacts, dirty: u64) -> CacheWords {
    let facts = StateFacts {
        state: facts.state,
        reason: &facts.reason,
        unwritten: facts.may_be_unwritten(dirty),
        paused: facts.paused,
        grub_would_fail: facts.grub_would_fail,
        sharing: facts.sharing,
    };
    state_words(&facts, Reader::Window)
}

/// Words for a failure.
#[must_use]
pub fn failure_words(failure: &Failure) -> FailureWords {
    tandem_words::failure_words(failure, Reader::Window)
}

/// How a job on a cache ended, in a line that names the disk.
#[must_use]
pub fn job_end_words(job: &JobFacts, canceled: bool) -> String {
    tandem_words::job_end_words(job.kind, job.disk(), canceled)
}

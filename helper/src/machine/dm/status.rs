// SPDX-License-Identifier: GPL-3.0-or-later
//! The status line of the `tandem` target, as kmod/TARGET.rst describes it: printing and parsing are
//! inverse, and a counter that we do not know is kept under its name.

use super::table::Malformed;
use crate::model::live::Status;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use tandem_api::{Bucket, CacheState, Counter, Direction, Latency, Mode, Sample};

/// More words than any kernel prints; a longer line is not ours.
const MAX_WORDS: usize = 1024;

/// A status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusLine {
    /// `active`, `bypass`, `stranded`, `flushing`, `paused`, `suspended`.
    pub state: String,
    /// `-`, or why.
    pub reason: String,
    /// How writes are treated.
    pub mode: Mode,
    /// Sectors.
    pub frame_sectors: u64,
    /// Slots that hold a frame.
    pub used: u64,
    /// All slots.
    pub total: u64,
    /// Sectors that are on the SSD only.
    pub dirty: u64,
    /// By name.
    pub counters: BTreeMap<String, u64>,
}

impl fmt::Display for StatusLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            state,
            reason,
            mode,
            frame_sectors,
            used,
            total,
            dirty,
            counters,
        } = self;
        write!(
            f,
            "{state} {reason} {mode} {frame_sectors} {used}/{total} {dirty} {}",
            counters.len() * 2
        )?;
        counters
            .iter()
            .try_for_each(|(name, value)| write!(f, " {name} {value}"))
    }
}

impl FromStr for StatusLine {
    type Err = Malformed;

    fn from_str(line: &str) -> Result<Self, Malformed> {
        fn number(word: Option<&str>, what: &'static str) -> Result<u64, Malformed> {
            word.and_then(|w| w.parse().ok()).ok_or(Malformed(what))
        }
        let mut words = line.split_ascii_whitespace();
        let state = words.next().ok_or(Malformed("state"))?.to_owned();
        let reason = words.next().ok_or(Malformed("reason"))?.to_owned();
        let mode = words
            .next()
            .and_then(|w| w.parse().ok())
            .ok_or(Malformed("mode"))?;
        let frame_sectors = number(words.next(), "frame size")?;
        let (used, total) = words
            .next()
            .and_then(|w| w.split_once('/'))
            .ok_or(Malformed("frames"))?;
        let (used, total) = (
            number(Some(used), "frames")?,
            number(Some(total), "frames")?,
        );
        let dirty = number(words.next(), "dirty")?;
        let count = usize::try_from(number(words.next(), "number of words")?).unwrap_or(usize::MAX);
        let rest: Vec<&str> = words.take(MAX_WORDS + 1).collect();
        if rest.len() != count || !count.is_multiple_of(2) || count > MAX_WORDS {
            return Err(Malformed("number of words"));
        }
        let mut counters = BTreeMap::new();
        for pair in rest.chunks_exact(2) {
            if counters
                .insert(pair[0].to_owned(), number(Some(pair[1]), "counter")?)
                .is_some()
            {
                return Err(Malformed("counter given twice"));
            }
        }
        Ok(Self {
            state,
            reason,
            mode,
            frame_sectors,
            used,
            total,
            dirty,
            counters,
        })
    }
}

impl StatusLine {
    /// Whether the line describes a cache at all. While a table is being replaced, the line is empty of data; that
    /// does not mean that the SSD is clean.
    pub fn is_complete(&self) -> bool {
        // dm-cache says nothing more when it has failed.
        self.total > 0 || self.state == CacheState::Bypass.as_str()
    }

    /// Whether its dirty count is valid. A table that has not started has not read the SSD yet, and its line is the
    /// same as that of a table that was suspended later.
    pub fn counters_valid(&self) -> bool {
        let states = ["active", "flushing", "paused", "bypass", "stranded"];
        self.is_complete() && states.contains(&self.state.as_str())
    }

    fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// State and reason in the words of the contract. In the contract a flush is a job, not a state; and the loss of
    /// an SSD with dirty data is a reason, not a state.
    pub fn contract_state(&self) -> (&str, &str) {
        match (self.state.as_str(), self.reason.as_str()) {
            ("stranded", _) => ("bypass", "ssd-gone-dirty"),
            (state, "ssd-error-dirty") => (state, "ssd-gone-dirty"),
            // The counter begins at 0 when the cache is assembled.
            ("active" | "flushing" | "paused", "-") if self.counter("disk_errors") > 0 => {
                ("active", "disk-error")
            }
            ("flushing" | "paused", "-") => ("active", ""),
            (state, "-") => (state, ""),
            other => other,
        }
    }

    /// The line in the form of the contract, read at `time_us`.
    pub fn status(&self, time_us: u64) -> Status {
        let (state, reason) = self.contract_state();
        Status {
            state: state.to_owned(),
            reason: reason.to_owned(),
            mode: self.mode,
            sample: self.sample(time_us),
        }
    }

    /// The counters in the form of the contract, taken at `time_us`.
    pub fn sample(&self, time_us: u64) -> Sample {
        let mut rest = self.counters.clone();
        let mut direction = |name: &str| {
            let mut take = |what: &str| rest.remove(&format!("{name}_{what}")).unwrap_or(0);
            let (requested, hit, missed) = (take("requested"), take("hit"), take("missed"));
            let prefix = format!("{name}_bypassed_");
            let bypassed = rest
                .iter()
                .filter_map(|(n, v)| {
                    Some(Counter {
                        name: n.strip_prefix(&prefix)?.to_owned(),
                        value: *v,
                    })
                })
                .collect();
            rest.retain(|n, _| !n.starts_with(&prefix));
            Direction {
                requested,
                hit,
                missed,
                bypassed,
            }
        };
        let (read, write) = (direction("read"), direction("write"));
        let mut latency = |prefix: &str| {
            let bound = |name: &str| match name.strip_prefix(prefix)? {
                "more" => Some(u64::MAX),
                below => below.parse().ok(),
            };
            let mut buckets: Vec<Bucket> = rest
                .iter()
                .filter_map(|(name, requests)| {
                    Some(Bucket {
                        below_us: bound(name)?,
                        requests: *requests,
                    })
                })
                .collect();
            buckets.sort_by_key(|bucket| bucket.below_us);
            rest.retain(|name, _| bound(name).is_none());
            Latency { buckets }
        };
        let (ssd_latency, disk_latency) = (latency("ssd_us_"), latency("disk_us_"));
        let mut take = |name| rest.remove(name).unwrap_or(0);
        let (drain_seconds, drained_sectors) = (take("drain_seconds"), take("drained"));
        let write_back_sectors = take("write_back");
        let (journal_used, journal_total) = (take("journal_used"), take("journal_total"));
        Sample {
            time_us,
            frames_used: self.used,
            frames_total: self.total,
            frame_sectors: self.frame_sectors,
            dirty_sectors: self.dirty,
            drain_seconds,
            drained_sectors,
            write_back_sectors,
            journal_used,
            journal_total,
            read,
            write,
            events: rest
                .into_iter()
                .map(|(name, value)| Counter { name, value })
                .collect(),
            ssd_latency,
            disk_latency,
        }
    }
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: GPL-3.0-or-later
//! The status line of the `tandem` target, as kmod/TARGET.rst describes it: printing and parsing are
//! inverse, and a counter that we do not know is kept under its name.

use super::table::Malformed;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use tandem_api::{Bucket, Counter, Direction, Latency, Mode, Sample};

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
        self.total > 0
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
mod tests {
    use super::*;

    const LINE: &str = "active - writethrough 32 7/4096 0 14 fills 3 read_bypassed_busy 8 \
                        read_bypassed_sequential 16 read_hit 64 read_missed 32 read_requested 120 write_hit 5";

    #[test]
    fn printing_and_parsing_are_inverse() {
        let line: StatusLine = LINE.parse().unwrap();
        assert_eq!(line.to_string(), LINE);
        assert_eq!(line.to_string().parse(), Ok(line));
    }

    #[test]
    fn counters_go_where_they_belong() {
        let sample = LINE.parse::<StatusLine>().unwrap().sample(9);
        assert_eq!(
            (sample.time_us, sample.frames_used, sample.frames_total),
            (9, 7, 4096)
        );
        let read = &sample.read;
        assert_eq!(
            (
                read.requested,
                read.hit,
                read.missed,
                read.bypassed_sectors()
            ),
            (120, 64, 32, 24)
        );
        assert_eq!(
            read.requested,
            read.hit + read.missed + read.bypassed_sectors()
        );
        assert_eq!(sample.write.hit, 5);
        assert_eq!(
            sample.events,
            [Counter {
                name: "fills".into(),
                value: 3
            }]
        );
    }

    #[test]
    fn the_state_is_said_in_the_words_of_the_contract() {
        let said = |state: &str| {
            let line = format!("{state} writeback 32 7/4096 640 0");
            let line: StatusLine = line.parse().unwrap();
            let (state, reason) = line.contract_state();
            (state.to_owned(), reason.to_owned())
        };
        for (kernel, state, reason) in [
            ("active -", "active", ""),
            ("flushing -", "active", ""),
            ("paused -", "active", ""),
            ("bypass ssd-error", "bypass", "ssd-error"),
            ("stranded ssd-error-dirty", "bypass", "ssd-gone-dirty"),
            ("suspended -", "suspended", ""),
            ("suspended ssd-error-dirty", "suspended", "ssd-gone-dirty"),
        ] {
            assert_eq!(said(kernel), (state.to_owned(), reason.to_owned()));
            assert!(state.parse::<tandem_api::CacheState>().is_ok());
        }
    }

    /// What the module counts and status prints, by the names that core gives it, each with another value.
    fn line_of_core() -> (String, Vec<String>) {
        let mut names = tandem_sim::engine::Core::linked().counter_names();
        names.truncate(names.iter().position(|name| name == "checkpoints").unwrap() + 1);
        names.extend(
            [
                "journal_used",
                "journal_total",
                "drain_seconds",
                "marked",
                "dirty_limit",
                "retired",
            ]
            .map(str::to_owned),
        );
        let mut line = format!("flushing - writeback 32 381/896 640 {}", names.len() * 2);
        for (value, name) in names.iter().enumerate() {
            line += &format!(" {name} {}", 1000 + value);
        }
        (line, names)
    }

    #[test]
    fn every_counter_of_core_goes_where_it_is_looked_for() {
        let (line, names) = line_of_core();
        let value = |name: &str| 1000 + names.iter().position(|n| n == name).unwrap() as u64;
        let sample = line.parse::<StatusLine>().unwrap().sample(0);
        let (read, write) = (&sample.read, &sample.write);
        for (found, name) in [
            (read.requested, "read_requested"),
            (read.hit, "read_hit"),
            (read.missed, "read_missed"),
            (write.requested, "write_requested"),
            (write.hit, "write_hit"),
            (write.missed, "write_missed"),
            (sample.write_back_sectors, "write_back"),
            (sample.drained_sectors, "drained"),
            (sample.drain_seconds, "drain_seconds"),
            (sample.journal_used, "journal_used"),
            (sample.journal_total, "journal_total"),
        ] {
            assert_eq!(found, value(name), "{name}");
        }
        for (direction, counters) in [("read", &read.bypassed), ("write", &write.bypassed)] {
            let wanted = names
                .iter()
                .filter(|name| name.starts_with(&format!("{direction}_bypassed_")));
            assert_eq!(counters.len(), wanted.count());
            for counter in counters.iter() {
                assert_eq!(
                    counter.value,
                    value(&format!("{direction}_bypassed_{}", counter.name))
                );
            }
        }
        // What the app, tandemctl and the service ask for by name.
        for name in [
            "fills",
            "evictions",
            "flushes_disk",
            "flushes_ssd",
            "ssd_errors",
            "disk_errors",
            "dirty_limit",
            "retired",
        ] {
            assert_eq!(sample.event(name), value(name), "{name}");
        }
        assert!(
            sample
                .events
                .iter()
                .all(|event| !event.name.starts_with("read_") && !event.name.starts_with("write_"))
        );
    }

    #[test]
    fn a_line_of_a_real_machine_is_understood() {
        let line = "active - writethrough 32 69/7936 0 78 read_requested 2088 read_hit 424 read_missed 1632 \
                    read_bypassed_sequential 0 read_bypassed_busy 32 read_bypassed_full 0 \
                    read_bypassed_memory 0 read_bypassed_unaligned 0 read_bypassed_failed 0 \
                    write_requested 0 write_hit 0 write_back 0 write_missed 0 write_bypassed_memory 0 \
                    write_bypassed_failed 0 write_bypassed_discard 0 write_bypassed_mode 0 drained 0 \
                    fills 69 evictions 0 invalidated 0 cancelled 0 streams 0 waits 0 drains 0 \
                    flushes_disk 0 flushes_ssd 0 ssd_errors 0 disk_errors 0 sweeps 0 groups 0 marks_set 0 \
                    marks_cleared 0 checkpoints 0 journal_used 0 journal_total 128 drain_seconds 0 \
                    marked 0 dirty_limit 190464";
        let line: StatusLine = line.parse().unwrap();
        assert_eq!(
            (line.contract_state(), line.is_complete()),
            (("active", ""), true)
        );
        let sample = line.sample(0);
        let read = &sample.read;
        assert_eq!(
            read.requested,
            read.hit + read.missed + read.bypassed_sectors()
        );
        assert_eq!((sample.journal_total, sample.event("fills")), (128, 69));
        assert_eq!(sample.event("dirty_limit"), 190_464);
    }

    #[test]
    fn an_error_of_the_disk_is_told_and_a_worse_one_of_the_ssd_before_it() {
        let said = |state: &str, errors: u64| {
            let line = format!("{state} writeback 32 7/4096 640 2 disk_errors {errors}");
            line.parse::<StatusLine>()
                .unwrap()
                .contract_state()
                .1
                .to_owned()
        };
        for state in ["active -", "flushing -", "paused -"] {
            assert_eq!(
                (said(state, 0), said(state, 1)),
                (String::new(), "disk-error".into())
            );
        }
        assert_eq!(said("stranded ssd-error-dirty", 1), "ssd-gone-dirty");
    }

    #[test]
    fn a_table_that_is_being_replaced_tells_nothing() {
        let line: StatusLine = "suspended - writeback 32 0/0 0 0".parse().unwrap();
        assert!(!line.is_complete());
    }

    #[test]
    fn what_write_back_counts_has_places_of_its_own() {
        let line = "bypass ssd-gone-dirty writeback 32 7/4096 640 16 commits 2 drain_seconds 9 drained 128 \
                    journal_total 64 journal_used 3 marks 5 write_back 768 write_hit 768";
        let line: StatusLine = line.parse().unwrap();
        assert_eq!((line.mode, line.dirty), (Mode::Writeback, 640));
        let sample = line.sample(0);
        assert_eq!((sample.dirty_sectors, sample.drain_seconds), (640, 9));
        assert_eq!(
            (sample.drained_sectors, sample.write_back_sectors),
            (128, 768)
        );
        assert_eq!((sample.journal_used, sample.journal_total), (3, 64));
        // These sectors are a part of the hits, and not a reason to bypass the cache.
        assert_eq!((sample.write.hit, sample.write.bypassed.len()), (768, 0));
        let names: Vec<_> = sample.events.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["commits", "marks"]);
    }

    #[test]
    fn the_times_of_requests_become_histograms() {
        let line = "active - writeback 32 7/4096 640 14 ssd_us_more 1 ssd_us_128 5 ssd_us_16 70 ssd_us_32 0 \
                    disk_us_8192 2 fills 3 disk_us_16384 4";
        let sample = line.parse::<StatusLine>().unwrap().sample(0);
        let told = |latency: &Latency| -> Vec<(u64, u64)> {
            let buckets = latency.buckets.iter();
            buckets.map(|b| (b.below_us, b.requests)).collect()
        };
        assert_eq!(
            told(&sample.ssd_latency),
            [(16, 70), (32, 0), (128, 5), (u64::MAX, 1)]
        );
        assert_eq!(told(&sample.disk_latency), [(8192, 2), (16384, 4)]);
        assert_eq!((sample.events.len(), sample.event("fills")), (1, 3));
    }

    #[test]
    fn what_is_not_of_the_form_is_refused() {
        for bad in [
            "",
            "active - writethrough 32 7/4096 0",
            "active - write-back 32 7/4096 0 0",
            "active - writethrough 32 7 0 0",
            "active - writethrough 32 7/4096 0 2 fills",
            "active - writethrough 32 7/4096 0 1 fills",
            "active - writethrough 32 7/4096 0 2 fills -1",
            "active - writethrough 32 7/4096 0 4 fills 1 fills 1",
            "active - writethrough 32 7/4096 0 2 fills 1 more",
        ] {
            assert!(bad.parse::<StatusLine>().is_err(), "{bad}");
        }
    }
}

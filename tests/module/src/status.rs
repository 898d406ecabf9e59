// SPDX-License-Identifier: GPL-3.0-or-later
//! The status of a cache.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::dm::Dm;

/// A state that is not reached by then is not reached at all, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A parsed status line.
#[derive(Clone, Debug)]
pub struct Status {
    /// `active`, `bypass`, `suspended`.
    pub state: String,
    /// Why, or `-`.
    pub reason: String,
    /// The mode's word.
    pub mode: String,
    /// Sectors of a frame.
    pub frame: u64,
    /// Frames in use.
    pub used: u64,
    /// Frames in all.
    pub total: u64,
    /// Sectors that are only on the SSD.
    pub dirty: u64,
    /// Every counter by its name.
    pub counters: BTreeMap<String, u64>,
}

impl Status {
    /// The status of a mapped device.
    pub fn of(device: &Dm) -> Result<Self> {
        Self::parse(&device.status()?)
    }

    /// Waits until the status of a mapped device is as it is to be.
    pub fn until(device: &Dm, what: &str, holds: impl Fn(&Self) -> bool) -> Result<Self> {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = Self::of(device)?;
            if holds(&status) {
                return Ok(status);
            }
            ensure!(
                Instant::now() < until,
                "not {what} after {PATIENCE:?}: {status:?}"
            );
            sleep(Duration::from_millis(10));
        }
    }

    /// Reads the line of TARGET.rst.
    pub fn parse(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let parsed = || {
            let [state, reason, mode, frame, usage, dirty, count, rest @ ..] = words.as_slice()
            else {
                return Err(anyhow::anyhow!("too few words"));
            };
            let (used, total) = usage.split_once('/').context("no slash in used/total")?;
            ensure!(
                count.parse::<usize>()? == rest.len(),
                "{} words follow, not {count}",
                rest.len()
            );
            ensure!(rest.len() % 2 == 0, "a counter without a value");
            let mut counters = BTreeMap::new();
            for pair in rest.chunks(2) {
                ensure!(
                    counters
                        .insert(pair[0].to_owned(), pair[1].parse()?)
                        .is_none(),
                    "{} twice",
                    pair[0]
                );
            }
            Ok(Self {
                state: (*state).to_owned(),
                reason: (*reason).to_owned(),
                mode: (*mode).to_owned(),
                frame: frame.parse()?,
                used: used.parse()?,
                total: total.parse()?,
                dirty: dirty.parse()?,
                counters,
            })
        };
        parsed().with_context(|| format!("status line {line:?}"))
    }

    /// A counter; one that is not there is an error.
    pub fn get(&self, name: &str) -> Result<u64> {
        self.counters
            .get(name)
            .copied()
            .with_context(|| format!("no counter {name}"))
    }

    /// Promise 31, for a quiet device.
    pub fn adds_up(&self) -> Result<()> {
        for direction in ["read", "write"] {
            let bypassed: u64 = self
                .counters
                .iter()
                .filter(|(name, _)| name.starts_with(&format!("{direction}_bypassed_")))
                .map(|(_, value)| value)
                .sum();
            let requested = self.get(&format!("{direction}_requested"))?;
            let hit = self.get(&format!("{direction}_hit"))?;
            let missed = self.get(&format!("{direction}_missed"))?;
            ensure!(
                requested == hit + missed + bypassed,
                "{direction}: {requested} requested, {hit} hit + {missed} missed + {bypassed} bypassed"
            );
        }
        ensure!(
            self.used <= self.total,
            "{} of {} frames used",
            self.used,
            self.total
        );
        Ok(())
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The table: one line for each size of the cache.

use std::fmt::Write;
use std::path::Path;

use super::arc::Arc;
use super::core::{self, Cache, Shape, Writes};
use super::hot_only::HotOnly;
use super::lru::Lru;
use super::min::Min;
use super::s3_fifo::S3Fifo;
use super::sieve::Sieve;
use super::two_q::TwoQ;
use super::{Policy, Recording, Tally, play, recording};
use tandem_sim::engine::Core;

/// What to compare.
pub struct Wish {
    /// Sizes of the cache in hundredths of the footprint.
    pub percents: Vec<f64>,
    /// Size of a block.
    pub block_bytes: u64,
    /// What core takes writes for.
    pub writes: Writes,
    /// Another length of runs than what suits the size.
    pub run_shift: Option<u32>,
}

/// The hit rates of a recording in a file.
///
/// # Errors
/// The file is no recording.
pub fn table(core: &Core, trace: &Path, wish: &Wish) -> Result<String, recording::Error> {
    let recording = Recording::open(trace, wish.block_bytes)?;
    let reads_only = wish.writes == Writes::Through;
    let rate = |tally: &Tally| {
        if reads_only {
            tally.read_percent()
        } else {
            tally.percent()
        }
    };
    let mut text = format!(
        "{}: {} requests, {} accesses to {} blocks of {} KiB; hits in % of {}\n",
        trace.file_name().unwrap_or_default().to_string_lossy(),
        recording.requests().len(),
        recording.blocks().len(),
        recording.footprint(),
        wish.block_bytes >> 10,
        if reads_only {
            "reads"
        } else {
            "reads and writes"
        }
    );
    text += "| size | slots | ways x run | LRU | ARC | 2Q | S3-FIFO | SIEVE | hot only | MIN | core | to best of the first five | written for a hit, LRU: 1 |\n";
    text += "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for &percent in &wish.percents {
        let room = ((recording.footprint() as f64 * percent / 100.0) as usize).max(1);
        let mut shape = Shape::for_room(room);
        shape.run_shift = wish.run_shift.unwrap_or(shape.run_shift);
        let mut cache = Cache::new(core, shape, room, recording.last_block() + 1);
        // As much as core has: no real cache loses so much to rounding as such a small one.
        let slots = cache.slots() as usize;
        let mut others: [Box<dyn Policy>; 7] = [
            Box::new(Lru::new(slots)),
            Box::new(Arc::new(slots)),
            Box::new(TwoQ::new(slots)),
            Box::new(S3Fifo::new(slots)),
            Box::new(Sieve::new(slots)),
            Box::new(HotOnly::new(slots)),
            Box::new(Min::new(slots, &recording)),
        ];
        let tallies = others
            .each_mut()
            .map(|policy| play(&recording, policy.as_mut()));
        let rates = tallies.each_ref().map(rate);
        let tally = core::play(&recording, wish.writes, &mut cache);
        let own = rate(&tally);
        let [lru, ..] = tallies;
        let written = |fills: u64, hits: u64| fills as f64 / hits.max(1) as f64;
        let _ = writeln!(
            text,
            "| {percent} % | {slots} | {} x {} | {} | **{own:.1}** | {:+.2} | {:.2} |",
            1 << shape.way_shift,
            1 << shape.run_shift,
            rates.map(|rate| format!("{rate:.1}")).join(" | "),
            own - rates[..5].iter().copied().fold(0.0, f64::max),
            written(cache.counter(core, "fills"), tally.hits)
                / written(lru.accesses - lru.hits, lru.hits),
        );
    }
    Ok(text)
}

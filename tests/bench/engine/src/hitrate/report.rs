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
    text += "| size | blocks | LRU | ARC | S3-FIFO | hot only | MIN | core | slots | ways x run | to best of LRU, S3-FIFO | fills % |\n";
    text += "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for &percent in &wish.percents {
        let room = ((recording.footprint() as f64 * percent / 100.0) as usize).max(1);
        let mut others: [(&str, Box<dyn Policy>); 5] = [
            ("LRU", Box::new(Lru::new(room))),
            ("ARC", Box::new(Arc::new(room))),
            ("S3-FIFO", Box::new(S3Fifo::new(room))),
            ("hot only", Box::new(HotOnly::new(room))),
            ("MIN", Box::new(Min::new(room, &recording))),
        ];
        let rates = others
            .each_mut()
            .map(|(_, policy)| rate(&play(&recording, policy.as_mut())));
        let mut shape = Shape::for_room(room);
        shape.run_shift = wish.run_shift.unwrap_or(shape.run_shift);
        let mut cache = Cache::new(core, shape, room, recording.last_block() + 1);
        let tally = core::play(&recording, wish.writes, &mut cache);
        let own = rate(&tally);
        let _ = writeln!(
            text,
            "| {percent} % | {room} | {} | **{own:.1}** | {} | {} x {} | {:+.1} | {:.1} |",
            rates.map(|rate| format!("{rate:.1}")).join(" | "),
            cache.slots(),
            1 << shape.way_shift,
            1 << shape.run_shift,
            own - rates[0].max(rates[2]),
            100.0 * cache.counter(core, "fills") as f64 / tally.accesses.max(1) as f64,
        );
    }
    Ok(text)
}

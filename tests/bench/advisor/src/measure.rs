// SPDX-License-Identifier: GPL-3.0-or-later
//! Core's own hit rates, and what the advisor predicts.

use std::time::Instant;

use tandem_advisor::{Advisor, Estimate, Impossible, Kind, Request};
use tandem_engine_bench::hitrate::core::{Cache, Shape as CacheShape};
use tandem_sim::engine::Core;

use crate::workload::{FRAME, SIZES, Workload};

/// Sectors of a run: requests that are moved by these are the same for core, but for their hashes.
const RUN: u64 = 2048;

/// One size, with one sample.
pub struct Pair {
    /// What core serves of the bytes read.
    pub core: f64,
    pub advisor: Estimate,
}

impl Pair {
    /// In points of hit rate.
    pub fn off(&self) -> f64 {
        100.0 * (self.advisor.share - self.core)
    }
}

/// Of one workload.
pub struct Result {
    pub name: String,
    pub requests: usize,
    pub disk_sectors: u64,
    /// Bytes of each size, and what came out for each sample.
    pub sizes: Vec<(u64, Vec<Pair>)>,
    /// Sizes that the advisor had to look at.
    pub rungs: usize,
    /// Bytes.
    pub memory: u64,
    pub state: usize,
    /// For each request.
    pub nanoseconds: f64,
}

/// Plays the workload to the advisor and to core, at several places of the disk: each gives the advisor another sample.
pub fn measure(core: &Core, workload: &Workload) -> std::result::Result<Result, Impossible> {
    let bytes = |size| workload.slots(size) * FRAME * 512;
    let mut result = Result {
        name: workload.name.clone(),
        requests: workload.requests.len(),
        disk_sectors: workload.disk_sectors,
        sizes: (0..SIZES).map(|size| (bytes(size), Vec::new())).collect(),
        rungs: 0,
        memory: 0,
        state: 0,
        nanoseconds: f64::INFINITY,
    };
    for sample in 0..workload.samples {
        let moved = sample * 1_000_003 * RUN;
        let advisor = predict(workload, moved, &mut result)?;
        let curve = advisor.curve();
        for (size, (bytes, pairs)) in (0..).zip(&mut result.sizes) {
            pairs.push(Pair {
                core: replay(core, workload, moved, size),
                advisor: curve
                    .at(*bytes)
                    .map_or(Estimate::default(), |p| p.bytes_served),
            });
        }
    }
    Ok(result)
}

fn predict(
    workload: &Workload,
    moved: u64,
    result: &mut Result,
) -> std::result::Result<Advisor, Impossible> {
    let mut advisor = Advisor::with_shape(workload.disk_sectors + moved, workload.shape)?;
    let start = Instant::now();
    for (at, request) in workload.requests.iter().enumerate() {
        advisor.feed(&Request {
            time_us: at as u64,
            kind: match request.write {
                true => Kind::Write,
                false => Kind::Read,
            },
            sector: request.sector + moved,
            sectors: request.count,
        });
    }
    let time = start.elapsed().as_nanos() as f64 / workload.requests.len().max(1) as f64;
    result.nanoseconds = result.nanoseconds.min(time);
    result.rungs = result.rungs.max(advisor.curve().points.len());
    result.memory = result.memory.max(advisor.memory());
    result.state = result.state.max(advisor.save().len());
    Ok(advisor)
}

/// What part of the bytes read core serves from the SSD, with a cache of this size and all requests.
fn replay(core: &Core, workload: &Workload, moved: u64, size: u32) -> f64 {
    let shape = CacheShape {
        run_shift: workload.shape.run_shift,
        way_shift: workload.shape.way_shift,
    };
    let frames = (workload.disk_sectors + moved).div_ceil(FRAME);
    let mut cache = Cache::new(core, shape, workload.slots(size) as usize, frames);
    for request in &workload.requests {
        let sector = request.sector + moved;
        if request.write {
            cache.write(sector, request.count);
        } else {
            cache.read(sector, request.count, |_, _| {});
        }
    }
    let sectors = |name| cache.counter(core, name) as f64;
    sectors("read_hit") / sectors("read_requested").max(1.0)
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The tables.

use crate::measure::{Pair, Result};

/// Largest mean and largest single error, in points of hit rate.
const AIMS: [f64; 2] = [3.0, 6.0];

fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = numbers.fold((0.0, 0), |(sum, count), number| (sum + number, count + 1));
    sum / f64::from(count.max(1))
}

/// The one that is furthest off.
fn worst<'a>(pairs: impl Iterator<Item = &'a Pair>) -> f64 {
    pairs.map(Pair::off).fold(
        0.0,
        |worst, off| {
            if off.abs() > worst.abs() { off } else { worst }
        },
    )
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}

/// All of it.
pub fn text(results: &[Result]) -> String {
    // The smallest cache is watched whole: that its figure is right says nothing of samples.
    let all = || {
        let sizes = results
            .iter()
            .flat_map(|result| result.sizes.iter().skip(1));
        sizes.flat_map(|(_, pairs)| pairs)
    };
    let errors = [mean(all().map(|pair| pair.off().abs())), worst(all()).abs()];
    let within = all().filter(|pair| pair.off().abs() <= 100.0 * pair.advisor.error + 0.2);
    let within = 100.0 * within.count() as f64 / all().count().max(1) as f64;
    let mut text = format!(
        "# The advisor's predictions beside core itself\n\n\
         `cargo run --release -p tandem-advisor-bench -- DIRECTORY --out tests/bench/ADVISOR.md` writes this file; the directory\n\
         has the recordings, which are not part of the project. Each line compares the hit rate that the advisor predicts from a\n\
         sample with the hit rate of core, which gets all requests: the part of the bytes read that the SSD serves, in\n\
         write-through. The caches of recordings are smaller than real ones, as the recordings are, and so are the samples. A\n\
         recording is played at several places of the disk, which gives the advisor other samples; error is in points of hit\n\
         rate.\n\n\
         | aim, for the sizes that are sampled | | measured | |\n|---|---|---|---|\n\
         | mean error | at most {:.0} points | {:.2} | {} |\n\
         | worst error | at most {:.0} points | {:.2} | {} |\n\
         | within the error that the advisor states, and 0.2 | about 95 % | {within:.0} % | |\n\n",
        AIMS[0],
        errors[0],
        verdict(errors[0] <= AIMS[0]),
        AIMS[1],
        errors[1],
        verdict(errors[1] <= AIMS[1]),
    );
    text += "| requests | cache MiB | sample | places | core % | advisor % | stated error | mean error | worst |\n";
    text += "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for result in results {
        for (size, (bytes, pairs)) in result.sizes.iter().enumerate() {
            text += &format!(
                "| {} | {:.0} | 1/{} | {} | {:.1} | {:.1} | ± {:.1} | {:.1} | {:+.1} |\n",
                result.name,
                *bytes as f64 / f64::from(1 << 20),
                1 << size,
                pairs.len(),
                100.0 * mean(pairs.iter().map(|pair| pair.core)),
                100.0 * mean(pairs.iter().map(|pair| pair.advisor.share)),
                100.0 * mean(pairs.iter().map(|pair| pair.advisor.error)),
                mean(pairs.iter().map(|pair| pair.off().abs())),
                worst(pairs.iter()),
            );
        }
    }
    text += "\n| requests | how many | disk GB | sizes looked at | memory KiB | saved state KiB | ns a request |\n";
    text += "|---|---:|---:|---:|---:|---:|---:|\n";
    for result in results {
        text += &format!(
            "| {} | {} | {:.0} | {} | {} | {} | {:.0} |\n",
            result.name,
            result.requests,
            result.disk_sectors as f64 * 512.0 / 1e9,
            result.rungs,
            result.memory >> 10,
            result.state >> 10,
            result.nanoseconds,
        );
    }
    text
}

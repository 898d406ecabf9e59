// SPDX-License-Identifier: GPL-3.0-or-later
//! The page about shares.

use tandem_advisor::Impossible;
use tandem_sim::engine::Core;

use super::{Outcome, Shared, share};
use crate::workload::Workload;

/// Sizes of the SSD, in hundredths of what both disks touch.
const PERCENTS: [u64; 2] = [5, 20];
/// Points of hit rate in the mean from which shares that follow the use are worth their work.
const WORTH: f64 = 2.0;

/// The ways to share, in the order of the columns.
const WAYS: [&str; 10] = [
    "equal",
    "advised",
    "anew",
    "best fixed",
    "follows 6 h",
    "all",
    "pool",
    "in turns: follows 6 h",
    "all",
    "pool",
];
const ADVISED: usize = 1;
const FOLLOWS: [usize; 2] = [4, 5];
const POOL: usize = 6;
/// From a way to the same in turns.
const TURNS: usize = 3;

/// What the figures do not say.
const REASONS: &str = "\
So shares stay fixed. What counts is that they are chosen, by the advisor's figures, and not equal. Shares that follow the last\n\
hours lose what they move, again and again where the disks take turns; those that follow all hours so far come to the advised\n\
shares later than a person who asks the advisor, or not at all where a day's gain is less than the cost. A fixed share also\n\
keeps what a pool gives up: each cache has a journal, a mode, a dirty limit and a removal of its own, its disk goes to another\n\
computer without the others, and a scan of one disk costs the others nothing. These are three recordings, of one hour to one\n\
week, and an hour here is a 48th of them: whoever has longer ones of several disks should measure again.\n";

impl Shared {
    fn ways(&self) -> [Outcome; WAYS.len()] {
        let ([soon, all], [soon_in_turns, all_in_turns]) =
            (self.together.following, self.turns.following);
        [
            self.equal,
            self.advised,
            self.advised_anew,
            self.best,
            soon,
            all,
            self.together.pool,
            soon_in_turns,
            all_in_turns,
            self.turns.pool,
        ]
    }
}

/// Plays all pairs.
pub fn text(core: &Core, workloads: &[Workload]) -> Result<String, Impossible> {
    let mut all = Vec::new();
    for (at, one) in workloads.iter().enumerate() {
        for other in &workloads[at + 1..] {
            for percent in PERCENTS {
                eprintln!("{} and {}, {percent} %", one.name, other.name);
                all.push(share(core, [one, other], percent)?);
            }
        }
    }
    Ok(page(&all))
}

fn page(all: &[Shared]) -> String {
    // Of a way, in both uses.
    let mean = |way: usize| {
        let rates = all.iter().flat_map(|shared| {
            let ways = shared.ways();
            let in_turns = if way < FOLLOWS[0] { way } else { way + TURNS };
            [ways[way].rate, ways[in_turns].rate]
        });
        rates.sum::<f64>() / (2 * all.len().max(1)) as f64
    };
    let beyond = |way: usize| mean(way) - mean(ADVISED);
    let follows = FOLLOWS.map(beyond).into_iter().fold(f64::MIN, f64::max);
    let pool = beyond(POOL);
    let verdict = |points: f64| {
        if points >= WORTH {
            format!("{points:+.1} points, which is worth the work: **an open end**")
        } else {
            format!("{points:+.1} points; from {WORTH:.0} on it would be worth the work")
        }
    };
    let mut text = format!(
        "# One SSD for two disks: fixed shares, shares that follow the use, one pool\n\n\
         `cargo run --release -p tandem-advisor-bench -- DIRECTORY --shares --out tests/bench/SHARES.md` writes this file; the\n\
         directory has the recordings, which are not part of the project. Core itself serves each pair of recordings, with an SSD of\n\
         5 and 20 % of what both touch, in write-through. A recording is played as if it took two days; the figures are of the\n\
         second one: bytes read that came from the SSD, in percent of those of both disks, and then GB written on the SSD.\n\n\
         | way | |\n|---|---|\n\
         | equal | a half for each disk |\n\
         | advised | fixed shares as the advisor's curves of the first day recommend, from the beginning |\n\
         | anew | the same, with caches that begin empty on the second day, as when a person changes the shares today |\n\
         | best fixed | of all fixed shares in eighths, known afterwards |\n\
         | follows 6 h | each hour as the curves of the last 6 hours say, if 24 such hours gain what the move costs |\n\
         | all | the same, by the curves of all hours so far |\n\
         | pool | one cache for both disks, as bcache has, with the policy of core |\n\n\
         What a move costs: the part that changes hands is empty, and its content is read again when it is asked for. The rest of\n\
         both caches is as if the share had always been so, which is better than what a real move leaves. In turns each disk is\n\
         used for half a day while the other one rests, which is what following is made for; fixed shares serve the same then.\n\
         In brackets: how often the shares moved.\n\n\
         ## Decision\n\n\
         In the mean of all rows and both uses, beside the {:.1} % of the advised shares:\n\n\
         - equal shares: {:+.1} points\n\
         - shares that follow the use, with the better of both rules: {}\n\
         - one pool: {}\n\n",
        mean(ADVISED),
        beyond(0),
        verdict(follows),
        verdict(pool),
    );
    text += REASONS;
    text += "\n## Figures\n\n";
    text += &table(all);
    text
}

/// Hit rates and moves, and then what is written.
fn table(all: &[Shared]) -> String {
    let ways = WAYS.join(" | ");
    let line = "---:|".repeat(WAYS.len());
    let mut rates = format!("| disks | SSD MiB | {ways} |\n|---|---:|{line}\n");
    let mut written = format!("| GB written | SSD MiB | {ways} |\n|---|---:|{line}\n");
    for shared in all {
        let first = format!("| {} | {} |", shared.name, shared.ssd_bytes >> 20);
        rates += &first;
        written += &first;
        for outcome in shared.ways() {
            rates += &match outcome.moves {
                0 => format!(" {:.1} |", outcome.rate),
                moves => format!(" {:.1} ({moves}) |", outcome.rate),
            };
            written += &format!(" {:.2} |", outcome.written / 1e9);
        }
        rates.push('\n');
        written.push('\n');
    }
    format!("{rates}\n{written}")
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Shared, page};
    use crate::shares::Moving;

    fn outcome(rate: f64, moves: usize) -> Outcome {
        Outcome {
            rate,
            written: 2e9,
            moves,
        }
    }

    fn shared(follows: f64) -> Shared {
        let moving = || Moving {
            following: [outcome(follows, 3), outcome(40.0, 0)],
            pool: outcome(53.0, 0),
        };
        Shared {
            name: "one and other".to_owned(),
            ssd_bytes: 64 << 20,
            equal: outcome(45.0, 0),
            advised: outcome(50.0, 0),
            advised_anew: outcome(49.0, 0),
            best: outcome(51.0, 0),
            together: moving(),
            turns: moving(),
        }
    }

    #[test]
    fn the_page_says_what_is_worth_its_work() {
        let text = page(&[shared(51.9)]);
        assert!(text.contains("- equal shares: -5.0 points\n"));
        assert!(text.contains("both rules: +1.9 points; from 2 on it would be worth the work\n"));
        assert!(
            text.contains("- one pool: +3.0 points, which is worth the work: **an open end**\n")
        );
        let row = "| one and other | 64 | 45.0 | 50.0 | 49.0 | 51.0 | 51.9 (3) | 40.0 | 53.0 | 51.9 (3) | 40.0 | 53.0 |\n";
        assert!(text.contains(row));
        let better = page(&[shared(52.0)]);
        assert!(
            better.contains("both rules: +2.0 points, which is worth the work: **an open end**\n")
        );
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Two disks and one SSD: fixed shares, shares that follow the use, and one pool for both.
//!
//! Core serves each disk with each share from the beginning, and the hits of each hour are kept. A share that changes has
//! from then on the hits of a cache that always had the new share, but for what it costs: what was not there before the
//! move is a miss once. So moves look rather better here than they are: what a real cache gives up is not always what it
//! needs least.

pub mod report;

use std::ops::Range;

use tandem_advisor::{Advisor, Impossible, Kind, Request as Watched, Shape};
use tandem_engine_bench::hitrate::core::{Cache, Shape as CacheShape};
use tandem_sim::engine::Core;

use crate::workload::{FRAME, Request, Workload};

/// Parts of an SSD that a disk can have.
pub const PARTS: usize = 8;
const EQUAL: usize = PARTS / 2;
/// A recording is played as if it took two days; hits count on the second.
pub const HOURS: usize = 48;
const COUNTED: usize = HOURS / 2;
/// Of the two days.
const QUARTER: usize = HOURS / 4;
/// Hours that shares look back which follow the use.
pub const WINDOWS: [usize; 2] = [6, HOURS];
/// A move has to gain in so many hours what it costs.
const HORIZON: f64 = 24.0;
/// Small groups, so that a part of a small SSD has some.
const SHAPE: CacheShape = CacheShape {
    run_shift: 2,
    way_shift: 4,
};
const GROUP: u64 = 1 << (SHAPE.run_shift + SHAPE.way_shift);
/// Alignment of the second disk behind the first, in a pool: a run of any shape.
const ALIGN: u64 = 2048;

/// Of an hour, in sectors.
#[derive(Clone, Copy, Default)]
pub struct Hour {
    pub asked: u64,
    pub hit: u64,
    /// On the SSD.
    pub written: u64,
}

impl Hour {
    fn and(self, other: Self) -> Self {
        Self {
            asked: self.asked + other.asked,
            hit: self.hit + other.hit,
            written: self.written + other.written,
        }
    }
}

type Hours = Vec<Hour>;

/// A request at a time from 0 to 1.
type Timed = (f64, Request);

/// Of the second day.
#[derive(Clone, Copy, Default)]
pub struct Outcome {
    /// Of the bytes read from both disks, in a hundred.
    pub rate: f64,
    /// Bytes written on the SSD.
    pub written: f64,
    /// Changes of the shares on both days.
    pub moves: usize,
}

/// What came of each way to share.
pub struct Shared {
    pub name: String,
    pub ssd_bytes: u64,
    pub equal: Outcome,
    /// As the advisor's curves of the first day say: from the beginning.
    pub advised: Outcome,
    /// The same from the second day on, with caches that begin empty, as after a change of shares today.
    pub advised_anew: Outcome,
    /// The best that can be known afterwards.
    pub best: Outcome,
    pub together: Moving,
    /// Each disk for half a day, while the other one rests. Fixed shares serve the same as together.
    pub turns: Moving,
}

/// What depends on when the disks are used.
pub struct Moving {
    /// Each hour as the curves of the last hours say, for each of [`WINDOWS`].
    pub following: [Outcome; 2],
    pub pool: Outcome,
}

/// Plays a pair with an SSD of so many hundredths of what both disks touch.
pub fn share(core: &Core, pair: [&Workload; 2], percent: u64) -> Result<Shared, Impossible> {
    let frames: u64 = pair.iter().map(|disk| disk.footprint).sum();
    let part = (frames * percent / 100 / GROUP / PARTS as u64).max(1) * GROUP;
    let disks = pair.map(timed);
    let (mut tables, mut watched) = (Vec::new(), Vec::new());
    for (requests, workload) in disks.iter().zip(pair) {
        let sizes = 1..PARTS as u64;
        let sizes = sizes.map(|size| play(core, requests, workload.disk_sectors, size * part));
        tables.push(sizes.collect::<Vec<_>>());
        watched.push(watch(requests, workload.disk_sectors, part)?);
    }
    let together = Play {
        tables,
        watched,
        part: part * FRAME,
    };
    let fixed = |size| together.outcome(|_, _| size);
    let all = (1..PARTS).map(fixed);
    let best = all.max_by(|one, other| one.rate.total_cmp(&other.rate));
    let advice = together.best(0..COUNTED, EQUAL, false);
    let anew = [advice, PARTS - advice].into_iter().zip(&disks).zip(pair);
    let anew = anew.map(|((size, requests), disk)| {
        let begun = requests.iter().filter(|(at, _)| hour(*at) >= COUNTED);
        let requests: Vec<Timed> = begun.copied().collect();
        play(core, &requests, disk.disk_sectors, size as u64 * part)
    });
    let anew: Vec<Hours> = anew.collect();

    let far = pair[0].disk_sectors.next_multiple_of(ALIGN);
    let pool = |turn: &dyn Fn(f64, usize) -> f64| {
        let both = disks.iter().enumerate().flat_map(|(disk, requests)| {
            requests.iter().map(move |(at, request)| {
                let sector = request.sector + disk as u64 * far;
                (turn(*at, disk), Request { sector, ..*request })
            })
        });
        let mut both: Vec<Timed> = both.collect();
        both.sort_by(|one, other| one.0.total_cmp(&other.0));
        let slots = part * PARTS as u64;
        counted(&[play(core, &both, far + pair[1].disk_sectors, slots)])
    };
    Ok(Shared {
        name: pair.map(|disk| disk.name.as_str()).join(" and "),
        ssd_bytes: part * PARTS as u64 * FRAME * 512,
        equal: fixed(EQUAL),
        advised: fixed(advice),
        advised_anew: counted(&anew),
        best: best.unwrap_or_default(),
        together: Moving {
            following: WINDOWS.map(|window| together.follow(window)),
            pool: pool(&|at, _| at),
        },
        turns: Moving {
            following: WINDOWS.map(|window| together.in_turns().follow(window)),
            // Quarters 0 and 2 of the two days, or 1 and 3.
            pool: pool(&|at, disk| at / 2.0 + (disk as f64 + (at * 2.0).floor()) / 4.0),
        },
    })
}

/// The requests with their times from 0 to 1.
fn timed(workload: &Workload) -> Vec<Timed> {
    let count = workload.requests.len().max(1) as f64;
    let last = workload.times.iter().copied().max().unwrap_or(-1);
    let times = workload.requests.iter().enumerate();
    let times = times.map(|(index, request)| {
        let part = match workload.times.get(index) {
            Some(time) if last > 0 => *time as f64 / (last + 1) as f64,
            _ => index as f64 / count,
        };
        (part, *request)
    });
    times.collect()
}

fn hour(at: f64) -> usize {
    ((at * HOURS as f64) as usize).min(HOURS - 1)
}

/// What a cache of so many slots does in each hour.
fn play(core: &Core, requests: &[Timed], disk_sectors: u64, slots: u64) -> Hours {
    let frames = disk_sectors.div_ceil(FRAME);
    let mut cache = Cache::new(core, SHAPE, slots as usize, frames);
    let mut hours = vec![Hour::default(); HOURS];
    let mut before = Hour::default();
    let mut now = 0;
    let mut close = |cache: &Cache, hour: usize| {
        let is = |name| cache.counter(core, name);
        let sum = Hour {
            asked: is("read_requested"),
            hit: is("read_hit"),
            written: is("fills") * FRAME + is("write_hit"),
        };
        hours[hour] = Hour {
            asked: sum.asked - before.asked,
            hit: sum.hit - before.hit,
            written: sum.written - before.written,
        };
        before = sum;
    };
    for (at, request) in requests {
        while hour(*at) > now {
            close(&cache, now);
            now += 1;
        }
        if request.write {
            cache.write(request.sector, request.count);
        } else {
            cache.read(request.sector, request.count, |_, _| {});
        }
    }
    close(&cache, now);
    hours
}

/// What the advisor predicts of each share until the end of each hour: sectors that it would have served.
type Predicted = Vec<[f64; PARTS]>;

fn watch(requests: &[Timed], disk_sectors: u64, part: u64) -> Result<Predicted, Impossible> {
    let shape = Shape {
        groups: (part / GROUP) as u32,
        run_shift: SHAPE.run_shift,
        way_shift: SHAPE.way_shift,
        ..Shape::REAL
    };
    let mut advisor = Advisor::with_shape(disk_sectors, shape)?;
    let mut requests = requests.iter().peekable();
    let mut all = Vec::new();
    for now in 0..HOURS {
        while let Some((at, request)) = requests.next_if(|(at, _)| hour(*at) <= now) {
            advisor.feed(&Watched {
                time_us: (at * 172_800e6) as u64,
                kind: if request.write {
                    Kind::Write
                } else {
                    Kind::Read
                },
                sector: request.sector,
                sectors: request.count,
            });
        }
        let curve = advisor.curve();
        let read = advisor.seen().read_sectors as f64;
        all.push(std::array::from_fn(|size| {
            let point = curve.at(size as u64 * part * FRAME * 512);
            point.map_or(0.0, |point| point.bytes_served.share * read)
        }));
    }
    Ok(all)
}

/// A disk whose cache is not full since a move.
#[derive(Clone, Copy, Default)]
struct Debt {
    /// The share whose hits it has at least.
    from: usize,
    /// Sectors that it has to read once more.
    sectors: u64,
}

struct Play {
    /// Of each disk, for each share from 1 on.
    tables: Vec<Vec<Hours>>,
    watched: Vec<Predicted>,
    /// Sectors of a part.
    part: u64,
}

impl Play {
    /// The same requests, of each disk in its half days: two hours in one.
    fn in_turns(&self) -> Play {
        // Hours of a disk that have passed at the end of an hour of these.
        let passed = |disk: usize, hour: usize| {
            let turn = |begin: usize| (hour + 1).saturating_sub(begin).min(QUARTER) * 2;
            turn(disk * QUARTER) + turn((disk + 2) * QUARTER)
        };
        let hours = |disk: usize, hours: &Hours| {
            let range = |hour: usize| match hour {
                0 => 0..passed(disk, 0),
                _ => passed(disk, hour - 1)..passed(disk, hour),
            };
            let sum = |hour| {
                hours[range(hour)]
                    .iter()
                    .copied()
                    .fold(Hour::default(), Hour::and)
            };
            (0..HOURS).map(sum).collect()
        };
        let tables = self.tables.iter().enumerate();
        let tables =
            tables.map(|(disk, sizes)| sizes.iter().map(|size| hours(disk, size)).collect());
        let watched = self.watched.iter().enumerate();
        let watched = watched.map(|(disk, all)| {
            let until = |hour| {
                passed(disk, hour)
                    .checked_sub(1)
                    .map_or([0.0; PARTS], |last| all[last])
            };
            (0..HOURS).map(until).collect()
        });
        Play {
            tables: tables.collect(),
            watched: watched.collect(),
            part: self.part,
        }
    }

    /// Shares that follow the use, by the curves of so many hours.
    fn follow(&self, window: usize) -> Outcome {
        self.outcome(|hour, size| match hour {
            0 => size,
            _ => self.best(hour.saturating_sub(window)..hour, size, true),
        })
    }

    /// The share of the first disk that the advisor's curves of some hours recommend: most sectors served; if it is to
    /// be worth a move, less what the move costs.
    fn best(&self, hours: Range<usize>, size: usize, is_move: bool) -> usize {
        let served = |disk: usize, share: usize| {
            let watched = &self.watched[disk];
            let begun = hours.start.checked_sub(1);
            let begun = begun.map_or(0.0, |hour| watched[hour][share]);
            watched[hours.end - 1][share] - begun
        };
        let often = HORIZON / hours.len() as f64;
        let worth = |share: usize| {
            let gain = served(0, share) + served(1, PARTS - share);
            if is_move {
                gain * often - (size.abs_diff(share) as u64 * self.part) as f64
            } else {
                gain
            }
        };
        // Of equal ones the present share.
        let shares = (1..PARTS).filter(|share| *share != size);
        shares.fold(size, |best, share| {
            if worth(share) > worth(best) {
                share
            } else {
                best
            }
        })
    }

    /// What comes of a rule that says the share of the first disk in each hour, from the hour and the share before.
    fn outcome(&self, rule: impl Fn(usize, usize) -> usize) -> Outcome {
        let mut size = rule(0, EQUAL);
        let mut sums = [Hours::new(), Hours::new()];
        let mut debts = [Debt::default(); 2];
        let mut moves = 0;
        for hour in 0..HOURS {
            let next = rule(hour, size);
            for (disk, debt) in debts.iter_mut().enumerate() {
                let share = |first: usize| if disk == 0 { first } else { PARTS - first };
                debt.change(share(size), share(next), self.part);
                sums[disk].push(self.served(disk, share(next), hour, debt));
            }
            moves += usize::from(next != size);
            size = next;
        }
        Outcome {
            moves,
            ..counted(&sums)
        }
    }

    fn served(&self, disk: usize, share: usize, hour: usize, debt: &mut Debt) -> Hour {
        // A disk has one part at least.
        let at = |share: usize| self.tables[disk][share.max(1) - 1][hour];
        let mut served = at(share);
        if debt.sectors > 0 {
            let missed = debt
                .sectors
                .min(served.hit.saturating_sub(at(debt.from).hit));
            served.hit -= missed;
            served.written += missed;
            // What misses anyway fills the room as well.
            debt.sectors = debt.sectors.saturating_sub(served.written);
        }
        served
    }
}

impl Debt {
    fn change(&mut self, old: usize, new: usize, part: u64) {
        if self.sectors == 0 {
            self.from = old;
        }
        self.from = self.from.min(new);
        let grown = new.saturating_sub(old) as u64 * part;
        self.sectors = (self.sectors + grown).min((new - self.from) as u64 * part);
    }
}

fn counted(all: &[Hours]) -> Outcome {
    let hours = || all.iter().flat_map(|hours| &hours[COUNTED..]);
    let sum = |number: fn(&Hour) -> u64| hours().map(number).sum::<u64>() as f64;
    Outcome {
        rate: 100.0 * sum(|hour| hour.hit) / sum(|hour| hour.asked).max(1.0),
        written: 512.0 * sum(|hour| hour.written),
        moves: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{Debt, HOURS, Hour, PARTS, Play};

    /// Sectors of a part.
    const PART: u64 = 100;

    /// A disk that asks for a thousand sectors an hour. Each part of the SSD serves so many of them.
    fn disk(hits: u64) -> (Vec<Vec<Hour>>, Vec<[f64; PARTS]>) {
        let hour = |share: u64| Hour {
            asked: 1000,
            hit: share * hits,
            written: 0,
        };
        let table = (1..PARTS as u64).map(|share| vec![hour(share); HOURS]);
        let served = |hours: usize, share: usize| (hours * share) as f64 * hits as f64;
        let watched = (1..=HOURS).map(|hours| std::array::from_fn(|share| served(hours, share)));
        (table.collect(), watched.collect())
    }

    fn pair(hits: [u64; 2]) -> Play {
        let (tables, watched) = hits.map(disk).into_iter().unzip();
        Play {
            tables,
            watched,
            part: PART,
        }
    }

    #[test]
    fn the_curves_say_who_gets_the_larger_share() {
        let moved = pair([60, 10]).follow(HOURS);
        assert_eq!(moved.moves, 1);
        // 7 parts of 60 and one of 10, of 2000.
        assert!((moved.rate - 21.5).abs() < 1e-9);
        // What a part gains in a day is less than what it costs.
        assert_eq!(pair([14, 10]).follow(HOURS).moves, 0);
    }

    #[test]
    fn a_part_that_moves_costs_its_content_once() {
        let play = pair([10, 10]);
        let fixed = play.outcome(|_, _| 4);
        let moved = play.outcome(|hour, _| 4 + usize::from(hour >= HOURS / 2));
        // One part more and one part less, of 24 hours with 2000 each; 100 sectors are missed, and read again.
        assert!((fixed.rate - moved.rate - 100.0 * 100.0 / 48_000.0).abs() < 1e-9);
        assert!((moved.written - fixed.written - 51_200.0).abs() < 1e-9);
        assert_eq!((fixed.moves, moved.moves), (0, 1));
    }

    #[test]
    fn in_turns_each_disk_has_its_half_days() {
        let play = pair([60, 60]).in_turns();
        let asked = |disk: usize| play.tables[disk][0].iter().map(|hour| hour.asked);
        let quarters = |disk| [0, 12, 24, 36].map(|hour| asked(disk).nth(hour).unwrap());
        assert_eq!(quarters(0), [2000, 0, 2000, 0]);
        assert_eq!(quarters(1), [0, 2000, 0, 2000]);
        assert_eq!(asked(1).sum::<u64>(), 48_000);
        let seen = [11, 12, 23, 24].map(|hour| play.watched[1][hour][1]);
        assert_eq!(seen, [0.0, 120.0, 1440.0, 1440.0]);
        // Each turn is worth a move.
        assert!(play.follow(6).moves >= 4);
    }

    #[test]
    fn a_part_that_is_given_up_again_costs_nothing_more() {
        let mut debt = Debt::default();
        debt.change(8, 10, PART);
        assert_eq!((debt.from, debt.sectors), (8, 200));
        debt.change(10, 9, PART);
        assert_eq!(debt.sectors, 100);
        debt.change(9, 4, PART);
        assert_eq!((debt.from, debt.sectors), (4, 0));
    }
}

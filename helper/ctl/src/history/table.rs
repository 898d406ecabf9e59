// SPDX-License-Identifier: GPL-3.0-or-later
//! The periods of a history, taken together to the few lines of a table. Nothing is asked here.

use gettextrs::gettext;
use tandem_api::{OtherPeriod, Period, Span};
use tandem_words::{bytes, fill, percent, rate};

/// The data that programs have read and written in a time. Amounts are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Microseconds in which somebody observed the cache.
    pub time_us: u64,
    /// Read from the SSD.
    pub ssd: u64,
    /// Read from the disk.
    pub disk: u64,
    pub written: u64,
    /// Reads that the SSD and the disk have served, in the unit in which the hit rate is counted.
    pub hits: u64,
    pub misses: u64,
    /// The most that was on the SSD only at one time; `None`: not known.
    pub waiting: Option<u64>,
}

impl Work {
    /// Of one of Tandem's caches, whose hit rate counts bytes.
    pub fn of(period: &Period) -> Self {
        Self {
            // Less than a second is told as 0.
            time_us: period.seconds.max(1).saturating_mul(1_000_000),
            ssd: period.read_ssd,
            disk: period.read_disk,
            written: period.written,
            hits: period.read_ssd,
            misses: period.read_disk,
            waiting: Some(period.dirty),
        }
    }

    /// Of a cache of another system. `whole`: all reads are told as those of the disk, since those of the SSD are not known.
    pub fn of_other(period: &OtherPeriod, whole: bool) -> Self {
        Self {
            time_us: period.end_us.saturating_sub(period.start_us),
            ssd: if whole { 0 } else { period.read_ssd },
            disk: if whole { period.read } else { period.read_disk },
            written: period.written,
            hits: period.hits,
            misses: period.misses,
            waiting: period.unwritten_known.then_some(period.unwritten_bytes),
        }
    }

    fn add(&mut self, more: &Self) {
        for (sum, part) in [
            (&mut self.time_us, more.time_us),
            (&mut self.ssd, more.ssd),
            (&mut self.disk, more.disk),
            (&mut self.written, more.written),
            (&mut self.hits, more.hits),
            (&mut self.misses, more.misses),
        ] {
            *sum = sum.saturating_add(part);
        }
        self.waiting = self.waiting.max(more.waiting);
    }

    /// The sum of several times.
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        let mut sum = Self::default();
        all.into_iter().for_each(|work| sum.add(&work));
        sum
    }

    /// Share of what was counted that the SSD has served; `None` if nothing was counted.
    pub fn hit_rate(&self) -> Option<f64> {
        let all = self.hits.saturating_add(self.misses);
        (all > 0).then(|| self.hits as f64 / all as f64)
    }

    /// As a speed over the time of this work.
    fn speed(&self, amount: u64) -> String {
        let each = u128::from(amount) * 1_000_000 / u128::from(self.time_us.max(1));
        rate(u64::try_from(each).unwrap_or(u64::MAX))
    }
}

/// How a table looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// All reads are in one column.
    pub whole: bool,
    /// The hit rate is approximate.
    pub approximate: bool,
}

/// Seconds of a line. The lines of a month are days, which the words for the time tell apart.
fn step(span: Span) -> u64 {
    match span {
        Span::Hour => 300,
        Span::Day => 3600,
        Span::Month => 1,
    }
}

/// The works by the beginnings of their periods in seconds of Unix time, oldest first, taken together to lines. `words`: the
/// time of a line in words; works that follow each other and have the same words are in one line.
pub fn lines(
    works: impl IntoIterator<Item = (u64, Work)>,
    span: Span,
    words: impl Fn(u64) -> String,
) -> Vec<(String, Work)> {
    let mut lines: Vec<(String, Work)> = Vec::new();
    for (start, work) in works {
        let when = words(start - start % step(span));
        match lines.last_mut() {
            Some((last, sum)) if *last == when => sum.add(&work),
            _ => lines.push((when, work)),
        }
    }
    lines
}

/// The lines as a table, with a line that names the columns.
pub fn table(lines: &[(String, Work)], look: Look) -> Vec<String> {
    // Translators: heads a column with the beginning of a time
    let mut head = vec![gettext("From"), gettext("Hit rate")];
    if look.whole {
        head.push(gettext("Read"));
    } else {
        head.extend([gettext("SSD"), gettext("Hard disk")]);
    }
    // Translators: heads a column with what is not yet on the hard disk
    head.extend([gettext("Written"), gettext("Waiting")]);
    let nothing = || "–".to_owned();
    let row = |(when, work): &(String, Work)| {
        let share = work.hit_rate().map_or_else(nothing, |share| {
            let share = percent(share);
            match look.approximate {
                // Translators: an approximate share in a table, such as "about 75%"
                true => fill(&gettext("about {share}"), &[("share", &share)]),
                false => share,
            }
        });
        let mut cells = vec![when.clone(), share];
        if !look.whole {
            cells.push(work.speed(work.ssd));
        }
        cells.extend([work.speed(work.disk), work.speed(work.written)]);
        cells.push(work.waiting.map_or_else(nothing, bytes));
        cells
    };
    let rows: Vec<_> = std::iter::once(head).chain(lines.iter().map(row)).collect();
    aligned(&rows)
}

/// The rows with columns of the same width, numbers to the right.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            match column {
                0 => format!("  {cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            }
        });
        cells.collect::<String>()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Look = Look {
        whole: false,
        approximate: false,
    };

    fn period(start: u64, seconds: u64, read_ssd: u64, read_disk: u64, dirty: u64) -> Period {
        Period {
            start,
            seconds,
            read_ssd,
            read_disk,
            written: 0,
            dirty,
        }
    }

    fn other(start: u64) -> OtherPeriod {
        OtherPeriod {
            start_us: start * 1_000_000,
            end_us: (start + 10) * 1_000_000,
            read: 900_000,
            written: 30_000_000,
            read_disk: 20_000_000,
            read_ssd: 70_000_000,
            ssd_known: true,
            hits: 3,
            misses: 1,
            unwritten_bytes: 5_000,
            unwritten_known: true,
        }
    }

    fn told(lines: &[(String, Work)], look: Look) -> Vec<String> {
        let told = table(lines, look).into_iter();
        told.map(|line| line.replace('\u{a0}', " ")).collect()
    }

    #[test]
    fn periods_are_taken_together_and_have_the_speed_of_the_time_observed() {
        let periods = [
            period(600, 10, 90_000_000, 10_000_000, 7_000),
            period(610, 10, 0, 100_000_000, 2_000),
            // The beginning of the next line, which was observed in part.
            period(900, 1, 0, 0, 0),
            period(910, 0, 4_000_000, 0, 0),
        ];
        let works = periods
            .iter()
            .map(|period| (period.start, Work::of(period)));
        let lines = lines(works, Span::Hour, |start| format!("t{start}"));
        let expected = [
            "  From  Hit rate       SSD  Hard disk    Written  Waiting",
            "  t600       45%  4.5 MB/s   5.5 MB/s  0 bytes/s   7.0 kB",
            "  t900      100%  2.0 MB/s  0 bytes/s  0 bytes/s  0 bytes",
        ];
        assert_eq!(told(&lines, LOOK), expected);
    }

    #[test]
    fn a_time_without_periods_has_no_line_and_a_day_is_one() {
        let hours = [0, 3600, 86_400, 90_000].map(|start| period(start, 3600, 1, 1, start));
        let works = || hours.iter().map(|period| (period.start, Work::of(period)));
        let days = lines(works(), Span::Month, |start| (start / 86_400).to_string());
        let waiting: Vec<_> = days.iter().map(|(_, work)| work.waiting).collect();
        assert_eq!(waiting, [Some(3600), Some(90_000)]);
        let hours = lines(works(), Span::Day, |start| start.to_string());
        let starts: Vec<_> = hours.iter().map(|(start, _)| start.as_str()).collect();
        assert_eq!(starts, ["0", "3600", "86400", "90000"]);
    }

    #[test]
    fn what_another_system_counts_is_called_approximate() {
        let period = other(300);
        let lines = [("t".to_owned(), Work::of_other(&period, false))];
        let look = Look {
            approximate: true,
            ..LOOK
        };
        let expected = [
            "  From   Hit rate       SSD  Hard disk   Written  Waiting",
            "  t     about 75%  7.0 MB/s   2.0 MB/s  3.0 MB/s   5.0 kB",
        ];
        assert_eq!(told(&lines, look), expected);
    }

    #[test]
    fn what_is_not_known_is_not_told_as_nothing() {
        let silent = OtherPeriod {
            ssd_known: false,
            hits: 0,
            misses: 0,
            unwritten_bytes: 0,
            unwritten_known: false,
            ..other(300)
        };
        let look = Look {
            whole: true,
            approximate: true,
        };
        let work = Work::of_other(&silent, true);
        let expected = [
            "  From  Hit rate       Read   Written  Waiting",
            "  t            –  90.0 kB/s  3.0 MB/s        –",
        ];
        assert_eq!(told(&[("t".to_owned(), work)], look), expected);
        // Beside a period in which the amount was told, that amount counts.
        let sum = Work::sum([work, Work::of_other(&other(310), true)]);
        assert_eq!((sum.waiting, sum.hit_rate()), (Some(5_000), Some(0.75)));
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Tables of figures, and behind each the reasons why other caches are ahead of Tandem.

use std::fmt::Write;

use anyhow::Result;

use crate::bench::Figures;

/// A figure is ahead of another by this part or more; the state of the disk's head makes less.
const AHEAD: f64 = 0.03;

/// A figure of the table.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    pub title: &'a str,
    pub figure: &'a str,
    /// The divisor of the figure that is shown. A figure with a divisor has a digit behind the point.
    pub per: f64,
    /// A smaller figure is the better one.
    pub less: bool,
}

/// Of some columns' figures, why caches are ahead of Tandem.
pub struct Reason {
    /// A part of the figures' names.
    pub figures: &'static str,
    /// The beginning of the devices' names.
    pub device: &'static str,
    pub why: &'static str,
}

/// Of a figure without a known reason.
pub const UNKNOWN: &str = "nobody knows why yet";

/// Of random writes in write-back that are many at a time.
pub const PROCESSOR: &str = "32 at a time the one processor is the limit, and the write that makes a block dirty takes more instructions in\n  \
     Tandem (RESULTS.md, \"first write\" and \"to a cached block\")";

/// More is better.
pub const fn more<'a>(title: &'a str, figure: &'a str) -> Column<'a> {
    Column {
        title,
        figure,
        per: 1.0,
        less: false,
    }
}

/// Less is better.
pub const fn less<'a>(title: &'a str, figure: &'a str) -> Column<'a> {
    Column {
        less: true,
        ..more(title, figure)
    }
}

impl Column<'_> {
    /// The figure in parts of `per`.
    pub const fn per(self, per: f64) -> Self {
        Self { per, ..self }
    }

    fn of(&self, device: &Figures) -> Option<f64> {
        device
            .find(self.figure)
            .map(|number| number as f64 / self.per)
    }

    fn shown(&self, number: f64) -> String {
        format!("{number:.*}", usize::from(self.per > 1.0))
    }

    /// Whether a figure is so much better than another that a reason is told.
    fn is_ahead(&self, figure: f64, other: f64) -> bool {
        let (high, low) = if self.less {
            (other, figure)
        } else {
            (figure, other)
        };
        high > low && high >= low * (1.0 + AHEAD)
    }
}

/// The first lines of a table.
pub fn heading(text: &mut String, columns: &[Column]) -> Result<()> {
    text.push_str("| device | |");
    for column in columns {
        write!(text, " {} |", column.title)?;
    }
    writeln!(text, "\n|---|---|{}", "---:|".repeat(columns.len()))?;
    Ok(())
}

/// A row for each device.
pub fn rows(text: &mut String, all: &[Figures], columns: &[Column]) -> Result<()> {
    for device in all {
        write!(text, "| {} | {} |", device.name, device.about)?;
        for column in columns {
            match column.of(device) {
                Some(number) => write!(text, " {} |", column.shown(number))?,
                None => text.push_str(" |"),
            }
        }
        text.push('\n');
    }
    Ok(())
}

/// The row of Tandem in the same mode; `None`: the device is no cache, or Tandem's own.
fn same_mode<'a>(peer: &Figures, all: &'a [Figures]) -> Option<&'a Figures> {
    let same = match peer.name {
        "disk" | "ssd" | "elevator" | "dm-linear" | "tandem" | "tandem-wb" => return None,
        _ if peer.about.contains("writethrough") || peer.about.contains("write-around") => "tandem",
        _ => "tandem-wb",
    };
    all.iter().find(|device| device.name == same)
}

/// A sentence for each reason why caches are ahead of Tandem in the same mode.
pub fn ahead(
    text: &mut String,
    all: &[Figures],
    columns: &[Column],
    reasons: &[Reason],
) -> Result<()> {
    let mut why: Vec<(&str, Vec<String>)> = Vec::new();
    for peer in all {
        let Some(tandem) = same_mode(peer, all) else {
            continue;
        };
        for column in columns {
            let (Some(figure), Some(own)) = (column.of(peer), column.of(tandem)) else {
                continue;
            };
            if !column.is_ahead(figure, own) {
                continue;
            }
            let reason = reasons.iter().find(|reason| {
                peer.name.starts_with(reason.device) && column.figure.contains(reason.figures)
            });
            let reason = reason.map_or(UNKNOWN, |reason| reason.why);
            let (shown, own) = (column.shown(figure), column.shown(own));
            let number = format!("{} {} ({shown} beside {own})", peer.name, column.title);
            match why.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, numbers)) => numbers.push(number),
                None => why.push((reason, vec![number])),
            }
        }
    }
    if why.is_empty() {
        text.push_str("\nNo cache is ahead of Tandem in the same mode.\n");
        return Ok(());
    }
    text.push_str("\nAhead of Tandem in the same mode:\n\n");
    for (reason, numbers) in why {
        writeln!(text, "- {}:\n  {reason}.", numbers.join("; "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Column, Figures, Reason, ahead, less, more};

    const COLUMNS: [Column; 2] = [
        more("reads/s", "reads"),
        less("start s", "start-ms").per(1000.0),
    ];
    const REASONS: [Reason; 2] = [
        Reason {
            figures: "reads",
            device: "bcache",
            why: "it reads ahead",
        },
        Reason {
            figures: "",
            device: "bcache",
            why: "told too late",
        },
    ];

    fn device(name: &'static str, about: &'static str, numbers: [u64; 2]) -> Figures {
        let names = ["reads", "start-ms"].map(str::to_owned);
        Figures {
            name,
            about,
            numbers: names.into_iter().zip(numbers).collect(),
            stopped: None,
        }
    }

    /// The list for these devices beside Tandem in both modes.
    fn told(beside: Vec<Figures>) -> String {
        let mut all = vec![
            device("tandem", "writethrough", [100, 1000]),
            device("tandem-wb", "writeback", [200, 2000]),
        ];
        all.extend(beside);
        let mut text = String::new();
        ahead(&mut text, &all, &COLUMNS, &REASONS).unwrap();
        text
    }

    #[test]
    fn a_cache_is_ahead_only_of_tandem_in_its_own_mode() {
        let bcache = device("bcache", "writethrough, nothing bypassed", [150, 980]);
        let around = device("rapiddisk-wa", "write-around, in memory", [150, 1000]);
        let other = device("dm-writecache", "writeback", [203, 1900]);
        assert_eq!(
            told(vec![bcache, around, other]),
            "\nAhead of Tandem in the same mode:\n\n\
             - bcache reads/s (150 beside 100):\n  it reads ahead.\n\
             - rapiddisk-wa reads/s (150 beside 100); dm-writecache start s (1.9 beside 2.0):\n  nobody knows why yet.\n"
        );
    }

    #[test]
    fn a_little_is_not_ahead_and_neither_is_what_is_no_cache() {
        let slow = device("bcache-wb", "the same, writeback", [206, 1945]);
        let text = told(vec![slow]);
        assert!(text.contains("bcache-wb reads/s (206 beside 200)") && !text.contains("start"));
        for (name, about, numbers) in [
            ("bcache-wb", "the same, writeback", [199, 2000]),
            ("disk", "without a cache", [900, 1]),
            ("elevator", "the disk alone", [900, 1]),
            ("dm-linear", "device-mapper without any work", [900, 1]),
        ] {
            assert_eq!(
                told(vec![device(name, about, numbers)]),
                "\nNo cache is ahead of Tandem in the same mode.\n"
            );
        }
    }

    #[test]
    fn nothing_is_not_ahead_of_nothing() {
        let all = [
            device("tandem", "writethrough", [0, 0]),
            device("bcache", "writethrough", [0, 0]),
        ];
        let mut text = String::new();
        ahead(&mut text, &all, &COLUMNS, &REASONS).unwrap();
        assert!(text.contains("No cache"));
    }
}

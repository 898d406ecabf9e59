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
    /// What the figure is divided by before it is shown; then it has a digit behind the point.
    pub per: f64,
    /// A smaller figure is the better one.
    pub less: bool,
}

/// Of some columns' figures, why caches are ahead of Tandem.
pub struct Reason {
    /// The beginning of the figures' names.
    pub figures: &'static str,
    /// The beginning of the devices' names.
    pub device: &'static str,
    pub why: &'static str,
}

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

    /// By which part a figure is better than another.
    fn ahead(&self, figure: f64, other: f64) -> f64 {
        let ratio = if self.less {
            other / figure
        } else {
            figure / other
        };
        ratio - 1.0
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
            if column.ahead(figure, own) < AHEAD {
                continue;
            }
            let reason = reasons.iter().find(|reason| {
                peer.name.starts_with(reason.device) && column.figure.starts_with(reason.figures)
            });
            let reason = reason.map_or("nobody knows why yet", |reason| reason.why);
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
        writeln!(text, "- {}:\n  {reason}.", numbers.join(", "))?;
    }
    Ok(())
}

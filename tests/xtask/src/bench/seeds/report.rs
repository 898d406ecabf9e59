// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes `tests/bench/SEEDS.md`.

use std::fmt::Write;

use anyhow::Result;

use super::Repeated;
use super::articles::{Article, Column};
use crate::bench::Figures;

/// A figure is ahead of another by this part or more; the state of the disk's head makes less.
const AHEAD: f64 = 0.03;

/// The whole page.
pub fn text(release: &str, commit: &str, all: &[Repeated]) -> Result<String> {
    let mut text = format!(
        "# What five articles measured of other caches, repeated\n\n\
         `cargo xtask bench seeds` writes this file. Kernel {release}, module of commit {commit}. Disk and SSD are the models\n\
         of [RESULTS.md](RESULTS.md), and so is the clock: figures repeat, but for bcache's. All sizes are a 64th of the articles':\n\
         a GB is 16 MiB, the SSD of 1 GiB stands for 64 GB (the articles' had 57 and more), the disk of 16 GiB for 1 TB. Requests go\n\
         past the page cache: the articles' files were larger than their memory. bcache bypasses nothing here; as it is set up by\n\
         default it leaves requests that go on for 4 MB to the disk, and copies of large files never get faster.\n\n\
         Rows in italics are the articles', on their hardware. `{}` repeats a single article.\n",
        "cargo xtask bench seeds --article NAME"
    );
    for (article, figures) in all {
        write!(
            text,
            "\n## {}\n\n`cargo xtask bench seeds --article {}`\n\n{}\n\nHere: {}\n\n",
            article.title, article.name, article.measured, article.here
        )?;
        table(&mut text, article, figures)?;
        ahead(&mut text, article, figures)?;
    }
    text.push_str(
        "\n## Not repeated\n\nCaches of two levels (memory and SSD, SSD and NVMe) were slower than one SSD; none of the systems here is one.\n",
    );
    Ok(text)
}

fn table(text: &mut String, article: &Article, all: &[Figures]) -> Result<()> {
    text.push_str("| device | |");
    for column in article.columns {
        write!(text, " {} |", column.title)?;
    }
    writeln!(text, "\n|---|---|{}", "---:|".repeat(article.columns.len()))?;
    for (of, figures) in article.figures {
        write!(text, "| *{of}* | |")?;
        for figure in *figures {
            match *figure {
                "" => text.push_str(" |"),
                figure => write!(text, " *{figure}* |")?,
            }
        }
        text.push('\n');
    }
    for device in all {
        write!(text, "| {} | {} |", device.name, device.about)?;
        for column in article.columns {
            match column.of(device) {
                Some(number) => write!(text, " {} |", column.shown(number))?,
                None => text.push_str(" |"),
            }
        }
        text.push('\n');
    }
    for device in all {
        if let Some(why) = &device.stopped {
            writeln!(text, "\nFigures of {} are missing: {why}.", device.name)?;
        }
    }
    Ok(())
}

impl Column {
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
        let ratio = if self.time {
            other / figure
        } else {
            figure / other
        };
        ratio - 1.0
    }
}

/// A sentence for each reason why caches are ahead of Tandem in the same mode.
fn ahead(text: &mut String, article: &Article, all: &[Figures]) -> Result<()> {
    let mut why: Vec<(&str, Vec<String>)> = Vec::new();
    for peer in all {
        let same = match peer.name {
            "disk" | "ssd" | "tandem" | "tandem-wb" => continue,
            _ if peer.about.contains("writethrough") => "tandem",
            _ => "tandem-wb",
        };
        let Some(tandem) = all.iter().find(|device| device.name == same) else {
            continue;
        };
        for column in article.columns {
            let (Some(figure), Some(own)) = (column.of(peer), column.of(tandem)) else {
                continue;
            };
            if column.ahead(figure, own) < AHEAD {
                continue;
            }
            let mut reasons = article.reasons.iter();
            let reason = reasons.find(|reason| {
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

#[cfg(test)]
mod tests {
    use super::super::articles::{Article, Column, Reason};
    use super::{Figures, ahead, table};

    const ARTICLE: Article = Article {
        name: "a",
        title: "A",
        measured: "",
        here: "",
        columns: &[
            Column {
                title: "reads/s",
                figure: "reads",
                per: 1.0,
                time: false,
            },
            Column {
                title: "start s",
                figure: "start-ms",
                per: 1000.0,
                time: true,
            },
        ],
        figures: &[("Flashcache", &["4500", ""])],
        write_back: false,
        reasons: &[Reason {
            figures: "reads",
            device: "bcache",
            why: "it reads ahead",
        }],
    };

    fn device(name: &'static str, about: &'static str, numbers: [u64; 2]) -> Figures {
        let names = ["reads", "start-ms"].map(str::to_owned);
        Figures {
            name,
            about,
            numbers: names.into_iter().zip(numbers).collect(),
            stopped: None,
        }
    }

    #[test]
    fn a_table_has_the_articles_rows_and_those_of_the_devices() {
        let mut disk = device("disk", "without a cache", [99, 1549]);
        disk.numbers.remove("reads");
        disk.stopped = Some("it hangs".to_owned());
        let mut text = String::new();
        table(&mut text, &ARTICLE, &[disk]).unwrap();
        assert_eq!(
            text,
            "| device | | reads/s | start s |\n|---|---|---:|---:|\n| *Flashcache* | | *4500* | |\n\
             | disk | without a cache | | 1.5 |\n\nFigures of disk are missing: it hangs.\n"
        );
    }

    #[test]
    fn a_cache_is_ahead_only_of_tandem_in_its_own_mode() {
        let tandem = || device("tandem", "writethrough", [100, 1000]);
        let back = || device("tandem-wb", "writeback", [200, 2000]);
        let mut text = String::new();
        let bcache = device("bcache", "writethrough, nothing bypassed", [150, 980]);
        let other = device("dm-writecache", "writeback", [203, 1900]);
        ahead(&mut text, &ARTICLE, &[tandem(), back(), bcache, other]).unwrap();
        assert_eq!(
            text,
            "\nAhead of Tandem in the same mode:\n\n\
             - bcache reads/s (150 beside 100):\n  it reads ahead.\n\
             - dm-writecache start s (1.9 beside 2.0):\n  nobody knows why yet.\n"
        );
        text.clear();
        let slow = device("bcache-wb", "the same, writeback", [206, 1945]);
        ahead(&mut text, &ARTICLE, &[tandem(), back(), slow]).unwrap();
        assert!(text.contains("bcache-wb reads/s (206 beside 200)") && !text.contains("start"));
        text.clear();
        let behind = device("bcache-wb", "the same, writeback", [199, 2000]);
        ahead(&mut text, &ARTICLE, &[tandem(), back(), behind]).unwrap();
        assert_eq!(text, "\nNo cache is ahead of Tandem in the same mode.\n");
    }
}

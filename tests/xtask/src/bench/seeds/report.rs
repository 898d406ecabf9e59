// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes `tests/bench/SEEDS.md`.

use std::fmt::Write;

use anyhow::Result;

use super::Repeated;
use super::articles::Article;
use crate::bench::Figures;
use crate::bench::report::ahead;

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
        ahead::ahead(&mut text, figures, article.columns, article.reasons)?;
    }
    text.push_str(
        "\n## Not repeated\n\nCaches of two levels (memory and SSD, SSD and NVMe) were slower than one SSD; none of the systems here is one.\n",
    );
    Ok(text)
}

fn table(text: &mut String, article: &Article, all: &[Figures]) -> Result<()> {
    ahead::heading(text, article.columns)?;
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
    ahead::rows(text, all, article.columns)?;
    for device in all {
        if let Some(why) = &device.stopped {
            writeln!(text, "\nFigures of {} are missing: {why}.", device.name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::articles::Article;
    use super::{Figures, table};
    use crate::bench::report::ahead::{less, more};

    const ARTICLE: Article = Article {
        name: "a",
        title: "A",
        measured: "",
        here: "",
        columns: &[
            more("reads/s", "reads"),
            less("start s", "start-ms").per(1000.0),
        ],
        figures: &[("Flashcache", &["4500", ""])],
        write_back: false,
        reasons: &[],
    };

    #[test]
    fn a_table_has_the_articles_rows_and_those_of_the_devices() {
        let disk = Figures {
            name: "disk",
            about: "without a cache",
            numbers: [("start-ms".to_owned(), 1549)].into(),
            stopped: Some("it hangs".to_owned()),
        };
        let mut text = String::new();
        table(&mut text, &ARTICLE, &[disk]).unwrap();
        assert_eq!(
            text,
            "| device | | reads/s | start s |\n|---|---|---:|---:|\n| *Flashcache* | | *4500* | |\n\
             | disk | without a cache | | 1.5 |\n\nFigures of disk are missing: it hangs.\n"
        );
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Tells a person what a demonstration does while it does it, and leaves the same as a page with pictures.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

/// A page that grows with the demonstration.
pub struct Report {
    dir: PathBuf,
    text: String,
    start: Instant,
}

impl Report {
    /// Starts a page in an empty directory.
    pub fn new(dir: &Path, title: &str) -> Result<Self> {
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self {
            dir: dir.to_owned(),
            text: format!("# {title}\n"),
            start: Instant::now(),
        })
    }

    /// Begins a chapter.
    pub fn chapter(&mut self, title: &str) {
        println!("\n--- {title}");
        let _ = write!(self.text, "\n## {title}\n\n");
    }

    /// Tells one step.
    pub fn step(&mut self, words: &str) {
        println!("{:6.1} s  {words}", self.start.elapsed().as_secs_f32());
        let _ = writeln!(self.text, "- {words}");
    }

    /// Where a picture goes that the page will show.
    pub fn picture(&mut self, name: &str) -> Result<PathBuf> {
        let file = std::path::absolute(self.dir.join(format!("{name}.png")))?;
        let _ = write!(self.text, "\n![{name}]({name}.png)\n\n");
        Ok(file)
    }

    /// Shows what a program printed.
    pub fn output(&mut self, text: &str) {
        for line in text.trim_end().lines() {
            println!("          | {line}");
        }
        let _ = write!(self.text, "\n```\n{}\n```\n\n", text.trim_end());
    }

    /// Writes the page and returns its place.
    pub fn finish(&self) -> Result<PathBuf> {
        let file = self.dir.join("report.md");
        fs::write(&file, &self.text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A copy of the sources with changes woven in.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::c;
use crate::weave::{Change, Language, weave};
use crate::woven::Woven;

/// The file in a copy that names the other files of the copy.
const LIST: &str = ".tandem-mutants";

/// A copy of the sources. Its files are written only where their text differs, so that cargo and make build again only
/// what has changed since the last copy at this place.
pub struct Copy {
    from: PathBuf,
    to: PathBuf,
    changes: Vec<Change>,
    woven: BTreeMap<String, Woven>,
    /// Numbers of the changes that take a build of their own.
    alone: BTreeSet<usize>,
}

impl Copy {
    /// Copies `files` below `from`, with the changes in the order of their numbers, which begin with 1.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn new(from: &Path, files: &[String], to: &Path, changes: Vec<Change>) -> Result<Self> {
        let list = to.join(LIST);
        let before = fs::read_to_string(&list).unwrap_or_default();
        for gone in before
            .lines()
            .filter(|old| !files.iter().any(|file| file == old))
        {
            let _ = fs::remove_file(to.join(gone));
        }
        let mut copy = Self {
            from: from.to_owned(),
            to: to.to_owned(),
            changes,
            woven: BTreeMap::new(),
            alone: BTreeSet::new(),
        };
        let changed: BTreeSet<_> = copy.changes.iter().map(|change| &change.file).collect();
        for file in files.iter().filter(|file| !changed.contains(file)) {
            let mut bytes = fs::read(from.join(file)).with_context(|| file.clone())?;
            // The sources of the module, which get a file more.
            if let Some(dir) = file.strip_suffix("Kbuild")
                && files.contains(&format!("{dir}core/engine.c"))
            {
                bytes.extend(c::KBUILD.bytes());
                write(
                    &to.join(dir).join("core").join(c::HEADER),
                    c::header().as_bytes(),
                )?;
                write(
                    &to.join(dir).join("core").join(c::NUMBER),
                    c::number().as_bytes(),
                )?;
            }
            write(&to.join(file), &bytes)?;
        }
        let changed: Vec<String> = changed.into_iter().cloned().collect();
        for file in &changed {
            copy.weave(file)?;
        }
        write(&list, files.join("\n").as_bytes())?;
        Ok(copy)
    }

    /// Where the copy is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.to
    }

    /// The number of a change, if it is compiled in.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<usize> {
        let place = self.changes.iter().position(|change| change.name == name)?;
        let number = place + 1;
        (!self.alone.contains(&number)).then_some(number)
    }

    fn change(&self, number: usize) -> &Change {
        &self.changes[number - 1]
    }

    fn weave(&mut self, file: &str) -> Result<()> {
        let path = self.from.join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let numbered = (1..).zip(&self.changes);
        let of_file: Vec<_> = numbered
            .filter(|(number, change)| change.file == file && !self.alone.contains(number))
            .map(|(number, change)| (number, &change.edit))
            .collect();
        let woven = match Language::of(file) {
            Some(language) => weave(language, &text, &of_file),
            None => Woven::of_no_language(text, &of_file),
        };
        self.alone.extend(&woven.alone);
        write(&self.to.join(file), woven.text.as_bytes())?;
        self.woven.insert(file.to_owned(), woven);
        Ok(())
    }

    /// Puts one change into the copy, and no other into its file. [`Self::restore`] undoes that.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn plant(&self, name: &str) -> Result<()> {
        let change = self.changes.iter().find(|change| change.name == name);
        let change = change.with_context(|| format!("no change {name}"))?;
        let text = fs::read_to_string(self.from.join(&change.file))?;
        let text = change.edit.apply(&text, 0, text.len());
        write(&self.to.join(&change.file), text.as_bytes())
    }

    /// Undoes [`Self::plant`].
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn restore(&self, name: &str) -> Result<()> {
        let change = self.changes.iter().find(|change| change.name == name);
        let change = change.with_context(|| format!("no change {name}"))?;
        let woven = self.woven.get(&change.file).context("no such file")?;
        write(&self.to.join(&change.file), woven.text.as_bytes())
    }

    /// Takes the changes out of the copy that errors of a compiler are about, and returns their names. The compiler's
    /// errors are lines `FILE:LINE:COLUMN: error`.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn take_out(&mut self, said: &str) -> Result<Vec<String>> {
        let mut found = BTreeSet::new();
        for line in said.lines().filter(|line| line.contains(": error")) {
            let mut parts = line.split(':');
            let (Some(file), Some(Ok(line))) = (parts.next(), parts.next().map(str::parse)) else {
                continue;
            };
            let named = |(known, _): &(&String, &Woven)| Path::new(file).ends_with(known);
            let woven = self.woven.iter().find(named).map(|(_, woven)| woven);
            found.extend(woven.and_then(|woven| woven.change_at(line)));
        }
        let files: BTreeSet<_> = found
            .iter()
            .map(|number| self.change(*number).file.clone())
            .collect();
        self.alone.extend(&found);
        for file in files {
            self.weave(&file)?;
        }
        Ok(found
            .iter()
            .map(|number| self.change(*number).name.clone())
            .collect())
    }
}

/// Writes a file unless it has this text already.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::woven::Edit;

    const TEXT: &str = "const A: u8 = 1;\nfn f() -> u8 {\n    2\n}\nfn g() -> u8 {\n    3\n}\n";

    fn change(name: &str, old: &str, new: &str) -> Change {
        Change {
            name: name.to_owned(),
            file: "a.rs".to_owned(),
            edit: Edit::between(TEXT.find(old).unwrap(), old, new),
        }
    }

    #[test]
    fn a_copy_holds_what_builds_and_plants_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("a.rs"), TEXT).unwrap();
        fs::write(from.join("b"), "b").unwrap();
        let files = ["a.rs".to_owned(), "b".to_owned()];
        let changes = vec![
            change("constant", "1", "0"),
            change("one", "2", "x"),
            change("other", "3", "4"),
        ];
        let mut copy = Copy::new(&from, &files, &to, changes).unwrap();
        let text = || fs::read_to_string(to.join("a.rs")).unwrap();
        assert_eq!(copy.number("constant"), None);
        assert_eq!(
            (copy.number("one"), copy.number("other")),
            (Some(2), Some(3))
        );
        assert_eq!(fs::read_to_string(to.join("b")).unwrap(), "b");

        let line = text().lines().position(|line| line.contains('x')).unwrap() + 1;
        let said = format!(
            "warning: y\n{}:{line}:5: error[E0425]: x\n",
            to.join("a.rs").display()
        );
        assert_eq!(copy.take_out(&said).unwrap(), ["one"]);
        assert_eq!((copy.number("one"), copy.number("other")), (None, Some(3)));
        assert!(!text().contains('x') && text().contains("    4\n"));

        copy.plant("constant").unwrap();
        assert_eq!(text(), TEXT.replace("= 1", "= 0"));
        copy.restore("constant").unwrap();
        assert!(text().contains("    4\n"));

        Copy::new(&from, &files[..1], &to, Vec::new()).unwrap();
        assert_eq!(text(), TEXT);
        assert!(!to.join("b").exists());
    }
}

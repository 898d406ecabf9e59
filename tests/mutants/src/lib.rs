// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs seeded into a copy of the sources, to show that the tests find them.
//!
//! All bugs of a copy are compiled in one build. At run time a number chooses one of them: see [`SWITCH`] and
//! [`number_module`]. A bug outside of a function's body takes a build of its own.

mod bug;
mod c;
mod copy;
mod draw;

mod rust;
mod weave;
mod woven;

pub use bug::{Bug, all};
pub use copy::Copy;
pub use draw::{Drawn, enumerate, shuffled};

pub use weave::Change;
pub use woven::Edit;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Environment variable with the number of the bug that is chosen. Without it no bug is.
pub const SWITCH: &str = "TANDEM_MUTANT";

/// Writes a copy of a built kernel module in which the bug of this number is chosen. A kernel module has no environment,
/// and a test may load it several times without arguments, so that the number stands in the file.
///
/// # Errors
/// A file cannot be read or written, or the module was not built from a [`Copy`].
pub fn number_module(built: &Path, number: usize, to: &Path) -> Result<()> {
    let mut module = fs::read(built).with_context(|| built.display().to_string())?;
    let mark = c::MARK.as_bytes();
    let mut found = module.windows(mark.len()).enumerate();
    let place = found.find(|(_, bytes)| *bytes == mark).map(|(at, _)| at);
    let place = place.context("the module has no place for a number")? + mark.len();
    let number = u32::try_from(number)?.to_ne_bytes();
    ensure!(
        place + number.len() <= module.len(),
        "the module ends before its number"
    );
    module[place..place + number.len()].copy_from_slice(&number);
    fs::write(to, module).with_context(|| to.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_gets_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let (built, own) = (dir.path().join("built"), dir.path().join("own"));
        fs::write(&built, format!("x{}\0\0\0\0y", c::MARK)).unwrap();
        number_module(&built, 258, &own).unwrap();
        let number = 258_u32.to_ne_bytes();
        let wanted = [b"x", c::MARK.as_bytes(), &number, b"y"].concat();
        assert_eq!(fs::read(&own).unwrap(), wanted);
        fs::write(&built, "x").unwrap();
        assert!(number_module(&built, 1, &own).is_err());
    }
}

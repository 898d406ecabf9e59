// SPDX-License-Identifier: GPL-3.0-or-later
//! The result of a case that this kernel or guest cannot run.

use std::fmt;

/// Why a case was not run. A case returns it as its error; the suite prints it and counts it as neither passed nor failed.
#[derive(Debug)]
pub struct Skipped(String);

impl Skipped {
    /// An error that says what is missing.
    pub fn because(missing: impl Into<String>) -> anyhow::Error {
        Self(missing.into()).into()
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

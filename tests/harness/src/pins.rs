// SPDX-License-Identifier: GPL-3.0-or-later
//! The file with version and checksum of every package that is fetched from outside Debian 12's own suites.

use anyhow::{Context, Result};
use serde::Deserialize;

/// One pinned package.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Debian's name of the package.
    pub name: String,
    /// Suite that offers it, such as `bookworm-backports`.
    pub suite: String,
    /// Debian's version.
    pub version: String,
    /// SHA-256 of the .deb file, in hex.
    pub sha256: String,
    /// Packages that are used together, such as `qemu`.
    pub group: String,
    /// A package that depends on the current one, where the pinned name carries a version.
    pub newest: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    package: Vec<Pin>,
}

/// All pins, in the order of the file.
pub fn all() -> Result<Vec<Pin>> {
    let file: File = toml::from_str(include_str!("../pins.toml"))
        .context("tests/harness/pins.toml is not valid")?;
    Ok(file.package)
}

/// The pins of one group.
pub fn group(name: &str) -> Result<Vec<Pin>> {
    let pins: Vec<_> = all()?.into_iter().filter(|pin| pin.group == name).collect();
    anyhow::ensure!(
        !pins.is_empty(),
        "tests/harness/pins.toml names no package of the group {name}"
    );
    Ok(pins)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_pin_names_a_whole_checksum() {
        for pin in super::all().unwrap() {
            assert_eq!(pin.sha256.len(), 64, "{}", pin.name);
            assert!(
                pin.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{}",
                pin.name
            );
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Fetches Debian packages into the cache and unpacks them there, without installing anything.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::apt::Apt;
use crate::cx::{Cx, notice, say};
use crate::machine::Family;
use crate::pins::Pin;
use crate::{hash, run};

/// The .deb file of a pinned package, fetched unless the cache has it.
pub fn pinned(cx: &Cx, pin: &Pin) -> Result<PathBuf> {
    let debs = debs(cx)?;
    if let Some(file) = held(&debs, pin) {
        if file.file_stem().is_none_or(|sum| *sum != *pin.sha256) {
            notice(format!(
                "{} {} is no longer offered; using the newer package in the cache",
                pin.name, pin.version
            ));
        }
        return Ok(file);
    }
    let apt = Apt::open(cx, Family::of(&pin.suite)?)?;
    let mut versions = apt.versions(&pin.name, &pin.suite)?;
    if !versions.contains(&pin.version) {
        apt.update()?;
        versions = apt.versions(&pin.name, &pin.suite)?;
    }
    if versions.contains(&pin.version) {
        say(format!("fetching {} {}", pin.name, pin.version));
        let (stored, sum) = store(&apt, &debs, &pin.name, &pin.version)?;
        if sum != pin.sha256 {
            fs::remove_file(&stored)?;
            bail!(
                "{} {} has the checksum {sum}, tests/harness/pins.toml says {}",
                pin.name,
                pin.version,
                pin.sha256
            );
        }
        return Ok(stored);
    }
    let name = current_name(&apt, pin)?;
    let newest = apt.versions(&name, &pin.suite)?;
    let version = newest
        .first()
        .with_context(|| format!("{} offers no {name} at all", pin.suite))?;
    notice(format!(
        "{} {} is no longer offered; taking the signed {name} {version}",
        pin.name, pin.version
    ));
    let (stored, _) = store(&apt, &debs, &name, version)?;
    let stored_name = stored
        .file_name()
        .context("a stored package has a name")?
        .to_string_lossy()
        .into_owned();
    fs::write(replacement(&debs, pin), stored_name)?;
    Ok(stored)
}

/// The file that records which package replaced a vanished version, under the checksum of the pin.
fn replacement(debs: &Path, pin: &Pin) -> PathBuf {
    debs.join(format!("{}.replaced", pin.sha256))
}

/// The file of a pinned package, or of the package that replaced it, if the cache has it.
fn held(debs: &Path, pin: &Pin) -> Option<PathBuf> {
    let file = debs.join(format!("{}.deb", pin.sha256));
    if file.is_file() {
        return Some(file);
    }
    let name = fs::read_to_string(replacement(debs, pin)).ok()?;
    let other = debs.join(name.trim());
    other.is_file().then_some(other)
}

/// The .deb files of several pinned packages. Missing files are downloaded together, which is much faster.
pub fn all_pinned(cx: &Cx, pins: &[Pin]) -> Result<Vec<PathBuf>> {
    let debs = debs(cx)?;
    let missing: Vec<_> = pins
        .iter()
        .filter(|pin| held(&debs, pin).is_none())
        .collect();
    if missing.len() > 1 {
        say(format!("fetching {} packages", missing.len()));
        let work = debs.join(format!("partial-{}", std::process::id()));
        fs::create_dir_all(&work)?;
        let apt = Apt::open(cx, Family::of(&missing[0].suite)?)?;
        let offers = apt.offers(missing.iter().map(|pin| pin.name.as_str()))?;
        let is_offered = |pin: &Pin| {
            let mut offers = offers.iter();
            offers.any(|offer| {
                (&offer.name, &offer.version, &offer.suite) == (&pin.name, &pin.version, &pin.suite)
            })
        };
        // One package that is not offered would keep apt from fetching the others.
        let specs: Vec<_> = missing
            .iter()
            .filter(|pin| is_offered(pin))
            .map(|pin| format!("{}={}", pin.name, pin.version))
            .collect();
        let args = ["download"]
            .into_iter()
            .chain(specs.iter().map(String::as_str));
        // The rest is fetched below one by one, each with a reason or a replacement.
        let _ = run::output(apt.command("apt-get", args).current_dir(&work));
        for entry in fs::read_dir(&work)? {
            let file = entry?.path();
            let sum = hash::file(&file)?;
            if missing.iter().any(|pin| pin.sha256 == sum) {
                fs::rename(&file, debs.join(format!("{sum}.deb")))?;
            }
        }
        fs::remove_dir_all(&work)?;
    }
    pins.iter().map(|pin| pinned(cx, pin)).collect()
}

/// A key of packages, by the checksums that are their file names.
pub fn key(files: &[PathBuf]) -> String {
    let names = files
        .iter()
        .map(|file| file.file_name().unwrap_or_default().as_encoded_bytes());
    hash::key(names)
}

/// Packages unpacked together into one directory of the cache.
pub fn unpacked(cx: &Cx, kind: &str, files: &[PathBuf]) -> Result<PathBuf> {
    cx.cached(kind, &key(files), |dir| {
        files.iter().try_for_each(|file| unpack(file, dir))
    })
}

/// The newest package of Debian 12's own suites (with security updates), not pinned.
pub fn own(cx: &Cx, package: &str) -> Result<PathBuf> {
    let apt = Apt::open(cx, Family::Bookworm)?;
    let mut versions = Vec::new();
    for suite in ["bookworm-security", "bookworm-updates", "bookworm"] {
        versions.extend(apt.versions(package, suite)?);
    }
    let Some(version) = newest(versions)? else {
        bail!("Debian 12 offers no package {package}")
    };
    let debs = debs(cx)?;
    let pointer = debs.join(format!("{package}_{}.own", version.replace(':', "%3a")));
    if let Ok(name) = fs::read_to_string(&pointer) {
        let file = debs.join(name.trim());
        if file.is_file() {
            return Ok(file);
        }
    }
    say(format!("fetching {package} {version}"));
    let (stored, sum) = store(&apt, &debs, package, &version)?;
    fs::write(pointer, format!("{sum}.deb"))?;
    Ok(stored)
}

/// Unpacks one package over the files in `dir`.
pub fn unpack(deb: &Path, dir: &Path) -> Result<()> {
    run::output(run::cmd("dpkg-deb", ["-x"]).arg(deb).arg(dir)).map(drop)
}

fn debs(cx: &Cx) -> Result<PathBuf> {
    let dir = cx.cache.join("debs");
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Downloads a package and files it under its checksum.
fn store(apt: &Apt, debs: &Path, package: &str, version: &str) -> Result<(PathBuf, String)> {
    let work = debs.join(format!("partial-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    let result = apt.download(package, version, &work).and_then(|file| {
        let sum = hash::file(&file)?;
        let stored = debs.join(format!("{sum}.deb"));
        fs::rename(&file, &stored)?;
        Ok((stored, sum))
    });
    fs::remove_dir_all(&work)?;
    result
}

/// Today's name of a package whose pinned name contains a version that may be gone.
fn current_name(apt: &Apt, pin: &Pin) -> Result<String> {
    let Some(meta) = &pin.newest else {
        return Ok(pin.name.clone());
    };
    let shape = without_version(&pin.name);
    let found = apt
        .dependencies(&format!("{meta}/{}", pin.suite))?
        .into_iter()
        .find(|name| without_version(name) == shape);
    found.with_context(|| format!("{meta} leads to no successor of {}", pin.name))
}

/// A package name with each version-like word replaced: `linux-headers-6.12.95+deb12-amd64` to `linux-headers-N-amd64`.
fn without_version(name: &str) -> String {
    let word = |word: &str| {
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            "N"
        } else {
            word
        }
        .to_owned()
    };
    let mut words: Vec<_> = name.split('-').map(word).collect();
    words.dedup();
    words.join("-")
}

/// The highest of several versions in Debian's order.
fn newest(versions: Vec<String>) -> Result<Option<String>> {
    let mut best: Option<String> = None;
    for version in versions {
        let higher = match &best {
            None => true,
            Some(best) => run::cmd("dpkg", ["--compare-versions", &version, "gt", best])
                .status()
                .context("cannot start dpkg")?
                .success(),
        };
        if higher {
            best = Some(version);
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::without_version;

    #[test]
    fn successor_has_the_same_shape() {
        assert_eq!(
            without_version("linux-headers-6.1.0-50-amd64"),
            "linux-headers-N-amd64"
        );
        assert_eq!(
            without_version("linux-headers-6.12.95+deb12-amd64"),
            "linux-headers-N-amd64"
        );
        assert_ne!(
            without_version("linux-headers-6.1.0-50-common"),
            without_version("linux-headers-6.1.0-50-amd64")
        );
    }
}

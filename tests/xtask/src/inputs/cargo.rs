// SPDX-License-Identifier: GPL-3.0-or-later
//! What a layer's packages use of the two files that cargo reads for all packages.
//!
//! `Cargo.toml` at the top counts without the list of the workspace's packages: a layer names its own. `Cargo.lock`
//! counts with the entries that the layer's packages depend on.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

/// A package of the workspace and the name of a package outside that it depends on.
pub type Use = (String, String);

/// The workspace's manifest without the list of its packages.
pub fn manifest(text: &str) -> Result<String> {
    let mut manifest: toml::Table = toml::from_str(text).context("Cargo.toml")?;
    let workspace = manifest
        .get_mut("workspace")
        .and_then(toml::Value::as_table_mut)
        .context("Cargo.toml has no workspace")?;
    workspace
        .remove("members")
        .context("Cargo.toml lists no packages")?;
    Ok(toml::to_string(&manifest)?)
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
    /// Each is a name, followed by a version if the file has several versions of that name.
    #[serde(default)]
    dependencies: Vec<String>,
}

/// The entries of `Cargo.lock` that these uses lead to, a line each.
pub fn lock(text: &str, uses: &BTreeSet<Use>) -> Result<String> {
    let lock: Lock = toml::from_str(text).context("Cargo.lock")?;
    let mut by_name: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in &lock.package {
        by_name.entry(&entry.name).or_default().push(entry);
    }
    let entries_of = |dependency: &str| {
        let mut words = dependency.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next());
        let entries = by_name.get(name).into_iter().flatten().copied();
        let entries =
            entries.filter(|entry| version.is_none_or(|version| entry.version == version));
        let entries: Vec<_> = entries.collect();
        (!entries.is_empty())
            .then_some(entries)
            .with_context(|| format!("Cargo.lock has no {dependency}"))
    };
    let mut left = Vec::new();
    for (package, name) in uses {
        for entry in entries_of(package)? {
            let is_used =
                |dependency: &&String| dependency.split(' ').next() == Some(name.as_str());
            for dependency in entry.dependencies.iter().filter(is_used) {
                left.extend(entries_of(dependency)?);
            }
        }
    }
    let mut lines = BTreeSet::new();
    while let Some(entry) = left.pop() {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (source, checksum) = (text(&entry.source), text(&entry.checksum));
        if lines.insert(format!(
            "{} {} {source} {checksum}",
            entry.name, entry.version
        )) {
            for dependency in &entry.dependencies {
                left.extend(entries_of(dependency)?);
            }
        }
    }
    Ok(lines.into_iter().collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[workspace]\nmembers = [\"a\"]\n[profile.dev]\ndebug = false\n";

    #[test]
    fn a_new_package_changes_no_manifest_and_a_profile_does() {
        let of = |text: &str| manifest(text).unwrap();
        let more = MANIFEST.replace("[\"a\"]", "[\"a\", \"b\"]");
        assert_eq!(of(MANIFEST), of(&more));
        assert_ne!(of(MANIFEST), of(&MANIFEST.replace("false", "true")));
        manifest("[package]\nname = \"a\"\n").unwrap_err();
    }

    const LOCK: &str = r#"
[[package]]
name = "ours"
version = "0.1.0"
dependencies = ["near", "other 2.0.0"]

[[package]]
name = "near"
version = "1.0.0"
checksum = "11"
dependencies = ["far"]

[[package]]
name = "far"
version = "1.0.0"
checksum = "22"

[[package]]
name = "other"
version = "1.0.0"
checksum = "33"

[[package]]
name = "other"
version = "2.0.0"
checksum = "44"
"#;

    #[test]
    fn only_the_entries_that_a_package_leads_to_count() {
        let of = |text: &str, name: &str| {
            lock(
                text,
                &BTreeSet::from([("ours".to_owned(), name.to_owned())]),
            )
            .unwrap()
        };
        let same = |name, old: &str, new: &str| of(LOCK, name) == of(&LOCK.replace(old, new), name);
        assert!(!same("near", "11", "99") && !same("near", "22", "99"));
        assert!(same("near", "33", "99") && same("near", "44", "99"));
        assert!(same("other", "33", "99") && !same("other", "44", "99"));
        assert!(
            lock(
                LOCK,
                &BTreeSet::from([("gone".to_owned(), "near".to_owned())])
            )
            .is_err()
        );
    }
}

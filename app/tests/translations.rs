// SPDX-License-Identifier: GPL-3.0-or-later
//! The catalogues are complete: every sentence of the programs is in the template, German has all of them, and no
//! translation has lost or gained a value.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One sentence: its plural form, if it has one, and its translations.
#[derive(Debug, Default)]
struct Entry {
    plural: Option<String>,
    translations: Vec<String>,
    fuzzy: bool,
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Undoes what a quoted line of a catalogue or of a program escapes.
fn unescape(quoted: &str) -> String {
    quoted
        .replace("\\n", "\n")
        .replace("\\\"", "\"")
        .replace("\\\\", "\\")
}

fn german() -> BTreeMap<String, Entry> {
    entries(&fs::read_to_string(project().join("po/de.po")).unwrap())
}

/// The template, made from the sources as meson makes it.
fn template() -> BTreeMap<String, Entry> {
    let build = fs::read_to_string(project().join("po/meson.build")).unwrap();
    let (_, arguments) = build.split_once("args: [").unwrap();
    let (arguments, _) = arguments.split_once(']').unwrap();
    let made = Command::new("xgettext")
        .args(arguments.split('\'').skip(1).step_by(2))
        .args(["--output=-", "--files-from=-"])
        .current_dir(project())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .and_then(|mut xgettext| {
            let list = sources().join("\n");
            xgettext.stdin.take().unwrap().write_all(list.as_bytes())?;
            xgettext.wait_with_output()
        })
        .unwrap_or_else(|error| {
            panic!("xgettext, of the package gettext, makes the template: {error}")
        });
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    entries(&String::from_utf8(made.stdout).unwrap())
}

fn entries(text: &str) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    for block in text.split("\n\n") {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in block.lines().filter(|line| !line.starts_with('#')) {
            let Some((key, quoted)) = line.split_once('"') else {
                continue;
            };
            let part = unescape(quoted.strip_suffix('"').unwrap());
            match fields.last_mut() {
                Some((_, value)) if key.is_empty() => value.push_str(&part),
                _ => fields.push((key.trim().to_owned(), part)),
            }
        }
        let mut fields = fields.into_iter();
        let Some((_, id)) = fields
            .next()
            .filter(|(key, id)| key == "msgid" && !id.is_empty())
        else {
            continue;
        };
        let mut entry = Entry {
            fuzzy: block.contains("#, fuzzy"),
            ..Entry::default()
        };
        for (key, value) in fields {
            if key == "msgid_plural" {
                entry.plural = Some(value);
            } else {
                entry.translations.push(value);
            }
        }
        entries.insert(id, entry);
    }
    entries
}

/// The names in braces.
fn values(sentence: &str) -> BTreeSet<&str> {
    let after = sentence.split('{').skip(1);
    after
        .filter_map(|part| part.split_once('}').map(|(name, _)| name))
        .collect()
}

fn sources() -> Vec<String> {
    let list = fs::read_to_string(project().join("po/POTFILES")).unwrap();
    list.lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The sentences that a Rust source asks for.
fn asked(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for call in source.split("gettext(").skip(1) {
        let Some(start) = call.trim_start().strip_prefix('"') else {
            continue;
        };
        let mut end = 0;
        let bytes = start.as_bytes();
        while bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        found.push(unescape(&start[..end]));
    }
    found
}

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else {
            all.push(path);
        }
    }
}

#[test]
fn whatever_can_be_said_is_in_the_template() {
    let template = template();
    let listed: BTreeSet<String> = sources().into_iter().collect();
    let mut all = Vec::new();
    for folder in ["app/src", "app/tray/src", "helper/ctl/src", "words/src"] {
        files(&project().join(folder), &mut all);
    }
    for path in all {
        let text = fs::read_to_string(&path).unwrap();
        let name = path
            .strip_prefix(project())
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let speaks = match path.extension().and_then(|end| end.to_str()) {
            Some("rs") => {
                for sentence in asked(&text) {
                    assert!(
                        template.contains_key(&sentence),
                        "{name}: {sentence:?} is not in the template"
                    );
                }
                !asked(&text).is_empty()
            }
            Some("ui") => text.contains("translatable=\"yes\""),
            _ => false,
        };
        assert!(
            !speaks || listed.contains(&name),
            "{name} is not in POTFILES"
        );
    }
    for name in listed {
        assert!(
            project().join(&name).exists(),
            "POTFILES lists {name}, which is gone"
        );
    }
}

#[test]
fn german_says_all_of_it() {
    let template = template();
    let said_in_german = german();
    assert!(template.len() > 300, "the template was read");
    for (id, entry) in &template {
        let forms = if entry.plural.is_some() { 2 } else { 1 };
        let said = said_in_german
            .get(id)
            .unwrap_or_else(|| panic!("{id:?} is not in de.po"));
        assert_eq!(said.translations.len(), forms, "{id:?}");
        assert!(
            !said.fuzzy && said.translations.iter().all(|words| !words.is_empty()),
            "{id:?}"
        );
    }
    for id in said_in_german.keys() {
        assert!(template.contains_key(id), "de.po still has {id:?}");
    }
}

#[test]
fn no_sentence_loses_or_gains_a_value_a_key_or_an_end() {
    for (id, entry) in german() {
        for words in &entry.translations {
            assert_eq!(values(words), values(&id), "{id:?} became {words:?}");
            assert_eq!(
                words.matches('_').count(),
                id.matches('_').count(),
                "{id:?} became {words:?}"
            );
            for end in [".", "?", "…", ":"] {
                assert_eq!(
                    words.ends_with(end),
                    id.ends_with(end),
                    "{id:?} became {words:?}"
                );
            }
        }
    }
}

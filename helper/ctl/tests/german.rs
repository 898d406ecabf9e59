// SPDX-License-Identifier: GPL-3.0-or-later
//! The command line with the German catalogue, installed as a package does: `bin/` beside `share/locale/`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs the program and the catalogue. Returns the folder of both.
fn install(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let words = place.join("share/locale/de/LC_MESSAGES");
    fs::create_dir_all(&words).unwrap();
    fs::create_dir_all(place.join("bin")).unwrap();
    let program = place.join("bin/tandemctl");
    fs::copy(env!("CARGO_BIN_EXE_tandemctl"), program).unwrap();
    let made = Command::new("msgfmt")
        .arg("-o")
        .arg(words.join("tandem.mo"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../po/de.po"))
        .status();
    let made = made.expect("msgfmt, of the package gettext, compiles the catalogue");
    assert!(made.success());
    place
}

/// Standard output and error output of `program`. There is no system bus.
fn run(program: &Path, locale: &str, words: &[&str]) -> [String; 2] {
    let output = Command::new(program)
        .args(words)
        .env("LC_ALL", locale)
        .env("LANGUAGE", "de")
        .env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere")
        .output()
        .unwrap();
    [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
}

#[test]
fn people_are_told_in_german_and_programs_in_no_language() {
    let program = install("spoken").join("bin/tandemctl");
    let tandemctl = |locale, words: &[&str]| run(&program, locale, words);
    let [help, _] = tandemctl("C.UTF-8", &["--help"]);
    for part in ["Aufruf:", "Optionen:", "Caches und Festplatten auflisten"] {
        assert!(help.contains(part), "{part}: {help}");
    }
    let [_, refused] = tandemctl("C.UTF-8", &["status"]);
    assert!(
        refused.contains("antwortet nicht") || refused.contains("nicht geantwortet"),
        "{refused}"
    );
    let [json, _] = tandemctl("C.UTF-8", &["--json", "status"]);
    let [english, _] = tandemctl("C", &["--json", "status"]);
    assert!(json.contains("service-unavailable"), "{json}");
    assert_eq!(json, english);
    let [_, refused] = tandemctl("C", &["status"]);
    assert!(refused.contains("did not answer"), "{refused}");
}

#[test]
fn the_manual_is_german_too() {
    let place = install("pages");
    let catalogues = place.join("share/locale");
    let [folder, catalogues] = [&place, &catalogues].map(|path| path.to_str().unwrap());
    let pages = Path::new(env!("CARGO_BIN_EXE_tandemctl-pages"));
    let [_, wrong] = run(pages, "C.UTF-8", &[folder, catalogues]);
    assert_eq!(wrong, "");
    let page = |name: &str| fs::read_to_string(place.join(name)).unwrap();
    let whole = page("tandemctl.1");
    for part in [
        ".SH ÜBERSICHT",
        ".SH BEFEHLE",
        "Caches und Festplatten auflisten",
    ] {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    assert!(page("tandemctl-rescue-write-back.1").contains("Nicht fragen"));
}

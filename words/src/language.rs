// SPDX-License-Identifier: GPL-3.0-or-later
//! Finds the translations.

use std::path::{Path, PathBuf};

use gettextrs::{LocaleCategory, bind_textdomain_codeset, bindtextdomain, setlocale, textdomain};

/// Name of the catalogue.
const DOMAIN: &str = "tandem";

/// Where translations are installed. A program that was not built by meson looks beside itself: `bin/tandem` in
/// `share/locale`.
#[must_use]
pub fn directory() -> PathBuf {
    let beside = || {
        let program = std::env::current_exe().ok()?;
        Some(program.parent()?.parent()?.join("share/locale"))
    };
    option_env!("TANDEM_LOCALEDIR")
        .map(PathBuf::from)
        .or_else(beside)
        .unwrap_or_else(|| PathBuf::from("/usr/share/locale"))
}

/// Sets the language of the environment, with catalogues from `directory`; English if there is no catalogue. GTK itself
/// sets the locale when it starts.
///
/// # Errors
/// There is no memory to set the catalogue.
pub fn init(directory: &Path) -> std::io::Result<()> {
    bindtextdomain(DOMAIN, directory)?;
    bind_textdomain_codeset(DOMAIN, "UTF-8")?;
    textdomain(DOMAIN)?;
    Ok(())
}

/// The same for a program without GTK, and with the installed catalogues.
///
/// # Safety
/// No other thread runs yet that could read the locale.
///
/// # Errors
/// As [`init`].
pub unsafe fn init_with_locale() -> std::io::Result<()> {
    // SAFETY: as the caller promises.
    unsafe { setlocale(LocaleCategory::LcAll, "") };
    init(&directory())
}

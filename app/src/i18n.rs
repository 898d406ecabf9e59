// SPDX-License-Identifier: GPL-3.0-or-later
//! Finds the translations.

use std::path::Path;

use gettextrs::{bind_textdomain_codeset, bindtextdomain, textdomain};

/// Name of the catalogue.
pub const DOMAIN: &str = "tandem";

/// Where translations are installed.
pub const LOCALE_DIR: &str = match option_env!("TANDEM_LOCALEDIR") {
    Some(directory) => directory,
    None => "/usr/share/locale",
};

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

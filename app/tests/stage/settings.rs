// SPDX-License-Identifier: GPL-3.0-or-later
//! Settings that last as long as the process.

use std::path::PathBuf;
use std::process::Command;

use tandem_app::application::APP_ID;

use tandem_stage::machine::project;

/// The schema of the settings, as an installation compiles it. Its folder is deleted when this value is dropped.
pub struct Settings(PathBuf);

impl Settings {
    /// Makes the application of this process find its settings. To be called before GTK looks for them.
    ///
    /// # Panics
    /// If the schema is wrong.
    pub fn install() -> Self {
        let folder = std::env::temp_dir().join(format!("tandem-schemas-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder is new");
        let schema = project().join(format!("data/glib-2.0/{APP_ID}.gschema.xml"));
        std::fs::copy(schema, folder.join("tandem.gschema.xml")).expect("the schema is there");
        let compiled = Command::new("glib-compile-schemas")
            .arg("--strict")
            .arg(&folder)
            .status();
        assert!(compiled.expect("the compiler is installed").success());
        // SAFETY: no thread has been started in this process that reads the environment.
        unsafe {
            std::env::set_var("GSETTINGS_SCHEMA_DIR", &folder);
            std::env::set_var("GSETTINGS_BACKEND", "memory");
        }
        Self(folder)
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

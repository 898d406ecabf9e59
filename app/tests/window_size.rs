// SPDX-License-Identifier: GPL-3.0-or-later
//! The window has the size that it had when it was closed.

#![allow(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod stage;

use std::process::Command;

use adw::prelude::*;
use tandem_app::widgets::window::Window;
use tandem_app::{application, application::APP_ID};

#[gtk::test]
fn the_size_of_the_window_is_kept() {
    let folder = std::env::temp_dir().join(format!("tandem-schemas-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let schema = stage::machine::project().join(format!("data/glib-2.0/{APP_ID}.gschema.xml"));
    std::fs::copy(schema, folder.join("tandem.gschema.xml")).unwrap();
    let compiled = Command::new("glib-compile-schemas")
        .arg("--strict")
        .arg(&folder)
        .status();
    assert!(compiled.unwrap().success());
    // SAFETY: no other thread of this process reads the environment yet.
    unsafe {
        std::env::set_var("GSETTINGS_SCHEMA_DIR", &folder);
        std::env::set_var("GSETTINGS_BACKEND", "memory");
        std::env::set_var("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent");
    }
    application::register_resources().unwrap();
    let application = application::application();
    application.set_flags(gtk::gio::ApplicationFlags::NON_UNIQUE);
    application.register(gtk::gio::Cancellable::NONE).unwrap();
    let window = Window::new(&application);
    assert_eq!(window.default_size(), (780, 860));
    window.set_default_size(640, 700);
    window.close();
    let again = Window::new(&application);
    assert_eq!(again.default_size(), (640, 700));
    std::fs::remove_dir_all(&folder).unwrap();
}

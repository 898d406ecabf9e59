// SPDX-License-Identifier: GPL-3.0-or-later
//! The window has the size that it had when it was closed.

#![allow(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod stage;

use adw::prelude::*;
use stage::settings::Settings;
use tandem_app::application;
use tandem_app::widgets::window::Window;

#[gtk::test]
fn the_size_of_the_window_is_kept() {
    let _settings = Settings::install();
    // SAFETY: no other thread of this process reads the environment yet.
    unsafe {
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
}

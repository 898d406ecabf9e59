// SPDX-License-Identifier: GPL-3.0-or-later
//! The window on a computer without a system bus.
//!
//! One test, because a process has one application and one environment.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use gtk::prelude::*;
use stage::hand;
use tandem_app::application;
use tandem_app::widgets::window::Window;

#[gtk::test]
async fn the_page_says_that_there_is_no_system_bus() {
    // SAFETY: no thread has been started in this process that reads the environment.
    unsafe {
        std::env::set_var("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus");
    }
    application::register_resources().unwrap();
    let application = application::application();
    application.set_flags(gtk::gio::ApplicationFlags::NON_UNIQUE);
    application.register(gtk::gio::Cancellable::NONE).unwrap();
    let window = Window::new(&application);
    window.present();
    for _ in 0..2 {
        hand::wait(&window, "No System Bus", || {
            let words = hand::words(&window);
            (words.contains("No System Bus") && !words.contains("install")).then_some(())
        })
        .await;
        hand::button(&window, "Try Again").unwrap().emit_clicked();
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The application: its one window, the about window, the shortcuts.

use adw::prelude::*;
use gettextrs::gettext;
use gtk::gio;

use crate::widgets::window::Window;

/// Id of the application, its desktop file, its icon and its metainfo.
pub const APP_ID: &str = "org.tandemcache.Tandem";

/// Registers the style and the icons. To be called once, before a window is shown.
///
/// # Errors
/// The resources in the program are damaged.
pub fn register_resources() -> Result<(), gtk::glib::Error> {
    let bytes = gtk::glib::Bytes::from_static(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/tandem.gresource"
    )));
    gio::resources_register(&gio::Resource::from_data(&bytes)?);
    Ok(())
}

/// The application.
#[must_use]
pub fn application() -> adw::Application {
    let application = adw::Application::builder()
        .application_id(APP_ID)
        .resource_base_path("/org/tandemcache/Tandem")
        .build();
    application.connect_activate(|application| {
        let window = application
            .active_window()
            .unwrap_or_else(|| Window::new(application).upcast());
        window.present();
    });
    application.add_action_entries([
        gio::ActionEntry::builder("quit")
            .activate(|application: &adw::Application, _, _| {
                for window in application.windows() {
                    window.close();
                }
            })
            .build(),
        gio::ActionEntry::builder("about")
            .activate(|application: &adw::Application, _, _| show_about(application))
            .build(),
    ]);
    application.set_accels_for_action("app.quit", &["<primary>q"]);
    application.set_accels_for_action("win.set-up", &["<primary>n"]);
    application.set_accels_for_action("win.show-overview", &["<alt>Left"]);
    application.set_accels_for_action("win.show-help-overlay", &["<primary>question"]);
    application
}

fn show_about(application: &adw::Application) {
    let about = adw::AboutWindow::builder()
        .application_name("Tandem")
        .application_icon(APP_ID)
        .version(env!("CARGO_PKG_VERSION"))
        .comments(gettext(
            "Speed up a hard disk with a spare SSD. Your data stays where it is.",
        ))
        .license_type(gtk::License::Gpl30)
        // Translators: put your names here, one a line
        .translator_credits(gettext("translator-credits"))
        .modal(true)
        .build();
    about.set_transient_for(application.active_window().as_ref());
    about.present();
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The application: its one window, the about window, the shortcuts.

use adw::prelude::*;
use gettextrs::gettext;
use gtk::gio;

use crate::a11y;
use crate::widgets::window::Window;

/// Id of the application, its desktop file, its icon and its metainfo.
pub const APP_ID: &str = "org.tandemcache.Tandem";

/// Address of the project. The metainfo has the same one, and names no other place for reports of errors.
const HOMEPAGE: &str = "https://tandemcache.org";

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
    application.set_accels_for_action("win.show-help-overlay", &["<primary>question", "F1"]);
    application.set_accels_for_action("window.close", &["<primary>w"]);
    application
}

/// Facts for a report of a fault; in English, because those who read such reports need not know the user's language.
fn debug_info(application: &adw::Application) -> String {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| "unknown".to_owned());
    let mut lines = vec![
        format!("Tandem {}", env!("CARGO_PKG_VERSION")),
        format!(
            "GTK {}.{}.{}",
            gtk::major_version(),
            gtk::minor_version(),
            gtk::micro_version()
        ),
        format!(
            "libadwaita {}.{}.{}",
            adw::major_version(),
            adw::minor_version(),
            adw::micro_version()
        ),
        format!("Desktop: {}", variable("XDG_CURRENT_DESKTOP")),
        format!("Session: {}", variable("XDG_SESSION_TYPE")),
        format!("Language: {}", variable("LANG")),
    ];
    let windows = application.windows().into_iter();
    if let Some(window) = windows
        .filter_map(|window| window.downcast::<Window>().ok())
        .next()
    {
        lines.extend(window.debug_lines());
    }
    lines.join("\n")
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
        .website(HOMEPAGE)
        .issue_url(HOMEPAGE)
        .debug_info(debug_info(application))
        .debug_info_filename("tandem-debug-info.txt")
        // Translators: put your names here, one a line
        .translator_credits(gettext("translator-credits"))
        .modal(true)
        .build();
    about.set_transient_for(application.active_window().as_ref());
    a11y::name_by_labels(&about);
    about.present();
}

#[cfg(test)]
mod tests {
    use super::HOMEPAGE;

    #[test]
    fn the_about_window_names_the_address_of_the_metainfo() {
        let metainfo = include_str!("../../data/metainfo/org.tandemcache.Tandem.metainfo.xml");
        let address = |kind| {
            let (_, after) = metainfo.split_once(&format!("<url type=\"{kind}\">"))?;
            after.split_once("</url>").map(|(address, _)| address)
        };
        assert_eq!(address("homepage"), Some(HOMEPAGE));
        assert_eq!(
            address("bugtracker"),
            None,
            "reports go there, and no longer to the homepage"
        );
    }
}

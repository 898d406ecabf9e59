// SPDX-License-Identifier: GPL-3.0-or-later
//! Goes through every page and dialog as the pictures do, and looks at each: has each control a name, and is each text
//! strong enough?

mod contrast;
mod names;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use adw::prelude::*;
use gtk::{gdk, glib};
use names::Names;
use tandem_app::application;
use tandem_stage::bus;
use tandem_stage::machine::Machine;

use crate::stage::hand;
use crate::tour;

/// An error ends the walk.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The fewest texts and controls of a whole walk: with fewer, the walk did not look.
const FEWEST: usize = 500;

/// Looks at windows that have come to rest.
pub struct Camera {
    /// How wide a window is, in pixels.
    pub width: i32,
    /// None in high contrast, where the names are the same.
    names: Option<Names>,
    /// The faults: a line each, and each line once however often it is seen.
    found: RefCell<BTreeSet<String>>,
    controls: Cell<usize>,
    texts: Cell<usize>,
}

impl Camera {
    /// Looks at a window that has come to rest.
    pub async fn take(&self, window: &impl IsA<gtk::Window>, name: &str) -> Result {
        let window = window.upcast_ref::<gtk::Window>();
        glib::timeout_future(Duration::from_millis(200)).await;
        if let Some(names) = &self.names {
            let (controls, unnamed) = names.look().await?;
            self.controls.set(self.controls.get() + controls);
            self.found.borrow_mut().extend(unnamed);
        }
        for (scheme, called) in [
            (adw::ColorScheme::ForceLight, "light"),
            (adw::ColorScheme::ForceDark, "dark"),
        ] {
            adw::StyleManager::default().set_color_scheme(scheme);
            glib::timeout_future(Duration::from_millis(60)).await;
            let (texts, faint) = contrast::look(window).await?;
            self.texts.set(self.texts.get() + texts);
            let faults = faint.into_iter();
            let faults = faults.map(|fault| format!("{fault}, {called}, in {name}"));
            self.found.borrow_mut().extend(faults);
        }
        Ok(())
    }

    /// A picture for other programs, which is on white whatever the desktop looks like.
    #[allow(clippy::unused_self, reason = "the camera of the pictures keeps it")]
    pub fn keep(&self, texture: &gdk::Texture, name: &str) -> Result {
        if texture.width() > 0 {
            Ok(())
        } else {
            Err(format!("{name} is empty").into())
        }
    }
}

/// Goes the whole way and fails with all that is wrong.
///
/// # Panics
/// If something is wrong, or the walk cannot go on.
pub async fn every_page(high_contrast: bool) {
    let machine = Machine::start();
    let (_bus, accessibility) = bus::start();
    let names = if high_contrast {
        None
    } else {
        let names = Names::connect(&accessibility).await;
        Some(names.expect("the bus answers"))
    };
    // SAFETY: no thread has been started in this process that reads the environment.
    unsafe {
        std::env::set_var("DBUS_SYSTEM_BUS_ADDRESS", &machine.address);
        let own = std::env::temp_dir().join(format!("tandem-walk-{}", std::process::id()));
        std::env::set_var("XDG_DATA_HOME", own);
        if high_contrast {
            std::env::set_var("ADW_DEBUG_HIGH_CONTRAST", "1");
            std::env::set_var("GTK_A11Y", "test");
        } else {
            std::env::set_var("AT_SPI_BUS_ADDRESS", &accessibility);
            std::env::set_var("GTK_A11Y", "atspi");
        }
    }
    application::register_resources().expect("resources are sound");
    let application = application::application();
    application.set_flags(gtk::gio::ApplicationFlags::NON_UNIQUE);
    application
        .register(gtk::gio::Cancellable::NONE)
        .expect("nobody else has its name");
    let settings = gtk::Settings::default().expect("there is a display");
    settings.set_gtk_enable_animations(false);
    settings.set_gtk_font_name(Some("Cantarell 11"));
    assert_eq!(
        adw::StyleManager::default().is_high_contrast(),
        high_contrast
    );
    let camera = Camera {
        width: 780,
        names,
        found: RefCell::default(),
        controls: Cell::default(),
        texts: Cell::default(),
    };
    let walked = tour::tour(&application, &camera).await;
    let found: Vec<_> = camera.found.take().into_iter().collect();
    assert!(
        found.is_empty(),
        "{} faults:\n{}",
        found.len(),
        found.join("\n")
    );
    walked.expect("the walk goes to its end");
    let (controls, texts) = (camera.controls.get(), camera.texts.get());
    let named = camera.names.is_none() || controls > FEWEST;
    assert!(
        named && texts > FEWEST,
        "{controls} controls, {texts} texts"
    );
}

/// Everything below `root` that is on the screen.
fn shown(root: &impl IsA<gtk::Widget>) -> Vec<gtk::Widget> {
    hand::shown(root)
}

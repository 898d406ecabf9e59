// SPDX-License-Identifier: GPL-3.0-or-later
//! Takes pictures of every page on a simulated machine: light, dark, narrow, with large text, and in German.
//!
//! `cargo run -p tandem --example screenshots -- FOLDER [VARIANT...]`; `tandem-helper` has to be built before. Starts a
//! screen of its own where there is none. Each variant runs in a process of its own, with a simulated machine of its
//! own. German variants need `LOCPATH` to name a folder with the locale `de_DE.UTF-8` where the system does not have
//! this locale.

mod advice;
mod cache;
mod camera;
mod living;
mod module;
mod next_start;
mod past;
mod set_up;
mod share;
mod speed;
#[path = "../../tests/stage/mod.rs"]
mod stage;
mod trouble;
mod write_back;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use adw::prelude::*;
use camera::Camera;
use gettextrs::gettext;
use gtk::glib;
use stage::hand;
use tandem_api::SimulationProxy;
use tandem_app::widgets::window::Window;
use tandem_app::{application, i18n};

/// An error is printed and ends the program.
type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Locale without a translation.
const ENGLISH: &str = "C.UTF-8";
/// German locale, with a decimal comma.
const GERMAN: &str = "de_DE.UTF-8";

/// Name, locale, width, dark, scale of the text.
const VARIANTS: [(&str, &str, i32, bool, f64); 7] = [
    ("light", ENGLISH, 780, false, 1.0),
    ("dark", ENGLISH, 780, true, 1.0),
    ("narrow", ENGLISH, 360, false, 1.0),
    ("german", GERMAN, 780, false, 1.0),
    ("german-narrow", GERMAN, 360, false, 1.0),
    ("large", ENGLISH, 780, false, 1.6),
    ("german-narrow-large-dark", GERMAN, 360, true, 1.3),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(folder) = arguments.next().map(PathBuf::from) else {
        eprintln!("usage: screenshots FOLDER [VARIANT...]");
        return ExitCode::FAILURE;
    };
    let taken = if let Some(name) = std::env::var_os("TANDEM_SCREENSHOT_VARIANT") {
        take(&folder, &name.to_string_lossy())
    } else {
        let wanted: Vec<_> = arguments
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        take_all(&folder, &wanted)
    };
    match taken {
        Ok(code) => code,
        Err(error) => {
            eprintln!("screenshots: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Takes the pictures of the wanted variants, or of all if none is named.
fn take_all(folder: &Path, wanted: &[String]) -> Result<ExitCode> {
    if let Some(unknown) = wanted
        .iter()
        .find(|wanted| !VARIANTS.iter().any(|(name, ..)| name == wanted))
    {
        return Err(format!("there is no variant {unknown}").into());
    }
    std::fs::create_dir_all(folder)?;
    translate(folder)?;
    let screen = stage::screen();
    let mut failed = false;
    for (name, locale, ..) in VARIANTS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let machine = stage::machine::Machine::start();
        let mut picture = Command::new(std::env::current_exe()?);
        picture
            .arg(folder)
            .env("TANDEM_SCREENSHOT_VARIANT", name)
            .env("DBUS_SYSTEM_BUS_ADDRESS", &machine.address)
            .env("GSK_RENDERER", "cairo")
            .env("GTK_A11Y", "test")
            .env("XDG_DATA_HOME", folder.join("data"))
            .env("LC_ALL", locale)
            .env_remove("LANGUAGE");
        if let Some((_, _, display)) = &screen {
            picture.env("DISPLAY", display).env("GDK_BACKEND", "x11");
        }
        let status = picture.status()?;
        println!("{name}: {status}");
        failed |= !status.success();
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Compiles the German catalogue, as an installation would.
fn translate(folder: &Path) -> Result {
    let catalogue = folder.join("locale/de/LC_MESSAGES");
    std::fs::create_dir_all(&catalogue)?;
    let source = stage::machine::project().join("po/de.po");
    let status = Command::new("msgfmt")
        .arg("-o")
        .arg(catalogue.join("tandem.mo"))
        .arg(source)
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err("msgfmt does not compile po/de.po".into())
    }
}

/// Whether numbers are written here as in this locale.
fn numbers_are_of(locale: &str) -> bool {
    let comma = tandem_app::display::bytes(1_300_000_000).contains("1,3");
    comma == (locale == GERMAN)
}

fn take(folder: &Path, name: &str) -> Result<ExitCode> {
    let (_, locale, width, dark, scale) = *VARIANTS
        .iter()
        .find(|variant| variant.0 == name)
        .ok_or("an unknown variant")?;
    // Without this hook, a panic in a future would leave the main loop running for ever.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(101);
    }));
    i18n::init(&folder.join("locale"))?;
    application::register_resources()?;
    let application = application::application();
    application.set_flags(gtk::gio::ApplicationFlags::NON_UNIQUE);
    let folder = folder.join(name);
    std::fs::create_dir_all(&folder)?;
    application.connect_startup(move |_| {
        let scheme = if dark {
            adw::ColorScheme::ForceDark
        } else {
            adw::ColorScheme::ForceLight
        };
        adw::StyleManager::default().set_color_scheme(scheme);
        if let Some(settings) = gtk::Settings::default() {
            settings.set_gtk_enable_animations(false);
            settings.set_gtk_font_name(Some("Cantarell 11"));
            settings.set_gtk_icon_theme_name(Some("Adwaita"));
            settings.set_gtk_xft_dpi((96.0 * 1024.0 * scale) as i32);
            settings.set_gtk_xft_antialias(1);
            settings.set_gtk_xft_hinting(1);
            settings.set_gtk_xft_hintstyle(Some("hintslight"));
        }
    });
    application.connect_activate(move |application| {
        let (application, folder) = (application.clone(), folder.clone());
        glib::spawn_future_local(async move {
            let camera = Camera {
                folder,
                width,
                scale,
            };
            let shown = if numbers_are_of(locale) {
                tour(&application, camera).await
            } else {
                Err(format!("the locale {locale} is missing").into())
            };
            if let Err(error) = shown {
                eprintln!("screenshots: {error}");
                // Windows that are still open would keep the main loop running.
                std::process::exit(1);
            }
            application.quit();
        });
    });
    let code = application.run_with_args::<&str>(&[]);
    Ok(if code == glib::ExitCode::SUCCESS {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn tour(application: &adw::Application, camera: Camera) -> Result {
    let bus = zbus::Connection::system().await?;
    let levers = SimulationProxy::new(&bus).await?;
    let window = Window::new(application);
    window.set_default_size(camera.width, if camera.width < 600 { 720 } else { 860 });
    window.present();
    let set_up = gettext("Set Up a Cache…");
    hand::wait(&window, &set_up, || hand::button(&window, &set_up)).await;
    camera.take(&window, "01-overview-empty").await?;
    advice::tour(application, &window, &camera, &levers, &bus).await?;
    set_up::tour(application, &window, &camera, &levers).await?;
    let window = cache::tour(application, window, &camera, &levers).await?;
    share::tour(application, &window, &camera, &levers, &bus).await?;
    write_back::tour(application, &window, &camera, &levers).await?;
    next_start::tour(application, &window, &camera).await?;
    module::tour(application, &window, &camera, &levers, &bus).await?;
    trouble::tour(application, &window, &camera, &levers).await
}

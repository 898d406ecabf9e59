// SPDX-License-Identifier: GPL-3.0-or-later
//! Takes pictures of every page on a simulated machine: light, dark, in high contrast, mirrored, narrow,
//! with large text, and in German.
//!
//! `cargo run -p tandem --example screenshots -- FOLDER [VARIANT...]`; `tandem-helper` has to be built before. Starts a
//! screen of its own where there is none. Each variant runs in a process of its own, with a simulated machine of its
//! own. German variants need `LOCPATH` to name a folder with the locale `de_DE.UTF-8` where the system does not have
//! this locale.

mod camera;
#[path = "../../tests/stage/mod.rs"]
mod stage;
#[path = "tour.rs"]
mod tour;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use adw::prelude::*;
use camera::Camera;
use gtk::glib;
use tandem_app::application;
use tandem_words::language;

/// An error is printed and ends the program.
type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Locale without a translation.
const ENGLISH: &str = "C.UTF-8";
/// German locale, with a decimal comma.
const GERMAN: &str = "de_DE.UTF-8";

/// How the pictures of one folder differ from those of the others.
struct Variant {
    name: &'static str,
    locale: &'static str,
    width: i32,
    dark: bool,
    high_contrast: bool,
    /// As in a language that is written from right to left. There is no such translation yet.
    mirrored: bool,
    /// Size of the text, 1 as usual.
    scale: f64,
}

/// The pictures that the others differ from.
const LIGHT: Variant = Variant {
    name: "light",
    locale: ENGLISH,
    width: 780,
    dark: false,
    high_contrast: false,
    mirrored: false,
    scale: 1.0,
};

const VARIANTS: [Variant; 10] = [
    LIGHT,
    Variant {
        name: "dark",
        dark: true,
        ..LIGHT
    },
    Variant {
        name: "high-contrast",
        high_contrast: true,
        ..LIGHT
    },
    Variant {
        name: "high-contrast-dark",
        high_contrast: true,
        dark: true,
        ..LIGHT
    },
    Variant {
        name: "rtl",
        mirrored: true,
        ..LIGHT
    },
    Variant {
        name: "narrow",
        width: 360,
        ..LIGHT
    },
    Variant {
        name: "german",
        locale: GERMAN,
        ..LIGHT
    },
    Variant {
        name: "german-narrow",
        locale: GERMAN,
        width: 360,
        ..LIGHT
    },
    Variant {
        name: "large",
        scale: 1.6,
        ..LIGHT
    },
    Variant {
        name: "german-narrow-large-dark",
        locale: GERMAN,
        width: 360,
        dark: true,
        scale: 1.3,
        ..LIGHT
    },
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
        .find(|wanted| !VARIANTS.iter().any(|variant| variant.name == *wanted))
    {
        return Err(format!("there is no variant {unknown}").into());
    }
    std::fs::create_dir_all(folder)?;
    translate(folder)?;
    let screen = stage::screen();
    let mut failed = false;
    for Variant {
        name,
        locale,
        high_contrast,
        ..
    } in VARIANTS
    {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let machine = tandem_stage::machine::Machine::start();
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
        if high_contrast {
            // Without a desktop, libadwaita 1.2 reads this variable.
            picture.env("ADW_DEBUG_HIGH_CONTRAST", "1");
        }
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
    let source = tandem_stage::machine::project().join("po/de.po");
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
    let comma = glib::format_size(1_300_000_000).contains("1,3");
    comma == (locale == GERMAN)
}

fn take(folder: &Path, name: &str) -> Result<ExitCode> {
    let Variant {
        locale,
        width,
        dark,
        mirrored,
        scale,
        ..
    } = *VARIANTS
        .iter()
        .find(|variant| variant.name == name)
        .ok_or("an unknown variant")?;
    // Without this hook, a panic in a future would leave the main loop running for ever.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(101);
    }));
    language::init(&folder.join("locale"))?;
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
        if mirrored {
            gtk::Widget::set_default_direction(gtk::TextDirection::Rtl);
        }
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
                tour::tour(&application, &camera).await
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

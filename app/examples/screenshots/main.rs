// SPDX-License-Identifier: GPL-3.0-or-later
//! Takes pictures of every page on a simulated machine: light, dark, narrow, with large text, and in German.
//!
//! `cargo run -p tandem --example screenshots -- FOLDER [VARIANT...]`; `tandem-helper` has to be built before. Starts a
//! screen of its own where there is none. Each variant runs in a process of its own, with a simulated machine of its
//! own. German variants need `LOCPATH` to name a folder with the locale `de_DE.UTF-8` where the system does not have
//! this locale.

mod module;
#[path = "../../tests/stage/mod.rs"]
mod stage;
mod write_back;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use stage::hand;
use tandem_api::{CacheState, Failure, FileUser, Kind, SimulationProxy, StepKind};
use tandem_app::display::{SYSTEM_BUS, fill, mode_name};
use tandem_app::model::inventory::Snapshot;
use tandem_app::model::objects::CacheObject;
use tandem_app::model::store::Store;
use tandem_app::widgets::cache_row::CacheRow;
use tandem_app::widgets::overview::Overview;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;
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

struct Camera {
    folder: PathBuf,
    width: i32,
    scale: f64,
}

impl Camera {
    /// Takes a picture of a window that has come to rest, or of its whole scrolled content if `whole`.
    async fn take(&self, window: &impl IsA<gtk::Window>, name: &str) -> Result {
        let window = window.upcast_ref::<gtk::Window>();
        glib::timeout_future(Duration::from_millis(350)).await;
        // With larger text a window may have to be wider.
        let room = (f64::from(self.width) * self.scale) as i32;
        hand::wait(window, "narrow window", || {
            (window.width() <= room).then_some(())
        })
        .await;
        let paintable = gtk::WidgetPaintable::new(Some(window));
        let node = loop {
            let (width, height) = (paintable.intrinsic_width(), paintable.intrinsic_height());
            let snapshot = gtk::Snapshot::new();
            paintable.snapshot(&snapshot, f64::from(width), f64::from(height));
            // A window that was just resized is empty until its next frame.
            if let Some(node) = snapshot.to_node() {
                break node;
            }
            glib::timeout_future(Duration::from_millis(50)).await;
        };
        let texture = window
            .renderer()
            .ok_or("a window that is not there yet")?
            .render_texture(&node, None);
        texture.save_to_png(self.folder.join(format!("{name}.png")))?;
        Ok(())
    }
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

    window.set_up(None);
    let dialog: Wizard = hand::window(application).await;
    dialog.set_default_size(camera.width.min(640), 720);
    let next = gettext("_Next");
    camera.take(&dialog, "02-wizard-disk").await?;
    hand::choose(&dialog, "Archive").await;
    hand::press(&dialog, &next).await;
    glib::timeout_future(Duration::from_millis(300)).await;
    hand::choose(&dialog, &free_space()).await;
    camera.take(&dialog, "68-wizard-ssd-shared").await?;
    hand::choose(&dialog, "CT500MX500SSD1").await;
    camera.take(&dialog, "03-wizard-ssd").await?;
    hand::press(&dialog, &next).await;
    hand::wait(&dialog, "mode", || {
        hand::row(&dialog, &mode_name(tandem_api::Mode::Writearound))
    })
    .await;
    camera.take(&dialog, "04-wizard-mode").await?;
    hand::press(&dialog, &next).await;
    hand::choose(&dialog, &gettext("I have a backup")).await;
    camera.take(&dialog, "05-wizard-backup").await?;

    levers.set_step_time(900).await?;
    hand::press(&dialog, &next).await;
    glib::timeout_future(Duration::from_millis(1200)).await;
    camera.take(&dialog, "06-wizard-summary").await?;
    let begin = primary(&dialog);
    levers.set_authorized(false).await?;
    hand::press(&dialog, &begin).await;
    hand::wait(&dialog, "refusal", || {
        hand::button(&dialog, &gettext("_Try Again"))
    })
    .await;
    camera.take(&dialog, "07-wizard-refused").await?;
    levers.set_authorized(true).await?;
    hand::press(&dialog, &gettext("_Try Again")).await;

    levers.fail_next(StepKind::Map).await?;
    hand::press(&dialog, &begin).await;
    hand::wait(&dialog, "failure", || {
        hand::button(&dialog, &gettext("_Try Again")).filter(WidgetExt::is_sensitive)
    })
    .await;
    camera.take(&dialog, "08-wizard-failed").await?;
    if let Some(expander) = hand::shown(&dialog)
        .into_iter()
        .find_map(|widget| widget.downcast::<gtk::Expander>().ok())
    {
        expander.set_expanded(true);
    }
    camera.take(&dialog, "09-wizard-failed-details").await?;
    hand::press(&dialog, &gettext("_Try Again")).await;
    // The data that was erased before the failure does not come back, so that there is nothing to erase now.
    hand::press(&dialog, &gettext("_Set Up the Cache")).await;
    hand::wait(&dialog, "progress", || {
        hand::button(&dialog, &gettext("_Cancel"))
    })
    .await;
    glib::timeout_future(Duration::from_millis(1200)).await;
    camera.take(&dialog, "10-wizard-progress").await?;
    let show = gettext("_Show Cache");
    hand::wait(&dialog, &show, || hand::button(&dialog, &show)).await;
    camera.take(&dialog, "11-wizard-done").await?;
    hand::press(&dialog, &show).await;

    hand::wait(&window, "removal", || hand::removal(&window)).await;
    camera.take(&window, "12-cache-new").await?;
    // The service takes a sample each second, so that the long history has a shape.
    for minutes in [40, 25, 55, 30] {
        levers.advance(minutes * 60).await?;
        glib::timeout_future(Duration::from_millis(1200)).await;
    }
    window.show_overview();
    glib::timeout_future(Duration::from_millis(300)).await;
    // The window reads the kept samples when it first shows the cache.
    let window = again(application, window, camera.width).await;
    hand::wait(&window, "cache", || {
        hand::shown(&window)
            .into_iter()
            .find_map(|widget| widget.downcast::<CacheRow>().ok())
    })
    .await;
    let cache = first_row(&window)?
        .cache()
        .ok_or("the row shows no cache")?;
    window.show_cache(&cache.facts().uuid);
    glib::timeout_future(Duration::from_millis(2500)).await;
    remember(&cache, false);
    glib::timeout_future(Duration::from_millis(2500)).await;
    window.show_overview();
    camera.take(&window, "13-overview-cache").await?;
    let uuid = cache.facts().uuid;
    window.show_cache(&uuid);
    glib::timeout_future(Duration::from_millis(1200)).await;
    camera.take(&window, "14-cache").await?;
    let height = if camera.width < 600 { 720 } else { 860 };
    window.set_default_size(camera.width, if camera.width < 600 { 2300 } else { 1750 });
    camera.take(&window, "15-cache-whole").await?;
    window.set_default_size(camera.width, height);
    let range = hand::shown(&window)
        .into_iter()
        .find_map(|widget| widget.downcast::<gtk::DropDown>().ok())
        .ok_or("no choice of the range")?;
    range.set_selected(2);
    glib::timeout_future(Duration::from_millis(900)).await;
    camera.take(&window, "22-chart-day").await?;
    range.set_selected(0);

    levers
        .set_state(&uuid, CacheState::Bypass, "ssd-error")
        .await?;
    glib::timeout_future(Duration::from_millis(600)).await;
    camera.take(&window, "16-cache-bypass").await?;
    levers.set_state(&uuid, CacheState::Active, "").await?;

    remember(&cache, true);
    camera.take(&window, "21-chart-two-lines").await?;

    hand::press_removal(&window).await;
    let question: adw::MessageDialog = hand::window(application).await;
    camera.take(&question, "17-remove").await?;
    levers.set_step_time(1500).await?;
    hand::agree(&question).await;
    hand::wait(&window, "removal", || {
        hand::button(&window, &gettext("_Cancel"))
    })
    .await;
    glib::timeout_future(Duration::from_millis(700)).await;
    camera.take(&window, "18-removing").await?;
    hand::wait(&window, &set_up, || hand::button(&window, &set_up)).await;
    camera.take(&window, "19-removed").await?;

    write_back::tour(application, &window, &camera, &levers).await?;
    next_start(application, &window, &camera).await?;
    module::tour(application, &window, &camera, &levers, &bus).await?;

    let failure = Failure::new(Kind::FilesystemBusy)
        .mount_points(vec!["/srv/films".into()])
        .users(vec![FileUser {
            pid: 4711,
            command: "vlc".into(),
            uid: 1000,
            user: "anna".into(),
        }]);
    tandem_app::widgets::remove_dialog::show_failure(Some(window.upcast_ref()), &failure);
    let message: adw::MessageDialog = hand::window(application).await;
    camera.take(&message, "20-failure").await?;
    message.close();

    for (name, failed) in [("57-no-bus", true), ("58-service-failed", false)] {
        let (store, overview) = (Store::default(), glib::Object::new::<Overview>());
        let failure = |name| Failure::new(Kind::ServiceUnavailable).name(name);
        if failed {
            store.bus_failed(failure(SYSTEM_BUS));
        } else {
            store.apply_disks(Ok(Snapshot::default()));
            store.service_failed(failure("tandem"));
        }
        overview.connect_to(&store);
        let page = adw::Window::builder()
            .content(&overview)
            .default_width(camera.width)
            .default_height(560)
            .build();
        page.present();
        camera.take(&page, name).await?;
        page.close();
    }
    Ok(())
}

/// The row of the free space beside the partitions of the system.
fn free_space() -> String {
    let words = gettext("Free space on {model}");
    fill(&words, &[("model", "Samsung SSD 970 EVO 500GB")])
}

/// Sets up a cache at the next start, and cancels that.
async fn next_start(application: &adw::Application, window: &Window, camera: &Camera) -> Result {
    window.set_up(None);
    let wizard: Wizard = hand::window(application).await;
    wizard.set_default_size(camera.width.min(640), 720);
    let next = gettext("_Next");
    hand::choose(&wizard, "Archive").await;
    hand::press(&wizard, &next).await;
    hand::choose(&wizard, "Samsung SSD 870 EVO 250GB").await;
    hand::press(&wizard, &next).await;
    hand::press(&wizard, &next).await;
    hand::choose(&wizard, &gettext("I have a backup")).await;
    hand::press(&wizard, &next).await;
    let switch = hand::wait(&wizard, "switch", || {
        hand::shown(&wizard)
            .into_iter()
            .find_map(|widget| widget.downcast::<gtk::Switch>().ok())
    })
    .await;
    switch.set_active(true);
    let begin = gettext("_Set Up at the Next Start");
    hand::wait(&wizard, &begin, || {
        hand::button(&wizard, &begin).filter(WidgetExt::is_sensitive)
    })
    .await;
    camera.take(&wizard, "60-next-start-review").await?;
    hand::press(&wizard, &begin).await;
    let show = gettext("_Show Cache");
    hand::wait(&wizard, &show, || hand::button(&wizard, &show)).await;
    camera.take(&wizard, "61-next-start-done").await?;
    hand::press(&wizard, &show).await;
    hand::wait(window, "removal", || hand::removal(window)).await;
    camera.take(window, "62-next-start-waiting").await?;
    hand::press_removal(window).await;
    let question: adw::MessageDialog = hand::window(application).await;
    camera.take(&question, "63-next-start-cancel").await?;
    hand::agree(&question).await;
    let set_up = gettext("Set Up a Cache…");
    hand::wait(window, &set_up, || hand::button(window, &set_up)).await;
    Ok(())
}

/// A new window in place of an old one.
async fn again(application: &adw::Application, old: Window, width: i32) -> Window {
    let window = Window::new(application);
    old.close();
    window.set_default_size(width, if width < 600 { 720 } else { 860 });
    window.present();
    window
}

/// The row of the only cache.
fn first_row(window: &Window) -> Result<CacheRow> {
    hand::shown(window)
        .into_iter()
        .find_map(|widget| widget.downcast::<CacheRow>().ok())
        .ok_or_else(|| "the cache is not listed".into())
}

/// Gives a cache a past as if it had been watched for five minutes: its counters grow to where they are now.
fn remember(cache: &CacheObject, dirty: bool) {
    let Some(now) = cache.with_series(|series| series.latest().cloned()) else {
        return;
    };
    let mut past = Vec::new();
    let (mut reads, mut hits) = (0.0, 0.0);
    for second in 0..300_u32 {
        let t = f64::from(second);
        let idle = (150..172).contains(&second);
        let asked = if idle {
            0.0
        } else {
            1.0 + 0.6 * (t / 17.0).sin()
        };
        let copying = (215..235).contains(&second);
        let warmth = 0.96 * (1.0 - (-t / 45.0).exp()) + 0.03 * (t / 3.1).sin();
        reads += asked;
        hits += asked * if copying { 0.2 } else { warmth.clamp(0.0, 1.0) };
        past.push((second, reads, hits));
    }
    // The counters grow by 30 MB for each unit of `asked`, and end at what they are now.
    let since_then = |all: f64, then: f64| ((all - then) * 60_000.0) as u64;
    let history = past.iter().map(|(second, asked, hit)| {
        let mut sample = now.clone();
        sample.time_us = now.time_us - u64::from(300 - second) * 1_000_000;
        let (to_ask, to_hit) = (since_then(reads, *asked), since_then(hits, *hit));
        sample.read.requested = now.read.requested.saturating_sub(to_ask);
        sample.read.hit = now.read.hit.saturating_sub(to_hit);
        sample.read.missed = now
            .read
            .missed
            .saturating_sub(to_ask.saturating_sub(to_hit));
        sample.write.hit = now.write.hit.saturating_sub(to_ask / 9);
        sample.write.requested = now.write.requested.saturating_sub(to_ask / 9);
        if dirty {
            let share = (0.003 * (f64::from(*second) / 60.0).sin()).max(0.0);
            let room = (now.frames_total * now.frame_sectors) as f64;
            sample.dirty_sectors = (room * share) as u64;
        }
        sample
    });
    let mut history: Vec<_> = history.collect();
    if !dirty {
        history.push(now.clone());
    }
    cache.set_history(history);
}

/// Words on the button at the bottom.
fn primary(dialog: &Wizard) -> String {
    let buttons = hand::shown(dialog)
        .into_iter()
        .filter_map(|widget| widget.downcast::<gtk::Button>().ok());
    buttons
        .filter(|button| button.has_css_class("pill"))
        .find_map(|button| button.label())
        .map(|label| label.to_string())
        .unwrap_or_default()
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The programs that are measured: the app, an empty window of libadwaita, and the app with a cache and its live chart.

use std::process::ExitCode;

use adw::prelude::*;
use gtk::glib;
use tandem_app::application;
use tandem_app::widgets::cache_row::CacheRow;
use tandem_app::widgets::chart::Chart;
use tandem_app::widgets::window::Window;
use tandem_words::language;

use crate::Result;
use crate::stage::hand;

/// An empty window of the same size.
pub const EMPTY: &str = "empty";
/// The app as it starts.
pub const APP: &str = "app";
/// The app with the page of a cache.
pub const LIVE: &str = "live";

/// The word that a program prints when its window is shown.
pub const SHOWN: &str = "shown";

/// Runs the program until it is ended.
pub fn show(kind: &str) -> Result<ExitCode> {
    let application = match kind {
        EMPTY => empty(),
        APP => app()?,
        LIVE => live()?,
        _ => return Err("usage: bench_ui [app|empty|live]".into()),
    };
    application.set_flags(gtk::gio::ApplicationFlags::NON_UNIQUE);
    if kind != LIVE {
        application.connect_window_added(|_, window| {
            window.connect_map(|window| {
                let Some(frames) = window.surface().map(|surface| surface.frame_clock()) else {
                    return;
                };
                frames.connect_after_paint(|_| println!("{SHOWN}"));
            });
        });
    }
    let code = application.run_with_args::<&str>(&[]);
    Ok(if code == glib::ExitCode::SUCCESS {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The application as `main` makes it.
fn app() -> Result<adw::Application> {
    // As on a machine without translations.
    let _ = language::init(&language::directory());
    application::register_resources()?;
    Ok(application::application())
}

/// The app, which goes to the first cache and says so when its chart is on the screen.
fn live() -> Result<adw::Application> {
    let application = app()?;
    application.connect_window_added(|_, window| {
        let Ok(window) = window.clone().downcast::<Window>() else {
            return;
        };
        glib::spawn_future_local(async move {
            let row = hand::wait(&window, "cache", || found::<CacheRow>(&window)).await;
            let cache = row.cache().map(|cache| cache.facts().uuid);
            window.show_cache(&cache.unwrap_or_default());
            hand::wait(&window, "chart", || found::<Chart>(&window)).await;
            println!("{SHOWN}");
        });
    });
    Ok(application)
}

/// The first widget of this type that is on the screen.
fn found<T: IsA<gtk::Widget>>(window: &Window) -> Option<T> {
    let mut all = hand::shown(window).into_iter();
    all.find_map(|widget| widget.downcast().ok())
}

fn empty() -> adw::Application {
    let application = adw::Application::builder()
        .application_id("org.tandemcache.Empty")
        .build();
    application.connect_activate(|application| {
        adw::ApplicationWindow::builder()
            .application(application)
            .default_width(780)
            .default_height(860)
            .build()
            .present();
    });
    application
}

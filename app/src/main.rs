// SPDX-License-Identifier: GPL-3.0-or-later
//! The Tandem window: points an SSD at a hard disk and shows that it works.

use adw::prelude::*;
use gtk::glib;
use tandem_app::application;
use tandem_words::language;
use tracing_subscriber::EnvFilter;

fn main() -> glib::ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(EnvFilter::from_default_env())
        .init();
    if let Err(error) = language::init(&language::directory()) {
        tracing::warn!("there are no translations: {error}");
    }
    if let Err(error) = application::register_resources() {
        eprintln!("tandem: {error}");
        return glib::ExitCode::FAILURE;
    }
    application::application().run()
}

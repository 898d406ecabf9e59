// SPDX-License-Identifier: GPL-3.0-or-later
//! The Tandem tray indicator: the state of all caches in one icon, without GTK.
//!
//! The indicator is hidden while there is no cache. On a desktop without a place for indicators the program still sends
//! its few notifications; the window shows the other facts.

mod follow;
mod indicator;
mod notices;
mod pause;
mod words;
mod write_back;

use std::time::Duration;

use async_io::Timer;
use ksni::{Handle, TrayMethods};
use tandem_words::language;
use tracing_subscriber::EnvFilter;

use indicator::Indicator;

/// Number of tries to register. At the start of a session the panel may come after the indicator; after this many tries
/// there is no panel.
const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(5);

fn main() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(EnvFilter::from_default_env())
        .init();
    // SAFETY: no other thread runs yet.
    if let Err(error) = unsafe { language::init_with_locale() } {
        tracing::warn!("there are no translations: {error}");
    }
    zbus::block_on(async {
        if let Err(error) = follow::follow(register()).await {
            tracing::warn!("the system bus: {error}");
        }
    });
}

/// Shows the indicator as soon as there is a place for it.
async fn register() -> Option<Handle<Indicator>> {
    for _ in 0..TRIES {
        match Indicator::default().spawn().await {
            Ok(handle) => return Some(handle),
            Err(error) => tracing::debug!("not shown yet: {error}"),
        }
        Timer::after(PAUSE).await;
    }
    tracing::info!("this desktop has no place for indicators");
    None
}

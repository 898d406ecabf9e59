// SPDX-License-Identifier: GPL-3.0-or-later
//! The indicator in the desktop's panel, used with the pointer. To assistive technologies panels show the place of all
//! indicators, but neither single indicators nor their menus. Those are read from the bus, where the panel reads them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use zbus::{Connection, OwnedVariant};

use crate::desktop::keys::{KEY_RETURN, KEY_UP};
use crate::desktop::{Desktop, LIMIT, Part};
use crate::window;
use tandem_stage::node::Place;

/// A menu on the bus: its revision, and an entry with its number, its properties and its own entries.
type Layout = (u32, (i32, HashMap<String, OwnedVariant>, Vec<OwnedVariant>));

/// The words that the indicator's menu must contain.
#[derive(clap::Args)]
pub struct Tray {
    /// A part of the line of the cache.
    #[arg(long)]
    says: String,
}

/// Reads the menu of the only indicator, opens it with the pointer, and opens the window from it.
pub async fn open(desktop: &Desktop, tray: &Tray) -> Result<()> {
    let seen = desktop
        .until(Part::Panel, "", LIMIT, |seen| seen.role == "filler")
        .await?;
    let session = Connection::session().await?;
    let end = Instant::now() + LIMIT;
    loop {
        match menu(&session).await {
            Ok(menu) if menu.contains(&tray.says) && menu.contains("Open Tandem") => break,
            said if Instant::now() > end => {
                bail!("the menu does not say “{}”: {said:?}", tray.says);
            }
            _ => std::thread::sleep(Duration::from_millis(300)),
        }
    }
    desktop.step(&format!("the indicator's menu says “{}”", tray.says));
    // A click before the icon is there would hit the empty panel.
    let place = desktop.painted(&seen).await?;
    desktop.shot("10-panel")?;
    let before = window::popups()?;
    desktop.point(place, 3).await?;
    let end = Instant::now() + LIMIT;
    while !opened(&before)? {
        ensure!(Instant::now() < end, "no menu opens at the indicator");
        std::thread::sleep(Duration::from_millis(100));
    }
    desktop.shot("11-menu")?;
    // “Quit” is the last entry, and “Open Tandem” stands above it.
    desktop.key(KEY_UP).await?;
    desktop.key(KEY_UP).await?;
    desktop.key(KEY_RETURN).await?;
    desktop.wait("Caches").await?;
    desktop.step("“Open Tandem” opens the window");
    desktop.shot("12-opened")
}

/// Whether there is a menu that was not in `before`, with something painted in it.
fn opened(before: &HashMap<u32, Place>) -> Result<bool> {
    for (id, place) in window::popups()? {
        if !before.contains_key(&id) && window::is_painted(place).unwrap_or(false) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The menu of the only indicator that the panel knows, as it is on the bus.
async fn menu(session: &Connection) -> Result<String> {
    let watcher = zbus::Proxy::new(
        session,
        "org.kde.StatusNotifierWatcher",
        "/StatusNotifierWatcher",
        "org.kde.StatusNotifierWatcher",
    )
    .await?;
    let items: Vec<String> = watcher
        .get_property("RegisteredStatusNotifierItems")
        .await?;
    let item = items.first().context("the panel has no indicator")?;
    let service = item.split('/').next().unwrap_or_default().to_owned();
    let none: &[&str] = &[];
    let reply = session
        .call_method(
            Some(service),
            "/MenuBar",
            Some("com.canonical.dbusmenu"),
            "GetLayout",
            &(0_i32, -1_i32, none),
        )
        .await?;
    let layout: Layout = reply.body().deserialize()?;
    Ok(format!("{layout:?}"))
}

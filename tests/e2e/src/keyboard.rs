// SPDX-License-Identifier: GPL-3.0-or-later
//! The main job with the keyboard alone, by key events of the X server. The focus is what a screen reader says.

use anyhow::Result;

use crate::desktop::keys::{KEY_RETURN, KEY_SPACE, KEY_TAB};
use crate::desktop::{Desktop, LIMIT, Part};
use crate::flow::{Create, JOB_LIMIT, OFFER, Remove, agreement, offered_again, removal};
use crate::wizard::{chosen, confirmation, must_choose, needs_backup, tick};
use tandem_stage::node::State;

/// Goes through the wizard.
pub async fn create(desktop: &Desktop, create: &Create) -> Result<()> {
    desktop.wait("Set Up a Cache*").await?;
    desktop.reach(KEY_TAB, "Set Up a Cache*").await?;
    desktop.key(KEY_SPACE).await?;
    choose(desktop, "Hard Disk", &create.disk).await?;
    choose(desktop, "SSD", &create.ssd).await?;
    desktop.reach(KEY_TAB, "Review").await?;
    desktop.key(KEY_RETURN).await?;
    let confirm = confirmation(desktop).await?;
    if needs_backup(create, &confirm) {
        tick(desktop, "I have a backup*").await?;
    }
    desktop
        .until(Part::App, &confirm.name, LIMIT, |seen| {
            seen.is(State::Sensitive)
        })
        .await?;
    desktop.reach(KEY_TAB, &confirm.name).await?;
    desktop.step(&format!(
        "Tab leads to “{}”, Space presses it",
        confirm.name
    ));
    desktop.shot("01-review")?;
    desktop.key(KEY_SPACE).await?;
    authenticate(desktop, create.password.as_deref()).await?;
    desktop
        .until(Part::App, "Show Cache", JOB_LIMIT, |seen| {
            seen.is(State::Sensitive)
        })
        .await?;
    desktop.arrives("Show Cache").await?;
    desktop.step("the cache is set up, and Enter shows it");
    desktop.key(KEY_RETURN).await?;
    removal(desktop).await?;
    desktop.shot("02-cache")
}

/// Goes back to the plain disk.
pub async fn remove(desktop: &Desktop, remove: &Remove) -> Result<()> {
    if let Some(row) = &remove.open {
        desktop.reach(KEY_TAB, row).await?;
        desktop.key(KEY_RETURN).await?;
        removal(desktop).await?;
        desktop.step(&format!("Tab leads to the row “{row}”, Enter opens it"));
    }
    let words = removal(desktop).await?;
    let offered = desktop.count(OFFER).await?;
    desktop.reach(KEY_TAB, &format!("{words}…")).await?;
    desktop.key(KEY_SPACE).await?;
    let agree = agreement(desktop).await?;
    // The harmless answer has the focus, and the other answer is the next one.
    desktop.arrives("Cancel").await?;
    desktop.key(KEY_TAB).await?;
    desktop.arrives(&agree).await?;
    desktop.step(&format!("one Tab leads from “Cancel” to “{agree}”"));
    desktop.shot("03-remove")?;
    desktop.key(KEY_SPACE).await?;
    authenticate(desktop, remove.password.as_deref()).await?;
    offered_again(desktop, offered).await?;
    desktop.step("the disk is offered again");
    Ok(())
}

/// Chooses a device, if the wizard has not chosen it. `kind`: what its row is for.
async fn choose(desktop: &Desktop, kind: &str, name: &str) -> Result<()> {
    if must_choose(desktop, kind, name).await? {
        desktop.reach(KEY_TAB, name).await?;
        desktop.key(KEY_SPACE).await?;
        // The list closes, and the focus is on the row that says what is chosen.
        desktop.arrives(&format!("{kind}: *")).await?;
        desktop.step(&format!("Tab leads to “{name}”, Space chooses it"));
    }
    chosen(desktop, kind, name).await
}

async fn authenticate(desktop: &Desktop, password: Option<&str>) -> Result<()> {
    match password {
        Some(password) => desktop.type_password(password).await,
        None => Ok(()),
    }
}

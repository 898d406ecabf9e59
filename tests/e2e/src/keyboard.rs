// SPDX-License-Identifier: GPL-3.0-or-later
//! The main job with the keyboard alone, by key events of the X server. The focus is what a screen reader says.

use anyhow::{Context, Result};

use crate::desktop::{Desktop, KEY_DOWN, KEY_RETURN, KEY_SPACE, KEY_TAB, LIMIT, Part};
use crate::flow::{
    Create, JOB_LIMIT, OFFER, Remove, agreement, confirmation, offered_again, removal,
};
use crate::node::State;

/// Goes through the wizard.
pub async fn create(desktop: &Desktop, create: &Create) -> Result<()> {
    desktop.wait("Set Up a Cache*").await?;
    desktop.reach(KEY_TAB, "Set Up a Cache*").await?;
    desktop.key(KEY_SPACE).await?;
    choose(desktop, "Step 1 of *", &create.disk).await?;
    go_on(desktop).await?;
    choose(desktop, "Step 2 of *", &create.ssd).await?;
    go_on(desktop).await?;
    desktop.wait("Step 3 of *").await?;
    // The page has its answer already, so that the button has the focus.
    desktop.arrives("Next").await?;
    desktop.key(KEY_RETURN).await?;
    choose(desktop, "Step 4 of *", "I have a backup*").await?;
    go_on(desktop).await?;
    desktop.wait("Step 5 of *").await?;
    let confirm = confirmation(desktop).await?;
    desktop.reach(KEY_TAB, &confirm.name).await?;
    desktop.step(&format!(
        "Tab leads to “{}”, Space presses it",
        confirm.name
    ));
    desktop.shot("01-summary")?;
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

/// Goes down in the list of a page, and chooses a row.
async fn choose(desktop: &Desktop, page: &str, name: &str) -> Result<()> {
    desktop.wait(page).await?;
    desktop.reach(KEY_DOWN, name).await?;
    desktop.key(KEY_SPACE).await?;
    desktop
        .until(Part::App, name, LIMIT, |seen| seen.is(State::Checked))
        .await
        .with_context(|| format!("Space does not choose “{name}”"))?;
    desktop.step(&format!(
        "the arrow keys lead to “{name}”, Space chooses it"
    ));
    Ok(())
}

async fn go_on(desktop: &Desktop) -> Result<()> {
    desktop.reach(KEY_TAB, "Next").await?;
    desktop.key(KEY_RETURN).await?;
    Ok(())
}

async fn authenticate(desktop: &Desktop, password: Option<&str>) -> Result<()> {
    match password {
        Some(password) => desktop.type_password(password).await,
        None => Ok(()),
    }
}

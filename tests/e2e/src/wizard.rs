// SPDX-License-Identifier: GPL-3.0-or-later
//! What the wizard shows: the rows that say what is chosen, and the review.

use anyhow::{Context, Result};

use crate::desktop::keys::{KEY_SPACE, KEY_TAB};
use crate::desktop::{CHOICES, Desktop, LIMIT, Part};
use crate::flow::Create;
use tandem_stage::node::{Seen, State};

/// Waits until the wizard has chosen this device, or shows the list to choose it from. `kind`: what the row that says so
/// is for. Returns whether it has to be chosen.
pub async fn must_choose(desktop: &Desktop, kind: &str, name: &str) -> Result<bool> {
    let chosen = format!("{kind}: ");
    let either = |seen: &Seen| {
        seen.name.starts_with(&chosen)
            || (seen.is(State::Sensitive) && CHOICES.contains(&seen.role.as_str()))
    };
    let anywhere = format!("*{}*", name.trim_matches('*'));
    let seen = desktop.until(Part::App, &anywhere, LIMIT, either).await?;
    Ok(!seen.name.starts_with(&chosen))
}

/// Waits until the wizard says that this device is chosen.
pub async fn chosen(desktop: &Desktop, kind: &str, name: &str) -> Result<()> {
    let part = name.trim_matches('*');
    let row = format!("{kind}: *");
    desktop
        .until(Part::App, &row, LIMIT, |seen| seen.name.contains(part))
        .await
        .map(drop)
}

/// Goes to a row with the keyboard, which brings it into view, and chooses or ticks it there.
pub async fn tick(desktop: &Desktop, name: &str) -> Result<()> {
    // At first the focus may be on the page as a whole, and so on all names in it.
    desktop.stride(KEY_TAB).await?;
    desktop.reach(KEY_TAB, name).await?;
    desktop.key(KEY_SPACE).await?;
    desktop
        .until(Part::App, name, LIMIT, |seen| seen.is(State::Checked))
        .await
        .with_context(|| format!("Space does not choose “{name}”"))?;
    Ok(())
}

/// Whether the plan that this button begins needs the promise of a backup.
pub fn needs_backup(create: &Create, confirm: &Seen) -> bool {
    create.mode.is_some() || confirm.name.starts_with("Erase")
}

/// The button below the review, as soon as the review is shown; it can be pressed a moment later, if the plan needs no
/// promise of a backup.
pub async fn confirmation(desktop: &Desktop) -> Result<Seen> {
    desktop
        .until(Part::App, "*Set Up*", LIMIT, |seen| {
            seen.role == "button" && seen.name.contains("Set Up") && !seen.name.ends_with('…')
        })
        .await
}

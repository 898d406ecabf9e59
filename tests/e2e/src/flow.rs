// SPDX-License-Identifier: GPL-3.0-or-later
//! What the person does in the app, from the overview to the plain disk.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::desktop::{Desktop, LIMIT, Part};
use crate::wizard::{chosen, confirmation, must_choose, needs_backup, tick};
use tandem_stage::node::State;

/// Longest run of a job that moves no data.
pub const JOB_LIMIT: Duration = Duration::from_secs(600);

/// The button in the row of a disk that can get a cache.
pub const OFFER: &str = "Speed Up…*";

/// The labels of the button that removes a cache: without and with dirty data.
const REMOVALS: [&str; 2] = ["Remove Cache", "Write Back and Remove"];

/// Which disks the person chooses.
#[derive(clap::Args)]
pub struct Create {
    /// Name of the disk in the list, or its beginning and `*`.
    #[arg(long)]
    pub disk: String,
    /// Name of the SSD in the list, or its beginning and `*`.
    #[arg(long)]
    pub ssd: String,
    /// Name of the mode in the list; the recommended one if none is named.
    #[arg(long)]
    pub mode: Option<String>,
    /// What the person types into the authentication dialog.
    #[arg(long)]
    pub password: Option<String>,
}

/// The page of a cache.
#[derive(clap::Args)]
pub struct Show {
    /// Name of the picture.
    #[arg(long)]
    shot: String,
}

/// How the person takes the cache away.
#[derive(clap::Args)]
pub struct Remove {
    /// The cache's row in the overview, when its page is not shown yet.
    #[arg(long)]
    pub open: Option<String>,
    /// What the person types into the authentication dialog.
    #[arg(long)]
    pub password: Option<String>,
}

/// A question for the password.
#[derive(clap::Args)]
pub struct Authenticate {
    /// What the question says, or its beginning and `*`.
    message: String,
    /// What the person types.
    password: String,
    /// Name of the picture.
    #[arg(long)]
    shot: String,
}

/// Goes through the wizard: a press on the row of the disk, a review, and a press that begins. Only what the wizard has
/// not chosen itself is chosen.
pub async fn create(desktop: &Desktop, create: &Create) -> Result<()> {
    desktop.wait(&create.disk).await?;
    desktop.step("the app shows the disks of the machine");
    desktop.shot("01-overview")?;
    desktop.press_after(&create.disk, OFFER).await?;
    chosen(desktop, "Hard Disk", &create.disk).await?;
    if must_choose(desktop, "SSD", &create.ssd).await? {
        desktop.choose(&create.ssd).await?;
    }
    chosen(desktop, "SSD", &create.ssd).await?;
    desktop.step(&format!("wizard: the SSD is “{}”", create.ssd));
    desktop.shot("02-choices")?;
    if let Some(mode) = &create.mode {
        desktop.click("Mode: *").await?;
        tick(desktop, mode).await?;
        let warning = desktop.wait("*beyond repair*").await?;
        desktop.step(&format!("wizard: “{mode}” warns: {}", warning.name));
        desktop.shot("03-mode")?;
    }
    desktop.press("Review").await?;
    let confirm = confirmation(desktop).await?;
    desktop.step(&format!(
        "wizard: the review names every step; the button says “{}”",
        confirm.name
    ));
    if needs_backup(create, &confirm) {
        tick(desktop, "I have a backup*").await?;
        desktop.step("wizard: what may be lost is backed up");
    }
    desktop.shot("06-review")?;
    desktop.press(&confirm.name).await?;
    let asked = create.password.as_deref();
    authenticate(desktop, asked, "07-authentication").await?;
    if let (Some(_), Some(password)) = (&create.mode, asked) {
        // A mode with a risk has an authentication message of its own.
        let message = "*beyond repair*";
        let shot = "07-authentication-risk";
        desktop.authenticate(message, password, shot).await?;
    }
    desktop
        .until(Part::App, "Show Cache", JOB_LIMIT, |seen| {
            seen.is(State::Sensitive)
        })
        .await?;
    desktop.step("the cache is set up");
    desktop.shot("08-done")?;
    desktop.press("Show Cache").await?;
    removal(desktop).await?;
    desktop.shot("09-cache")
}

/// Authenticates after a press that has opened the authentication dialog.
pub async fn answer(desktop: &Desktop, question: &Authenticate) -> Result<()> {
    desktop
        .authenticate(&question.message, &question.password, &question.shot)
        .await
}

/// Shows the page of the cache.
pub async fn show(desktop: &Desktop, show: &Show) -> Result<()> {
    desktop.shot(&show.shot)
}

/// Goes back to the plain disk.
pub async fn remove(desktop: &Desktop, remove: &Remove) -> Result<()> {
    let words = removal(desktop).await?;
    let offered = desktop.count(OFFER).await?;
    desktop.press(&format!("{words}…")).await?;
    desktop.step("the app says what removing does, and asks");
    desktop.shot("11-remove")?;
    let agree = agreement(desktop).await?;
    desktop.press(&agree).await?;
    authenticate(desktop, remove.password.as_deref(), "12-authentication").await?;
    offered_again(desktop, offered).await?;
    desktop.shot("13-plain")
}

/// Removes the cache of another system, the only one in the overview.
pub async fn remove_other(desktop: &Desktop, remove: &Remove) -> Result<()> {
    desktop.press("Cache Menu").await?;
    desktop.press("*Remove…").await?;
    let agree = agreement(desktop).await?;
    desktop.step("the app says what removing does, and asks");
    desktop.shot("remove-other")?;
    desktop.press(&agree).await?;
    authenticate(desktop, remove.password.as_deref(), "authentication").await
}

/// Waits until the window offers to speed up more disks than before; other disks are offered all the time. The page with
/// these buttons stays in the tree.
pub async fn offered_again(desktop: &Desktop, before: usize) -> Result<()> {
    let end = Instant::now() + JOB_LIMIT;
    while desktop.count(OFFER).await? <= before {
        ensure!(Instant::now() < end, "the disk is not offered again");
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}

/// Waits for the button that removes the cache, and returns its label without the dots.
pub async fn removal(desktop: &Desktop) -> Result<String> {
    let seen = desktop
        .until(Part::App, "*Remove*", LIMIT, |seen| {
            seen.role == "button"
                && REMOVALS.contains(&seen.name.trim_end_matches('…'))
                && seen.name.ends_with('…')
                && seen.is(State::Sensitive)
        })
        .await?;
    Ok(seen.name.trim_end_matches('…').to_owned())
}

/// Waits for the answer that removes the cache, and returns its label.
pub async fn agreement(desktop: &Desktop) -> Result<String> {
    let seen = desktop
        .until(Part::App, "*Remove*", LIMIT, |seen| {
            seen.role == "button" && REMOVALS.contains(&seen.name.as_str())
        })
        .await?;
    Ok(seen.name)
}

async fn authenticate(desktop: &Desktop, password: Option<&str>, shot: &str) -> Result<()> {
    match password {
        Some(password) => desktop.authenticate("*", password, shot).await,
        None => Ok(()),
    }
}

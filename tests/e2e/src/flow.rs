// SPDX-License-Identifier: GPL-3.0-or-later
//! What the person does in the app, from the first page to the plain disk.

use std::time::Duration;

use anyhow::Result;

use crate::desktop::Desktop;
use crate::node::State;

/// A job that moves no data ends well within this.
const JOB_LIMIT: Duration = Duration::from_secs(120);

/// Which disks the person chooses.
#[derive(clap::Args)]
pub struct Create {
    /// Name of the disk in the list, or its beginning and `*`.
    #[arg(long)]
    disk: String,
    /// Name of the SSD in the list, or its beginning and `*`.
    #[arg(long)]
    ssd: String,
    /// What the person types into the authentication dialog.
    #[arg(long)]
    password: String,
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
    /// What the person types into the authentication dialog.
    #[arg(long)]
    password: String,
}

/// Through the wizard.
pub async fn create(desktop: &Desktop, create: &Create) -> Result<()> {
    desktop.step("the app is open");
    desktop.shot("01-overview")?;
    desktop.press("Set Up a Cache*").await?;
    desktop.wait("Which Disk Is Too Slow?").await?;
    desktop.step("wizard: which disk");
    desktop.choose(&create.disk).await?;
    desktop.shot("02-disk")?;
    desktop.press("Next").await?;
    desktop.wait("Which SSD Makes It Fast?").await?;
    desktop.step("wizard: which SSD");
    desktop.choose(&create.ssd).await?;
    desktop.shot("03-ssd")?;
    desktop.press("Next").await?;
    desktop.step("wizard: how to write");
    desktop.shot("04-mode")?;
    desktop.press("Next").await?;
    desktop.wait("Do You Have a Backup?").await?;
    desktop.step("wizard: backup");
    desktop.choose("I have a backup").await?;
    desktop.shot("05-backup")?;
    desktop.press("Next").await?;
    desktop.step("wizard: summary");
    Ok(())
}

/// The cache's own page.
pub async fn show(desktop: &Desktop, show: &Show) -> Result<()> {
    desktop.shot(&show.shot)
}

/// Back to the plain disk.
pub async fn remove(desktop: &Desktop, remove: &Remove) -> Result<()> {
    desktop.press("Flush and Remove*").await?;
    authenticate(desktop, &remove.password).await?;
    desktop
        .until("the end of the removal", JOB_LIMIT, |seen| {
            seen.name == "Done" && seen.is(State::Sensitive)
        })
        .await?;
    Ok(())
}

async fn authenticate(desktop: &Desktop, password: &str) -> Result<()> {
    desktop.step("the authentication dialog asks for the password");
    desktop.type_into("password text", password).await
}

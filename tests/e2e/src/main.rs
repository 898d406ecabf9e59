// SPDX-License-Identifier: GPL-3.0-or-later
//! Drives the real app inside the guest as a person with assistive technology does: it finds what is on the
//! screen by name over the accessibility bus, and presses or types. It makes no call to the service.
//!
//! The program prints its steps on standard output, one line each: `STEP words` for the person, `SHOT name` where the
//! host is to take a picture of the screen.

mod desktop;
mod flow;
mod keyboard;
mod search;
mod tray;
mod tree;
mod window;
mod wizard;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::desktop::Desktop;
use crate::desktop::keys::{KEY_RETURN, KEY_UP};

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print what is on the screen, for whoever writes a scenario.
    Tree,
    /// Press what has this name.
    Press {
        /// Name of the widget on the screen.
        name: String,
    },
    /// Wait until what has this name is on the screen.
    Wait {
        /// Name of the widget, or a part of the name between `*`.
        name: String,
    },
    /// Go to a row with the keyboard and press Return there.
    Enter {
        /// Name of the first row of its list.
        first: String,
        /// Name of the row on the screen.
        row: String,
    },
    /// Take the choice above the present one, in a list of choices that is open.
    Above,
    /// Choose what has this name.
    Choose {
        /// Name of the widget on the screen.
        name: String,
    },
    /// Type the password where it is asked for.
    Authenticate(flow::Authenticate),
    /// Go through the wizard, from the overview to the finished cache.
    Create(flow::Create),
    /// Show the page of the cache and read its figures.
    Show(flow::Show),
    /// Remove the cache.
    Remove(flow::Remove),
    /// Remove the cache of another system from the overview.
    RemoveOther(flow::Remove),
    /// Go through the wizard with the keyboard alone.
    CreateByKeys(flow::Create),
    /// Remove the cache with the keyboard alone.
    RemoveByKeys(flow::Remove),
    /// Read the indicator in the panel, and open the window from it.
    Tray(tray::Tray),
}

fn main() -> ExitCode {
    let args = Args::parse();
    match pollster::block_on(run(args.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    let desktop = Desktop::connect().await?;
    let result = match command {
        Command::Tree => {
            println!("{}", desktop.describe().await?);
            Ok(())
        }
        Command::Press { name } => desktop.press(&name).await,
        Command::Wait { name } => desktop.wait(&name).await.map(|seen| {
            desktop.step(&format!("the app shows “{}”", seen.name));
        }),
        Command::Enter { first, row } => desktop.enter(&first, &row).await,
        Command::Above => {
            desktop.key(KEY_UP).await?;
            desktop.key(KEY_RETURN).await
        }
        Command::Choose { name } => desktop.choose(&name).await,
        Command::Authenticate(question) => flow::answer(&desktop, &question).await,
        Command::Create(create) => flow::create(&desktop, &create).await,
        Command::Show(show) => flow::show(&desktop, &show).await,
        Command::Remove(remove) => flow::remove(&desktop, &remove).await,
        Command::RemoveOther(remove) => flow::remove_other(&desktop, &remove).await,
        Command::CreateByKeys(create) => keyboard::create(&desktop, &create).await,
        Command::RemoveByKeys(remove) => keyboard::remove(&desktop, &remove).await,
        Command::Tray(tray) => tray::open(&desktop, &tray).await,
    };
    // The person who reads a failure needs to know what was on the screen.
    if result.is_err() {
        println!("{}", desktop.describe().await?);
    }
    result
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The keyboard: keys by their symbols, and the focus that they move.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::{Desktop, LIMIT, named};
use crate::tree::Item;
use tandem_stage::node::State;

/// Symbols of keys, as X numbers them.
pub const KEY_RETURN: i32 = 0xff0d;
/// Moves the focus on.
pub const KEY_TAB: i32 = 0xff09;
/// Moves the focus within a list.
pub const KEY_DOWN: i32 = 0xff54;
/// Moves the focus to the last entry of a menu that was just opened.
pub const KEY_UP: i32 = 0xff52;
/// The key that presses or chooses the widget with the focus.
pub const KEY_SPACE: i32 = 0x20;
/// Most places of one page that the keyboard can go to.
const STRIDES: usize = 60;
/// Longest time until a key has moved the focus.
const KEY_LIMIT: Duration = Duration::from_secs(10);
/// AT-SPI's number for pressing and releasing a key that is given by its symbol.
const KEY_BY_SYM: u32 = 3;

impl Desktop {
    /// Presses and releases a key by its symbol.
    pub async fn key(&self, symbol: i32) -> Result<()> {
        self.input("GenerateKeyboardEvent", &(symbol, "", KEY_BY_SYM))
            .await
    }

    /// The names of the widget with the focus in the app: its own name, and the names of the objects in it.
    pub async fn focus(&self) -> Result<Vec<String>> {
        let Some(tree) = self.tree().await? else {
            return Ok(Vec::new());
        };
        let focused = |item: &Item| item.states & State::Focused.bit() != 0;
        let Some(at) = tree.iter().position(focused) else {
            return Ok(Vec::new());
        };
        let depth = tree[at].depth;
        let inside = tree[at + 1..].iter().take_while(|item| item.depth > depth);
        Ok(std::iter::once(&tree[at])
            .chain(inside)
            .map(|item| item.name.clone())
            .collect())
    }

    /// Presses a key until a widget of this name has the focus.
    pub async fn reach(&self, key: i32, name: &str) -> Result<()> {
        let mut seen = Vec::new();
        for _ in 0..STRIDES {
            let before = self.focus().await?;
            if before.iter().any(|all| named(all, name)) {
                return Ok(());
            }
            self.key(key).await?;
            self.moved(&before).await?;
            seen.push(before);
        }
        bail!("key {key:#x} does not lead to “{name}”, only to {seen:?}");
    }

    /// Waits until a widget of this name has the focus, without a key.
    pub async fn arrives(&self, name: &str) -> Result<()> {
        let end = Instant::now() + LIMIT;
        loop {
            let focus = self.focus().await?;
            if focus.iter().any(|all| named(all, name)) {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("the keyboard goes to {focus:?}, not to “{name}”");
            }
            std::thread::sleep(Duration::from_millis(150));
        }
    }

    /// Presses a key that moves the focus, once.
    pub async fn stride(&self, key: i32) -> Result<()> {
        let before = self.focus().await?;
        self.key(key).await?;
        self.moved(&before).await
    }

    /// Waits until the focus moves; at the end of a list it stays.
    async fn moved(&self, before: &[String]) -> Result<()> {
        let end = Instant::now() + KEY_LIMIT;
        while self.focus().await? == before && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Goes to a row with the keyboard, by way of the list's first row, and presses Return there: GTK offers no other
    /// way.
    pub async fn enter(&self, first: &str, row: &str) -> Result<()> {
        self.reach(KEY_TAB, first).await?;
        self.reach(KEY_DOWN, row).await?;
        self.key(KEY_RETURN).await
    }
}

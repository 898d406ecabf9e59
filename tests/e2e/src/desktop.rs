// SPDX-License-Identifier: GPL-3.0-or-later
//! The screen as an assistive technology sees it: look, wait, press, type. Every wait has an end.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::future::join_all;
use zbus::{Connection, connection};

use crate::node::{Node, Seen, State};

/// How long anything may take to appear, under emulation on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Programs are given this long for one call; a program that hangs is an error of its own.
const CALL_LIMIT: Duration = Duration::from_secs(20);
/// Roles that a person can press; an object that is only a text of the same name is passed over.
const PRESSABLE: &[&str] = &[
    "push button",
    "button",
    "toggle button",
    "check box",
    "radio button",
    "menu item",
    "list item",
    "link",
    "page tab",
];

/// A connection to the accessibility bus.
pub struct Desktop {
    bus: Connection,
    started: Instant,
}

impl Desktop {
    /// Asks the session for the accessibility bus and connects to it.
    pub async fn connect() -> Result<Self> {
        let session = Connection::session()
            .await
            .context("there is no session bus")?;
        let reply = session
            .call_method(
                Some("org.a11y.Bus"),
                "/org/a11y/bus",
                Some("org.a11y.Bus"),
                "GetAddress",
                &(),
            )
            .await
            .context("the session has no accessibility bus")?;
        let address: String = reply.body().deserialize()?;
        let bus = connection::Builder::address(address.as_str())
            .method_timeout(CALL_LIMIT)
            .build()
            .await?;
        Ok(Self {
            bus,
            started: Instant::now(),
        })
    }

    /// Tells the person what happens.
    pub fn step(&self, words: &str) {
        println!("STEP {:5.1} {words}", self.started.elapsed().as_secs_f32());
    }

    /// Asks the host for a picture and waits until it is taken.
    pub fn shot(&self, name: &str) -> Result<()> {
        let done = format!("/run/user/1000/shot-{name}");
        println!("SHOT {name}");
        let end = Instant::now() + LIMIT;
        while !std::path::Path::new(&done).exists() {
            if Instant::now() > end {
                bail!("nobody took the picture {name}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Everything that is on the screen, program by program, from the outside in.
    pub async fn look(&self) -> Result<Vec<Seen>> {
        let mut all = Vec::new();
        for program in Node::registry()?.children(&self.bus).await? {
            // A program may end while it is looked at.
            let _ = self.below(program, 0, &mut all).await;
        }
        Ok(all)
    }

    async fn below(&self, node: Node, depth: usize, all: &mut Vec<Seen>) -> Result<()> {
        let children = node.children(&self.bus).await?;
        let looked = join_all(children.iter().map(|child| self.seen(child, depth))).await;
        for seen in looked.into_iter().flatten() {
            // Windows at the top do not all say that they show; what is hidden below does not show either.
            if depth > 0 && !seen.is(State::Showing) {
                continue;
            }
            let node = seen.node.clone();
            all.push(seen);
            Box::pin(self.below(node, depth + 1, all)).await?;
        }
        Ok(())
    }

    async fn seen(&self, node: &Node, depth: usize) -> Result<Seen> {
        let states = node.states(&self.bus).await?;
        let name = node.name(&self.bus).await?;
        let role = node.role(&self.bus).await?;
        Ok(Seen {
            node: node.clone(),
            depth,
            name,
            role,
            states,
        })
    }

    /// What is on the screen, for a person who reads a report of a failure.
    pub async fn describe(&self) -> Result<String> {
        let mut text = String::from("on the screen:");
        for seen in self.look().await? {
            let marks: String = [(State::Checked, " [x]"), (State::Focused, " <focus>")]
                .iter()
                .filter(|(state, _)| seen.is(*state))
                .map(|(_, mark)| *mark)
                .collect();
            let off = if seen.is(State::Sensitive) {
                ""
            } else {
                " (off)"
            };
            write!(
                text,
                "\n{:indent$}{}: {:?}{marks}{off}",
                "",
                seen.role,
                seen.name,
                indent = seen.depth * 2 + 2
            )?;
        }
        Ok(text)
    }

    /// Waits until something on the screen is as asked.
    pub async fn until(
        &self,
        what: &str,
        limit: Duration,
        matches: impl Fn(&Seen) -> bool,
    ) -> Result<Seen> {
        let end = Instant::now() + limit;
        loop {
            if let Some(seen) = self.look().await?.into_iter().find(|seen| matches(seen)) {
                return Ok(seen);
            }
            if Instant::now() > end {
                bail!("{what} did not come within {} s", limit.as_secs());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a text, or anything that is named so, is on the screen. `*` at the end stands for any rest.
    pub async fn wait(&self, name: &str) -> Result<Seen> {
        self.until(&format!("“{name}”"), LIMIT, |seen| {
            named(&seen.name, name)
        })
        .await
    }

    /// Waits until something can be pressed, and presses it. `*` at the end of the name stands for any rest.
    pub async fn press(&self, name: &str) -> Result<()> {
        let pressable = |seen: &Seen| {
            named(&seen.name, name)
                && seen.is(State::Sensitive)
                && PRESSABLE.contains(&seen.role.as_str())
        };
        let seen = self
            .until(
                &format!("something to press named “{name}”"),
                LIMIT,
                pressable,
            )
            .await?;
        if !seen.node.act(&self.bus).await? {
            self.give_focus(&seen).await?;
            self.key(KEY_SPACE).await?;
        }
        Ok(())
    }

    /// Presses what is a box to tick or a choice of several, and waits until it is chosen.
    pub async fn choose(&self, name: &str) -> Result<()> {
        let chosen = |seen: &Seen| named(&seen.name, name) && seen.is(State::Checked);
        if self.look().await?.iter().any(chosen) {
            return Ok(());
        }
        self.press(name).await?;
        self.until(&format!("the tick at “{name}”"), LIMIT, chosen)
            .await
            .map(drop)
    }

    /// Types a text into the first field of a role, and presses Return.
    pub async fn type_into(&self, role: &str, text: &str) -> Result<()> {
        let field = self
            .until(role, LIMIT, |seen| {
                seen.role == role && seen.is(State::Sensitive)
            })
            .await?;
        let reply = field
            .node
            .call(
                &self.bus,
                "org.a11y.atspi.EditableText",
                "SetTextContents",
                &text,
            )
            .await?;
        let accepted: bool = reply.body().deserialize()?;
        if !accepted {
            bail!("the {role} takes no text");
        }
        self.give_focus(&field).await?;
        self.key(KEY_RETURN).await
    }

    async fn give_focus(&self, seen: &Seen) -> Result<()> {
        if !seen.node.focus(&self.bus).await? {
            bail!("“{}” does not take the keyboard", seen.name);
        }
        Ok(())
    }

    /// Presses a key of the keyboard, by its X keysym.
    async fn key(&self, keysym: i32) -> Result<()> {
        let body = (keysym, "", KEY_BY_SYM);
        self.bus
            .call_method(
                Some("org.a11y.atspi.Registry"),
                "/org/a11y/atspi/registry/deviceeventcontroller",
                Some("org.a11y.atspi.DeviceEventController"),
                "GenerateKeyboardEvent",
                &body,
            )
            .await
            .context("the desktop takes no key")?;
        Ok(())
    }
}

const KEY_SPACE: i32 = 0x20;
const KEY_RETURN: i32 = 0xff0d;
/// AT-SPI's way of pressing and releasing a key that is named by its symbol.
const KEY_BY_SYM: u32 = 3;

fn named(name: &str, wanted: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == wanted,
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The screen as an assistive technology sees it: look, wait, press, type. Every wait has an end.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::future::{join_all, join4};
use zbus::{Connection, connection};

use crate::node::{Node, Seen, State};
use crate::window;

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
    "checkbox",
    "radio",
    "radio button",
    "menu item",
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
            if let Err(error) = self.below(&program, 0, "", &mut all).await {
                eprintln!("cannot look at {}: {error:#}", program.bus);
            }
        }
        Ok(all)
    }

    async fn below(
        &self,
        node: &Node,
        depth: usize,
        window: &str,
        all: &mut Vec<Seen>,
    ) -> Result<()> {
        let children = node.children(&self.bus).await?;
        let looked = join_all(children.iter().map(|child| self.seen(child, depth, window))).await;
        for (child, seen) in children.iter().zip(looked) {
            // An object that goes away meanwhile is not on the screen.
            let Ok(seen) = seen else { continue };
            // GTK says of everything that it is visible; what is on no page that was ever shown has no size.
            if depth > 0 && (seen.place.width <= 0 || seen.place.height <= 0) {
                continue;
            }
            let window = if depth == 0 {
                seen.name.clone()
            } else {
                window.to_owned()
            };
            all.push(seen);
            Box::pin(self.below(child, depth + 1, &window, all)).await?;
        }
        Ok(())
    }

    async fn seen(&self, node: &Node, depth: usize, window: &str) -> Result<Seen> {
        let (states, name, role, place) = join4(
            node.states(&self.bus),
            node.name(&self.bus),
            node.role(&self.bus),
            node.place(&self.bus),
        )
        .await;
        Ok(Seen {
            node: node.clone(),
            depth,
            name: name?,
            role: role?,
            states: states?,
            place: place.unwrap_or_default(),
            window: window.to_owned(),
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

    /// Waits until a text, or anything that is named so, is on the screen. `*` at either end stands for any rest.
    pub async fn wait(&self, name: &str) -> Result<Seen> {
        self.until(&format!("“{name}”"), LIMIT, |seen| {
            named(&seen.name, name)
        })
        .await
    }

    /// Waits until something can be pressed, and presses it. `*` at either end of the name stands for any rest.
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
        // GTK gives buttons an action; boxes to tick and choices have none, and are clicked with the mouse.
        if !seen.node.act(&self.bus).await? {
            let (x, y) = self.until_mapped(&seen)?;
            self.input("GenerateMouseEvent", &(x, y, "b1c")).await?;
        }
        Ok(())
    }

    /// The middle of what is seen, on the screen; the window manager may need a moment to show its window.
    fn until_mapped(&self, seen: &Seen) -> Result<(i32, i32)> {
        let end = Instant::now() + LIMIT;
        loop {
            match window::on_screen(&seen.window, seen.place)? {
                Some(place) => return Ok(place),
                None if Instant::now() > end => bail!("there is no window “{}”", seen.window),
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
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
        // GTK 3, which the dialog is made with, activates a field as Return does.
        if !field.node.act(&self.bus).await? {
            self.input("GenerateKeyboardEvent", &(KEY_RETURN, "", KEY_BY_SYM))
                .await?;
        }
        Ok(())
    }

    /// Moves the mouse or presses a key, as the desktop lets assistive technologies do.
    async fn input<B>(&self, method: &str, body: &B) -> Result<()>
    where
        B: serde::Serialize + zbus::zvariant::DynamicType,
    {
        self.bus
            .call_method(
                Some("org.a11y.atspi.Registry"),
                "/org/a11y/atspi/registry/deviceeventcontroller",
                Some("org.a11y.atspi.DeviceEventController"),
                method,
                body,
            )
            .await
            .context("the desktop takes no input")?;
        Ok(())
    }
}

const KEY_RETURN: i32 = 0xff0d;
/// AT-SPI's way of pressing and releasing a key that is named by its symbol.
const KEY_BY_SYM: u32 = 3;

fn named(name: &str, wanted: &str) -> bool {
    match (wanted.strip_prefix('*'), wanted.strip_suffix('*')) {
        (Some(rest), _) => name.contains(rest.trim_end_matches('*')),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == wanted,
    }
}

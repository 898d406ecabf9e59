// SPDX-License-Identifier: GPL-3.0-or-later
//! One object of the accessibility tree, by raw calls: libatspi walks whole trees, which takes seconds under emulation.

use std::collections::HashMap;

use anyhow::{Context, Result};
use zbus::Connection;
use zbus::OwnedObjectPath;

const ACCESSIBLE: &str = "org.a11y.atspi.Accessible";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// Bits of an object's state, as AT-SPI numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// The box is ticked.
    Checked = 4,
    /// The object has the focus.
    Focused = 12,
    /// The object can be used now.
    Sensitive = 24,
}

/// The origin of a place, as AT-SPI numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Within {
    /// The whole screen.
    Screen = 0,
    /// The object's window.
    Window = 1,
}

/// A rectangle, in pixels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Distance from the left edge.
    pub left: i32,
    /// Distance from the upper edge.
    pub top: i32,
    /// Zero for an object on a page that was never shown.
    pub width: i32,
    /// Zero for an object on a page that was never shown.
    pub height: i32,
}

/// A reference to an object of some program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Unique bus name of the program.
    pub bus: String,
    /// Object path within the program.
    pub path: OwnedObjectPath,
}

/// The details of an object on the screen.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The object.
    pub node: Node,
    /// How deep it lies below its program.
    pub depth: usize,
    /// Name of the object as a screen reader says it.
    pub name: String,
    /// Role of the object in words, such as `push button`.
    pub role: String,
    /// State bits of the object.
    pub states: u64,
    /// Where it is in its window.
    pub place: Place,
    /// Name of the window that it is in.
    pub window: String,
}

impl State {
    /// The state among all bits.
    pub fn bit(self) -> u64 {
        1 << self as u32
    }
}

impl Seen {
    /// Whether a state holds.
    pub fn is(&self, state: State) -> bool {
        self.states & state.bit() != 0
    }
}

/// State bits as one number; on the bus they are words of 32 bits, lowest first.
pub fn bits(words: &[u32]) -> u64 {
    words
        .iter()
        .rev()
        .fold(0, |all, word| all << 32 | u64::from(*word))
}

impl Node {
    /// The object whose children are all programs on the bus.
    pub fn registry() -> Result<Self> {
        Self::new(
            "org.a11y.atspi.Registry".to_owned(),
            "/org/a11y/atspi/accessible/root",
        )
    }

    fn new(bus: String, path: &str) -> Result<Self> {
        Ok(Self {
            bus,
            path: OwnedObjectPath::try_from(path)?,
        })
    }

    /// The objects directly below.
    pub async fn children(&self, bus: &Connection) -> Result<Vec<Self>> {
        let reply = self.call(bus, ACCESSIBLE, "GetChildren", &()).await?;
        let children: Vec<(String, OwnedObjectPath)> = reply.body().deserialize()?;
        Ok(children
            .into_iter()
            .map(|(bus, path)| Self { bus, path })
            .collect())
    }

    /// State bits, as one number.
    pub async fn states(&self, bus: &Connection) -> Result<u64> {
        let words: Vec<u32> = self
            .call(bus, ACCESSIBLE, "GetState", &())
            .await?
            .body()
            .deserialize()?;
        Ok(bits(&words))
    }

    /// The name as a screen reader says it, and how many objects are directly below.
    pub async fn name_and_children(&self, bus: &Connection) -> Result<(String, i32)> {
        let reply = self.call(bus, PROPERTIES, "GetAll", &ACCESSIBLE).await?;
        let mut all: HashMap<String, zbus::OwnedVariant> = reply.body().deserialize()?;
        let name = all
            .remove("Name")
            .and_then(|name| String::try_from(name).ok());
        let count = all
            .remove("ChildCount")
            .and_then(|count| i32::try_from(count).ok());
        Ok((name.unwrap_or_default(), count.unwrap_or(0)))
    }

    /// Where the object is, in pixels.
    pub async fn place(&self, bus: &Connection, within: Within) -> Result<Place> {
        let reply = self
            .call(
                bus,
                "org.a11y.atspi.Component",
                "GetExtents",
                &(within as u32),
            )
            .await?;
        let (left, top, width, height) = reply.body().deserialize()?;
        Ok(Place {
            left,
            top,
            width,
            height,
        })
    }

    /// The role in words.
    pub async fn role(&self, bus: &Connection) -> Result<String> {
        Ok(self
            .call(bus, ACCESSIBLE, "GetRoleName", &())
            .await?
            .body()
            .deserialize()?)
    }

    /// Does the action of a click; returns false if the object has no such action.
    pub async fn act(&self, bus: &Connection) -> Result<bool> {
        let Ok(reply) = self
            .call(bus, "org.a11y.atspi.Action", "GetActions", &())
            .await
        else {
            return Ok(false);
        };
        let actions: Vec<(String, String, String)> = reply.body().deserialize()?;
        let wanted = ["click", "press", "activate", "toggle"];
        let Some(index) = actions
            .iter()
            .position(|(name, ..)| wanted.contains(&name.to_lowercase().as_str()))
        else {
            return Ok(false);
        };
        let reply = self
            .call(
                bus,
                "org.a11y.atspi.Action",
                "DoAction",
                &(i32::try_from(index)?),
            )
            .await?;
        Ok(reply.body().deserialize()?)
    }

    /// Calls a method of the object.
    pub async fn call<B>(
        &self,
        bus: &Connection,
        interface: &str,
        method: &str,
        body: &B,
    ) -> Result<zbus::Message>
    where
        B: serde::Serialize + zbus::zvariant::DynamicType,
    {
        bus.call_method(
            Some(self.bus.as_str()),
            &self.path,
            Some(interface),
            method,
            body,
        )
        .await
        .with_context(|| format!("{interface}.{method} on {}{}", self.bus, self.path.as_str()))
    }
}

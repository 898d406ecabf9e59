// SPDX-License-Identifier: GPL-3.0-or-later
//! Names of controls, as a screen reader reads them from the accessibility bus.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future;
use gtk::glib;
use zbus::{Connection, OwnedObjectPath, interface};

use super::Result;
use tandem_stage::node::{Node, Within};

/// Bits of an object's state, as AT-SPI numbers them.
const FOCUSABLE: u64 = 1 << 11;

/// How many objects are asked about together. Each is asked four questions, and the bus lets a program have 128 open ones.
const TOGETHER: usize = 30;

/// Roles of what a person can press, whether the keyboard reaches it or not.
const PRESSABLE: &[&str] = &[
    "button",
    "checkbox",
    "combo box",
    "link",
    "menu item",
    "radio",
    "slider",
    "spin button",
    "switch",
    "text box",
];
/// Roles of what only holds other objects. The focus goes there to scroll.
const HOLDERS: &[&str] = &["group", "list", "window"];

/// An object of a program: the program's name on the bus, and the object's path.
type Reference = (String, OwnedObjectPath);

/// The part of the accessibility registry that a program needs: it tells the registry its first object.
struct Registry(Arc<Mutex<Vec<Node>>>);

#[interface(name = "org.a11y.atspi.Socket")]
impl Registry {
    fn embed(&self, plug: Reference) -> (Reference,) {
        let (bus, path) = plug.clone();
        let mut programs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        programs.push(Node { bus, path });
        (plug,)
    }
}

/// A screen reader's place on the accessibility bus. Without a registry GTK shows nothing there, and the real one wants a
/// whole session around it.
pub struct Names {
    bus: Connection,
    programs: Arc<Mutex<Vec<Node>>>,
    /// The objects that have a name or need none: each is asked once. GTK gives each widget a path of its own.
    known: RefCell<HashMap<OwnedObjectPath, Known>>,
}

/// The facts of an object that do not change while the object is there.
#[derive(Clone)]
struct Known {
    is_control: bool,
    /// Role and name.
    label: String,
}

impl Names {
    /// Takes the place on the bus with this address.
    pub async fn connect(address: &str) -> Result<Self> {
        let programs = Arc::default();
        let bus = zbus::connection::Builder::address(address)
            .name("org.a11y.atspi.Registry")
            .serve_at(
                "/org/a11y/atspi/accessible/root",
                Registry(Arc::clone(&programs)),
            )
            .build()
            .await?;
        Ok(Self {
            bus,
            programs,
            known: RefCell::default(),
        })
    }

    /// How many controls are on the screen, and those without a name.
    pub async fn look(&self) -> Result<(usize, Vec<String>)> {
        let mut unnamed = Vec::new();
        let mut controls = 0;
        let mut rest: Vec<(Node, String)> = self
            .programs()
            .await?
            .into_iter()
            .map(|node| (node, String::new()))
            .collect();
        // Questions are asked together: GTK answers one in each turn of its main loop.
        while !rest.is_empty() {
            let now = rest.split_off(rest.len().saturating_sub(TOGETHER));
            let seen = now.into_iter().map(|(node, around)| self.see(node, around));
            for seen in future::try_join_all(seen).await?.into_iter().flatten() {
                controls += usize::from(seen.is_control);
                if !seen.is_told {
                    unnamed.push(format!("no name: {}", seen.place));
                }
                let children = seen.children.into_iter();
                rest.extend(children.map(|child| (child, seen.place.clone())));
            }
        }
        Ok((controls, unnamed))
    }

    /// The programs that have told of themselves, which GTK does a moment after its first window.
    async fn programs(&self) -> Result<Vec<Node>> {
        for _ in 0..500 {
            let programs = self.programs.lock();
            let programs = programs.unwrap_or_else(PoisonError::into_inner).clone();
            if !programs.is_empty() {
                return Ok(programs);
            }
            glib::timeout_future(Duration::from_millis(20)).await;
        }
        Err("GTK has not found the accessibility bus".into())
    }

    /// The object, unless it has gone away meanwhile.
    async fn see(&self, node: Node, around: String) -> Result<Option<Seen>> {
        match self.details(node, around).await {
            Err(error) if is_gone(&error) => Ok(None),
            details => Ok(details?),
        }
    }

    /// The object, unless it is on a page that was never shown.
    async fn details(&self, node: Node, around: String) -> anyhow::Result<Option<Seen>> {
        let known = self.known.borrow().get(&node.path).cloned();
        if let Some(known) = known {
            return self.again(node, known, around).await;
        }
        let (named, role, states, place) = future::join4(
            node.name_and_children(&self.bus),
            node.role(&self.bus),
            node.states(&self.bus),
            node.place(&self.bus, Within::Window),
        )
        .await;
        let ((name, _), role, states) = (named?, role?, states?);
        // A program as a whole has no place.
        if role != "application" {
            let place = place?;
            if place.width <= 0 || place.height <= 0 {
                return Ok(None);
            }
        }
        let label = format!("{role} {name:?}");
        let place = format!("{around}/{label}");
        let is_control = is_control(&role, states, &place);
        let is_told = !is_control || self.is_told(&node, &name, &role).await?;
        let children = node.children(&self.bus).await?;
        if is_told && role != "application" {
            let known = Known { is_control, label };
            self.known.borrow_mut().insert(node.path, known);
        }
        Ok(Some(Seen {
            is_told,
            children,
            is_control,
            place,
        }))
    }

    /// An object that was seen before, unless its page is not shown now.
    async fn again(
        &self,
        node: Node,
        known: Known,
        around: String,
    ) -> anyhow::Result<Option<Seen>> {
        let (place, children) = future::join(
            node.place(&self.bus, Within::Window),
            node.children(&self.bus),
        )
        .await;
        let (place, children) = (place?, children?);
        let is_there = place.width > 0 && place.height > 0;
        Ok(is_there.then(|| Seen {
            is_told: true,
            children,
            is_control: known.is_control,
            place: format!("{around}/{}", known.label),
        }))
    }

    /// Whether a screen reader has words for this control. GTK names a widget without a name by its type; then the
    /// description is left, which is the tooltip. On a button, an underscore is the mark of a key.
    async fn is_told(&self, node: &Node, name: &str, role: &str) -> anyhow::Result<bool> {
        let name = name.trim();
        let is_type = ["Gtk", "Adw", "Tandem"]
            .iter()
            .any(|start| name.starts_with(start) && !name.contains(' '));
        if !name.is_empty() && !is_type {
            return Ok(role != "button" || !name.contains('_'));
        }
        let property = ("org.a11y.atspi.Accessible", "Description");
        let properties = "org.freedesktop.DBus.Properties";
        let reply = node.call(&self.bus, properties, "Get", &property).await?;
        let description: zbus::OwnedVariant = reply.body().deserialize()?;
        Ok(String::try_from(description).is_ok_and(|words| !words.trim().is_empty()))
    }
}

/// An object on the screen.
struct Seen {
    is_control: bool,
    /// Whether a screen reader has words for it, if it is a control.
    is_told: bool,
    /// The objects around it, with this one, by role and name.
    place: String,
    children: Vec<Node>,
}

/// Whether the question was about an object that is no longer there.
fn is_gone(error: &anyhow::Error) -> bool {
    let words = error.root_cause().to_string();
    ["UnknownObject", "UnknownMethod"]
        .iter()
        .any(|gone| words.contains(gone))
}

/// Whether a person can press the object or bring the focus to it.
fn is_control(role: &str, states: u64, place: &str) -> bool {
    // GTK gives the entries of a drop-down list no names; a screen reader reads the labels in them.
    let is_entry = place.contains("/combo box ") && ["list item", "widget"].contains(&role);
    let is_focusable = states & FOCUSABLE != 0 && !HOLDERS.contains(&role);
    (is_focusable || PRESSABLE.contains(&role)) && !is_entry
}

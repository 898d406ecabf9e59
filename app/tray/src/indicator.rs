// SPDX-License-Identifier: GPL-3.0-or-later
//! The StatusNotifierItem: icon, tooltip, menu.

use std::process::Command;
use std::thread;

use gettextrs::gettext;
use ksni::menu::StandardItem;
use ksni::{Category, MenuItem, Status, ToolTip, Tray};

use crate::words::{self, Shown};

/// Shows all caches.
#[derive(Debug, Default)]
pub struct Indicator {
    /// The caches; hidden while there is none.
    pub caches: Vec<Shown>,
    /// Releases of the kernels that may start next and have no module.
    pub kernels: Vec<String>,
}

impl Tray for Indicator {
    fn id(&self) -> String {
        "org.tandemcache.Tandem".into()
    }

    fn title(&self) -> String {
        "Tandem".into()
    }

    fn category(&self) -> Category {
        Category::Hardware
    }

    fn status(&self) -> Status {
        if self.caches.is_empty() {
            Status::Passive
        } else if words::needs_attention(&self.caches) {
            Status::NeedsAttention
        } else {
            Status::Active
        }
    }

    fn icon_name(&self) -> String {
        words::icon(&self.caches).into()
    }

    fn attention_icon_name(&self) -> String {
        words::icon(&self.caches).into()
    }

    fn tool_tip(&self) -> ToolTip {
        ToolTip {
            title: "Tandem".into(),
            description: self
                .caches
                .iter()
                .map(words::tooltip)
                .chain(words::kernels(&self.kernels))
                .collect::<Vec<_>>()
                .join("\n\n"),
            ..ToolTip::default()
        }
    }

    fn activate(&mut self, _x: i32, _y: i32) {
        open();
    }

    fn menu(&self) -> Vec<MenuItem<Self>> {
        let mut items: Vec<MenuItem<Self>> = self
            .caches
            .iter()
            .map(|cache| {
                // In a menu a single underscore would mark a key.
                let label = words::line(cache).replace('_', "__");
                StandardItem {
                    label,
                    enabled: false,
                    ..StandardItem::default()
                }
                .into()
            })
            .collect();
        if !items.is_empty() {
            items.push(MenuItem::Separator);
        }
        items.push(
            StandardItem {
                label: gettext("Open Tandem"),
                activate: Box::new(|_| open()),
                ..StandardItem::default()
            }
            .into(),
        );
        items
    }
}

/// Opens the window, or brings it to the front if it is open.
pub fn open() {
    let mut window = Command::new("tandem");
    if let Some(token) = ksni::current_xdg_activation_token() {
        window.env("XDG_ACTIVATION_TOKEN", token);
    }
    match window.spawn() {
        // A thread waits for the window's process, or the process would stay as a zombie.
        Ok(mut child) => drop(thread::spawn(move || child.wait())),
        Err(error) => tracing::warn!("the window cannot be opened: {error}"),
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The StatusNotifierItem: icon, tooltip, menu.

use std::path::PathBuf;
use std::process::Command;
use std::{env, thread};

use gettextrs::gettext;
use ksni::menu::StandardItem;
use ksni::{Category, MenuItem, Status, ToolTip, Tray};

use crate::words::{self, Shown, escaped};
use crate::{pause, write_back};

/// The icon that shows all caches.
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
                .map(|words| escaped(&words))
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
        let dirty = self.caches.iter().filter(|cache| cache.can_write_back());
        let dirty: Vec<_> = dirty.cloned().collect();
        if !dirty.is_empty() {
            let write_back = move |_: &mut Self| dirty.iter().for_each(write_back::begin);
            items.push(action(
                gettext("Write Everything to the Hard Disk Now"),
                write_back,
            ));
        }
        items.extend(self.pause());
        items.push(action(gettext("Open Tandem"), |_| open()));
        items.push(action(gettext("Quit"), |_| std::process::exit(0)));
        items
    }
}

impl Indicator {
    /// The entry that pauses all caches; if one is paused, the entry has all go on.
    fn pause(&self) -> Option<MenuItem<Self>> {
        let working = self.caches.iter().filter(|cache| cache.can_pause());
        let caches: Vec<_> = working.cloned().collect();
        let paused = caches.iter().any(|cache| cache.paused);
        let label = match (paused, caches.len()) {
            (_, 0) => return None,
            (false, 1) => gettext("Pause the Cache"),
            (false, _) => gettext("Pause All Caches"),
            (true, 1) => gettext("Resume the Cache"),
            (true, _) => gettext("Resume All Caches"),
        };
        Some(action(label, move |_| {
            let others = caches.iter().filter(|cache| cache.paused == paused);
            pause::begin(others.cloned().collect(), !paused);
        }))
    }
}

fn action(
    label: String,
    activate: impl Fn(&mut Indicator) + Send + 'static,
) -> MenuItem<Indicator> {
    StandardItem {
        label,
        activate: Box::new(activate),
        ..StandardItem::default()
    }
    .into()
}

/// The program with the window, which is installed beside this one: `PATH` may not name that folder.
fn window_program() -> PathBuf {
    let own = env::current_exe().unwrap_or_default();
    own.with_file_name("tandem")
}

/// Opens the window, or brings it to the front if it is open.
pub fn open() {
    let mut window = Command::new(window_program());
    if let Some(token) = ksni::current_xdg_activation_token() {
        window.env("XDG_ACTIVATION_TOKEN", token);
    }
    match window.spawn() {
        // A thread waits for the window's process, or the process would stay as a zombie.
        Ok(mut child) => drop(thread::spawn(move || child.wait())),
        Err(error) => tracing::warn!("the window cannot be opened: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::tests::cache;
    use tandem_api::CacheState;

    #[test]
    fn the_label_of_a_disk_is_no_markup_in_the_tooltip() {
        let disk = "<a href=\"http://x\">Archive</a>".to_owned();
        let shown = Shown {
            disk,
            ..cache(CacheState::Active, None)
        };
        let indicator = Indicator {
            caches: vec![shown],
            kernels: Vec::new(),
        };
        let words = indicator.tool_tip().description;
        assert!(words.contains("Archive"), "{words}");
        assert!(!words.contains('<'), "{words}");
    }
}

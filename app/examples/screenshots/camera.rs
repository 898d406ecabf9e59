// SPDX-License-Identifier: GPL-3.0-or-later
//! Takes a picture of a window that has come to rest.

use std::path::PathBuf;
use std::time::Duration;

use adw::prelude::*;
use gtk::glib;

use crate::Result;
use crate::stage::hand;

/// Width in pixels that GTK gives its own window of shortcuts at least.
const SHORTCUTS: i32 = 434;

/// Where the pictures go, and how wide a window may be.
pub struct Camera {
    pub folder: PathBuf,
    pub width: i32,
    /// Size of the text, 1 as usual.
    pub scale: f64,
}

impl Camera {
    /// Takes a picture of a window that has come to rest.
    pub async fn take(&self, window: &impl IsA<gtk::Window>, name: &str) -> Result {
        let window = window.upcast_ref::<gtk::Window>();
        glib::timeout_future(Duration::from_millis(350)).await;
        // With larger text a window may have to be wider.
        let width = match window.is::<gtk::ShortcutsWindow>() {
            true => self.width.max(SHORTCUTS),
            false => self.width,
        };
        let room = (f64::from(width) * self.scale) as i32;
        hand::wait(window, "narrow window", || {
            (window.width() <= room).then_some(())
        })
        .await;
        let paintable = gtk::WidgetPaintable::new(Some(window));
        let node = loop {
            let (width, height) = (paintable.intrinsic_width(), paintable.intrinsic_height());
            let snapshot = gtk::Snapshot::new();
            paintable.snapshot(&snapshot, f64::from(width), f64::from(height));
            // A window that was just resized is empty until its next frame.
            if let Some(node) = snapshot.to_node() {
                break node;
            }
            glib::timeout_future(Duration::from_millis(50)).await;
        };
        let texture = window
            .renderer()
            .ok_or("a window that is not there yet")?
            .render_texture(&node, None);
        self.keep(&texture, name)
    }

    /// Keeps a picture that the app itself has drawn.
    pub fn keep(&self, texture: &gtk::gdk::Texture, name: &str) -> Result {
        texture.save_to_png(self.folder.join(format!("{name}.png")))?;
        Ok(())
    }
}

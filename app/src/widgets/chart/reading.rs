// SPDX-License-Identifier: GPL-3.0-or-later
//! What a chart and a curve have in common: a person reads them place by place, with the pointer or the arrow keys.

use gtk::glib::clone::{Downgrade, Upgrade};
use gtk::glib::{self, clone};
use gtk::{gdk, prelude::*};

/// A drawing with places, such as bars, of which one can be selected.
pub trait Readable:
    IsA<gtk::DrawingArea> + IsA<gtk::Widget> + Downgrade<Weak: Upgrade<Strong = Self>>
{
    /// Draws on a surface of this size in pixels.
    fn draw(&self, cairo: &gtk::cairo::Context, size: (i32, i32));

    /// The place at this distance from the left edge, in pixels.
    fn place_at(&self, x: f64) -> Option<usize>;

    /// Number of places.
    fn places(&self) -> usize;

    /// The place that the arrow to the right selects if none is selected.
    fn first_to_the_right(&self) -> Option<usize>;

    /// The selected place.
    fn selected_place(&self) -> Option<usize>;

    /// Selects a place, or none.
    fn select(&self, place: Option<usize>);
}

/// Prepares a drawing of this height in pixels. It is drawn anew when the desktop gets dark or light.
pub fn prepare<W: Readable>(widget: &W, height: i32) {
    widget.set_content_height(height);
    widget.set_hexpand(true);
    widget.set_focusable(true);
    widget.add_css_class("chart");
    widget.set_draw_func(|area, cairo, width, height| {
        if let Some(widget) = area.downcast_ref::<W>() {
            widget.draw(cairo, (width, height));
        }
    });
    adw::StyleManager::default().connect_dark_notify(clone!(
        #[weak]
        widget,
        move |_| widget.queue_draw()
    ));
    let pointer = gtk::EventControllerMotion::new();
    pointer.connect_motion(clone!(
        #[weak]
        widget,
        move |_, x, _| widget.select(widget.place_at(x))
    ));
    pointer.connect_leave(clone!(
        #[weak]
        widget,
        move |_| widget.select(None)
    ));
    widget.add_controller(pointer);
    let keys = gtk::EventControllerKey::new();
    keys.connect_key_pressed(clone!(
        #[weak]
        widget,
        #[upgrade_or]
        glib::Propagation::Proceed,
        move |_, key, _, _| key_pressed(&widget, key)
    ));
    widget.add_controller(keys);
}

fn key_pressed(widget: &impl Readable, key: gdk::Key) -> glib::Propagation {
    let last = widget.places().checked_sub(1);
    let at = widget.selected_place();
    let wanted = match key {
        gdk::Key::Left => at.map_or(last, |at| Some(at.saturating_sub(1))),
        gdk::Key::Right => at.map_or_else(
            || widget.first_to_the_right(),
            |at| last.map(|last| last.min(at + 1)),
        ),
        gdk::Key::Home => last.map(|_| 0),
        gdk::Key::End => last,
        gdk::Key::Escape if at.is_some() => None,
        _ => return glib::Propagation::Proceed,
    };
    widget.select(wanted);
    glib::Propagation::Stop
}

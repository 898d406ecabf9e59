// SPDX-License-Identifier: GPL-3.0-or-later
//! Contrast of texts, measured on the pixels of a window: the most frequent colour around a text is its background,
//! and the colour with the most contrast to that one is the text's own.

use std::collections::HashMap;
use std::time::Duration;

use adw::prelude::*;
use gtk::{glib, graphene, pango};

use super::{Result, shown};

/// How many times larger than on the screen a window is drawn: the strokes of small letters then have their full colour.
const SCALE: i32 = 2;
/// Least contrast of a text, and of a large one, as WCAG 2 has it.
const LEAST: f64 = 4.5;
const LEAST_LARGE: f64 = 3.0;
/// Heights from which a text is large, in pixels.
const LARGE: f64 = 24.0;
const LARGE_BOLD: f64 = 18.6;
/// Pixels that a colour needs at least: one letter has more of them.
const FEWEST: usize = 4;

type Colour = [u8; 3];

/// The pixels of a window.
struct Picture {
    /// The corner of the picture in the window's coordinates, which begin inside the window's border.
    corner: graphene::Point,
    width: i32,
    height: i32,
    pixels: Vec<u8>,
}

/// How many texts are on the screen in this window, and those that are too faint.
pub async fn look(window: &gtk::Window) -> Result<(usize, Vec<String>)> {
    let picture = Picture::of(window).await?;
    let mut texts = 0;
    let mut faint = Vec::new();
    for widget in shown(window) {
        let Some(text) = words(&widget) else {
            continue;
        };
        if is_inactive(&widget) {
            continue;
        }
        let Some(place) = visible_place(&widget, window) else {
            continue;
        };
        let Some((text_colour, ground)) = picture.colours(&place) else {
            continue;
        };
        texts += 1;
        let least = if is_large(&widget) {
            LEAST_LARGE
        } else {
            LEAST
        };
        let is = contrast(text_colour, ground);
        if is < least {
            faint.push(format!(
                "{is:.2} of {least}, {} on {}: {text:?} {:?}",
                hex(text_colour),
                hex(ground),
                style_classes(&widget),
            ));
        }
    }
    Ok((texts, faint))
}

impl Picture {
    async fn of(window: &gtk::Window) -> Result<Self> {
        let paintable = gtk::WidgetPaintable::new(Some(window));
        loop {
            let width = paintable.intrinsic_width() * SCALE;
            let height = paintable.intrinsic_height() * SCALE;
            let snapshot = gtk::Snapshot::new();
            paintable.snapshot(&snapshot, f64::from(width), f64::from(height));
            // A window that was just resized is empty until its next frame.
            let Some(node) = snapshot.to_node() else {
                glib::timeout_future(Duration::from_millis(50)).await;
                continue;
            };
            let renderer = window.renderer().ok_or("a window that is not there yet")?;
            let all = graphene::Rect::new(0.0, 0.0, width as f32, height as f32);
            let texture = renderer.render_texture(&node, Some(&all));
            let mut pixels = vec![0; width as usize * height as usize * 4];
            texture.download(&mut pixels, width as usize * 4);
            let bounds = window
                .compute_bounds(window)
                .ok_or("a window without a size")?;
            return Ok(Self {
                corner: bounds.top_left(),
                width,
                height,
                pixels,
            });
        }
    }

    /// The colours of the text and of the ground in a rectangle of the window; nothing if there is no text.
    fn colours(&self, place: &graphene::Rect) -> Option<(Colour, Colour)> {
        let place = place.offset_r(-self.corner.x(), -self.corner.y());
        let edge = |at: f32, most: i32| ((at * SCALE as f32).round() as i32).clamp(0, most);
        let (left, right) = (
            edge(place.x(), self.width),
            edge(place.x() + place.width(), self.width),
        );
        let (top, bottom) = (
            edge(place.y(), self.height),
            edge(place.y() + place.height(), self.height),
        );
        let mut counts: HashMap<Colour, usize> = HashMap::new();
        for y in top..bottom {
            let [start, end] = [left, right].map(|x| (y * self.width + x) as usize * 4);
            let (pixels, _) = self.pixels[start..end].as_chunks::<4>();
            // Most pixels are as the one before.
            for run in pixels.chunk_by(|one, next| one == next) {
                // The order is BGRA, and windows are opaque.
                let [blue, green, red, _] = run[0];
                *counts.entry([red, green, blue]).or_default() += run.len();
            }
        }
        let (&ground, _) = counts.iter().max_by_key(|(_, count)| **count)?;
        let strong = counts
            .iter()
            .filter(|(_, count)| **count >= FEWEST)
            .map(|(colour, _)| *colour);
        let text = strong
            .max_by(|one, other| contrast(*one, ground).total_cmp(&contrast(*other, ground)))?;
        (text != ground).then_some((text, ground))
    }
}

/// The words of a widget that shows text.
fn words(widget: &gtk::Widget) -> Option<String> {
    let words = if let Some(label) = widget.downcast_ref::<gtk::Label>() {
        label.text().to_string()
    } else if let Some(text) = widget.downcast_ref::<gtk::Text>() {
        text.text().to_string()
    } else {
        String::new()
    };
    (!words.trim().is_empty()).then_some(words)
}

/// Whether the text is on a control that cannot be used now, which WCAG lets be faint. A row that cannot be chosen says
/// why, so that its words have to be read.
fn is_inactive(widget: &gtk::Widget) -> bool {
    let mut at = Some(widget.clone());
    while let Some(widget) = at {
        if widget.is::<gtk::ListBoxRow>() {
            return false;
        }
        if widget.is::<gtk::Button>() || widget.is::<gtk::DropDown>() {
            return !widget.is_sensitive();
        }
        at = widget.parent();
    }
    false
}

/// Where the text is in the window, if the most of it can be seen.
fn visible_place(widget: &gtk::Widget, window: &gtk::Window) -> Option<graphene::Rect> {
    let whole = widget.compute_bounds(window)?;
    let mut seen = whole;
    let mut at = widget.parent();
    while let Some(around) = at {
        if around.is::<gtk::ScrolledWindow>() || &around == window {
            seen = seen.intersection(&around.compute_bounds(window)?)?;
        }
        at = around.parent();
    }
    if seen.height() < whole.height() * 0.7 || seen.width() < 2.0 {
        return None;
    }
    // Something may lie over it, such as a toast.
    let flags = gtk::PickFlags::INSENSITIVE | gtk::PickFlags::NON_TARGETABLE;
    let middle = seen.center();
    let top = window.pick(middle.x().into(), middle.y().into(), flags)?;
    (top == *widget || top.is_ancestor(widget) || widget.is_ancestor(&top)).then_some(seen)
}

fn is_large(widget: &gtk::Widget) -> bool {
    let Some(font) = widget.pango_context().font_description() else {
        return false;
    };
    let size = f64::from(font.size()) / f64::from(pango::SCALE);
    let pixels = if font.is_size_absolute() {
        size
    } else {
        size * 96.0 / 72.0
    };
    let bold = font.weight() >= pango::Weight::Bold;
    pixels >= LARGE || bold && pixels >= LARGE_BOLD
}

/// The style classes of a widget and of those around it, to find the rule in the style.
fn style_classes(widget: &gtk::Widget) -> String {
    let mut all = Vec::new();
    let mut at = Some(widget.clone());
    while let Some(widget) = at.filter(|_| all.len() < 5) {
        let classes = widget.css_classes();
        let name = widget.css_name();
        all.push([&[name], classes.as_slice()].concat().join("."));
        at = widget.parent();
    }
    all.join(" < ")
}

/// Contrast of two colours as WCAG 2 has it, from 1 to 21.
fn contrast(one: Colour, other: Colour) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

fn luminance(colour: Colour) -> f64 {
    let linear = colour.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 {
            part / 12.92
        } else {
            ((part + 0.055) / 1.055).powf(2.4)
        }
    });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

fn hex(colour: Colour) -> String {
    let [red, green, blue] = colour;
    format!("#{red:02x}{green:02x}{blue:02x}")
}

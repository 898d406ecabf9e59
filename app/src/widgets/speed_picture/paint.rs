// SPDX-License-Identifier: GPL-3.0-or-later
//! Draws the result of a speed test: lines of text that wrap, and a bar for each speed. The height follows from the
//! width.

use gtk::{cairo, gdk, pango};

use crate::display::SpeedWords;

/// Height of a bar, and the spaces after lines, bars and parts, in pixels.
const BAR: f64 = 12.0;
const AFTER_LINE: f64 = 4.0;
const AFTER_BAR: f64 = 10.0;
const AFTER_PART: f64 = 14.0;
/// The shortest bar: a bar of a very small share can still be seen.
const SHORTEST: f64 = 3.0;

/// Colours of a picture.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub text: gdk::RGBA,
    pub ssd: gdk::RGBA,
    pub disk: gdk::RGBA,
    pub warning: gdk::RGBA,
}

impl Look {
    /// For a picture on a white ground.
    pub const ON_WHITE: Self = Self {
        text: gdk::RGBA::new(0.15, 0.15, 0.15, 1.0),
        ssd: gdk::RGBA::new(0.11, 0.44, 0.85, 1.0),
        disk: gdk::RGBA::new(0.47, 0.46, 0.48, 1.0),
        warning: gdk::RGBA::new(0.78, 0.27, 0.0, 1.0),
    };
}

/// Text sizes, as multiples of the usual size.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Style {
    Title,
    Part,
    Result,
    Line,
    Small,
}

impl Style {
    fn scale(self) -> f64 {
        match self {
            Self::Title | Self::Part => 1.0,
            Self::Result => 1.7,
            Self::Line => 0.95,
            Self::Small => 0.85,
        }
    }

    fn bold(self) -> bool {
        matches!(self, Self::Title | Self::Result)
    }
}

/// A piece of the picture, from top to bottom.
#[derive(Debug)]
enum Piece<'a> {
    Text(&'a str, Style, gdk::RGBA),
    Bar { share: f64, colour: gdk::RGBA },
    Space(f64),
}

fn pieces<'a>(words: &'a SpeedWords, look: &Look) -> Vec<Piece<'a>> {
    let mut all = vec![
        Piece::Text(&words.title, Style::Title, look.text),
        Piece::Space(AFTER_PART),
    ];
    if !words.warning.is_empty() {
        all.push(Piece::Text(&words.warning, Style::Line, look.warning));
        all.push(Piece::Space(AFTER_PART));
    }
    for part in &words.parts {
        all.push(Piece::Text(&part.title, Style::Part, look.text));
        let colour = if part.faster { look.ssd } else { look.text };
        all.push(Piece::Text(&part.result, Style::Result, colour));
        all.push(Piece::Space(AFTER_LINE));
        for line in &part.lines {
            all.push(Piece::Text(&line.words, Style::Line, look.text));
            all.push(Piece::Space(AFTER_LINE));
            all.push(Piece::Bar {
                share: line.share,
                colour: if line.with_ssd { look.ssd } else { look.disk },
            });
            all.push(Piece::Space(AFTER_BAR));
        }
        if !part.note.is_empty() {
            all.push(Piece::Text(&part.note, Style::Line, look.warning));
        }
        all.push(Piece::Space(AFTER_PART));
    }
    all.push(Piece::Text(&words.footer, Style::Small, look.text));
    all
}

fn layout(text: &pango::Context, words: &str, style: Style, width: i32) -> pango::Layout {
    let layout = pango::Layout::new(text);
    layout.set_width(width * pango::SCALE);
    layout.set_wrap(pango::WrapMode::WordChar);
    let attributes = pango::AttrList::new();
    attributes.insert(pango::AttrFloat::new_scale(style.scale()));
    if style.bold() {
        attributes.insert(pango::AttrInt::new_weight(pango::Weight::Bold));
    }
    layout.set_attributes(Some(&attributes));
    layout.set_text(words);
    layout
}

/// Height of the picture of this width, in pixels.
pub fn height(words: &SpeedWords, width: i32, text: &pango::Context) -> i32 {
    let all = pieces(words, &Look::ON_WHITE);
    let heights = all.iter().map(|piece| match piece {
        Piece::Text(words, style, _) => layout(text, words, *style, width).pixel_size().1.into(),
        Piece::Bar { .. } => BAR,
        Piece::Space(space) => *space,
    });
    heights.sum::<f64>().ceil() as i32
}

/// Draws the picture from the top left corner on. `mirrored`: for a language that is written from right to left.
pub fn paint(
    cairo: &cairo::Context,
    words: &SpeedWords,
    width: i32,
    text: &pango::Context,
    look: &Look,
    mirrored: bool,
) {
    let mut y = 0.0;
    for piece in pieces(words, look) {
        y += match piece {
            Piece::Text(words, style, colour) => {
                let layout = layout(text, words, style, width);
                set_colour(cairo, colour, 1.0);
                cairo.move_to(0.0, y);
                pangocairo::functions::show_layout(cairo, &layout);
                layout.pixel_size().1.into()
            }
            Piece::Bar { share, colour } => {
                let width = f64::from(width);
                set_colour(cairo, look.text, 0.08);
                bar(cairo, (0.0, y), width);
                let length = (share * width).max(SHORTEST);
                let x = if mirrored { width - length } else { 0.0 };
                set_colour(cairo, colour, 1.0);
                bar(cairo, (x, y), length);
                BAR
            }
            Piece::Space(space) => space,
        };
    }
}

fn set_colour(cairo: &cairo::Context, colour: gdk::RGBA, alpha: f64) {
    cairo.set_source_rgba(
        colour.red().into(),
        colour.green().into(),
        colour.blue().into(),
        f64::from(colour.alpha()) * alpha,
    );
}

/// Fills a bar with round ends.
fn bar(cairo: &cairo::Context, (x, y): (f64, f64), length: f64) {
    use std::f64::consts::FRAC_PI_2;
    let radius = (BAR / 2.0).min(length / 2.0);
    let (left, right) = (x + radius, x + length - radius);
    let (top, bottom) = (y + radius, y + BAR - radius);
    cairo.new_path();
    cairo.arc(left, top, radius, 2.0 * FRAC_PI_2, 3.0 * FRAC_PI_2);
    cairo.arc(right, top, radius, 3.0 * FRAC_PI_2, 4.0 * FRAC_PI_2);
    cairo.arc(right, bottom, radius, 0.0, FRAC_PI_2);
    cairo.arc(left, bottom, radius, FRAC_PI_2, 2.0 * FRAC_PI_2);
    cairo.close_path();
    // A failure leaves the picture without this bar; the words tell its speed.
    if let Err(error) = cairo.fill() {
        tracing::warn!("a bar could not be drawn: {error}");
    }
}

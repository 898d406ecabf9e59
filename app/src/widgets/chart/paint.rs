// SPDX-License-Identifier: GPL-3.0-or-later
//! Draws a series. plotters draws the lines, on a grid four times as fine as the pixels because it rounds to whole
//! numbers. Pango draws the text in the font of the desktop.

use gettextrs::gettext;
use gtk::{gdk, pango};
use plotters::prelude::*;
use plotters::style::RGBAColor;
use plotters_cairo::CairoBackend;

use super::axis::{Frame, minute_marks, share_marks};
use super::curve::smooth;
use crate::display::{fill, percent};
use crate::model::series::{Point, SPAN_US, Series};

/// Grid points of plotters for each pixel, in each direction.
const FINE: f64 = 4.0;

/// Colours of a chart.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Labels and, fainter, the grid.
    pub text: gdk::RGBA,
    /// Line of the hit rate.
    pub hit: gdk::RGBA,
    /// Line of the dirty share.
    pub dirty: gdk::RGBA,
}

/// Drawing may fail in Cairo or plotters. The chart then keeps what was drawn before the failure.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Draws `series` on a surface of this size in pixels; draws the dirty share only if `dirty`.
///
/// # Errors
/// Cairo cannot draw, for example because there is no memory.
pub fn paint(
    cairo: &cairo::Context,
    (width, height): (i32, i32),
    series: &Series,
    dirty: bool,
    palette: &Palette,
    labels: &pango::Context,
) -> Result<()> {
    let layout = pango::Layout::new(labels);
    layout.set_text(&percent(1.0));
    let (label_width, label_height) = layout.pixel_size();
    let frame = Frame::inside(
        f64::from(width),
        f64::from(height),
        f64::from(label_width),
        f64::from(label_height),
    );
    let label_height = f64::from(label_height);
    let marks = share_marks(frame.bottom - frame.top, label_height);
    let minutes = minutes(&layout, &frame);

    cairo.set_source_rgba(
        rgb(palette.text).0,
        rgb(palette.text).1,
        rgb(palette.text).2,
        0.7,
    );
    for share in marks {
        layout.set_text(&percent(*share));
        let label = f64::from(layout.pixel_size().0);
        text(
            cairo,
            &layout,
            frame.left - 8.0 - label,
            frame.y(*share) - label_height / 2.0,
        );
    }
    for (minute, words) in &minutes {
        layout.set_text(words);
        let label = f64::from(layout.pixel_size().0);
        let x = frame.x(0, minute * 60_000_000, SPAN_US) - label / 2.0;
        let x = x.clamp(frame.left, frame.right - label);
        text(cairo, &layout, x, frame.bottom + 8.0);
    }

    cairo.save()?;
    cairo.scale(1.0 / FINE, 1.0 / FINE);
    cairo.set_line_join(cairo::LineJoin::Round);
    cairo.set_line_cap(cairo::LineCap::Round);
    let size = |pixels: i32| (f64::from(pixels.max(1)) * FINE) as u32;
    let area = CairoBackend::new(cairo, (size(width), size(height)))?.into_drawing_area();
    let grid = colour(palette.text, 0.12).stroke_width(FINE as u32);
    for share in marks {
        let y = frame.y(*share).floor() + 0.5;
        area.draw(&PathElement::new(
            vec![fine((frame.left, y)), fine((frame.right, y))],
            grid,
        ))?;
    }
    let now = series.last().map_or(0, |point| point.time_us);
    let spot = |(time_us, share): (u64, f64)| (frame.x(time_us, now, SPAN_US), frame.y(share));
    // The oldest points are left of the plot; without them the line would begin with a jump.
    let shown = || {
        series
            .points()
            .filter(|point| now.saturating_sub(point.time_us) <= SPAN_US)
    };
    let dirty = if dirty {
        pieces(shown(), |point| Some(point.dirty))
    } else {
        Vec::new()
    };
    let hit = with_windows(pieces(shown(), |point| point.hit_rate), shown());
    for (pieces, shade) in [(dirty, palette.dirty), (hit, palette.hit)] {
        for piece in pieces {
            let piece: Vec<_> = piece.into_iter().map(spot).collect();
            draw_piece(&area, &frame, &smooth(&piece, 1.0), shade)?;
        }
    }
    area.present()?;
    drop(area);
    cairo.restore()?;
    Ok(())
}

/// Times and shares of points that one line connects.
type Piece = Vec<(u64, f64)>;

/// The runs of points that one line connects. A run ends where `share` gives nothing, or where a point starts a new
/// line.
fn pieces<'a>(
    points: impl Iterator<Item = &'a Point>,
    share: impl Fn(&Point) -> Option<f64>,
) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = vec![Vec::new()];
    for point in points {
        if point.starts {
            pieces.push(Vec::new());
        }
        match (share(point), pieces.last_mut()) {
            (Some(share), Some(piece)) => piece.push((point.time_us, share)),
            _ => pieces.push(Vec::new()),
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Makes a line of each single point between two idle times: its rate is that of a window, so that the line gets the
/// length of that window.
fn with_windows<'a>(
    mut pieces: Vec<Piece>,
    mut points: impl Iterator<Item = &'a Point>,
) -> Vec<Piece> {
    for piece in &mut pieces {
        if let [(time_us, share)] = piece[..]
            && let Some(point) = points.find(|point| point.time_us == time_us)
        {
            piece.insert(0, (point.since_us, share));
        }
    }
    pieces
}

fn draw_piece<DB: DrawingBackend>(
    area: &DrawingArea<DB, plotters::coord::Shift>,
    frame: &Frame,
    line: &[(f64, f64)],
    shade: gdk::RGBA,
) -> Result<()>
where
    DB::ErrorType: 'static,
{
    let [first, .., last] = line else {
        return Ok(());
    };
    let path: Vec<(i32, i32)> = line.iter().copied().map(fine).collect();
    let mut below = path.clone();
    below.extend([fine((last.0, frame.bottom)), fine((first.0, frame.bottom))]);
    area.draw(&Polygon::new(below, colour(shade, 0.15).filled()))?;
    area.draw(&PathElement::new(
        path,
        colour(shade, 1.0).stroke_width((2.0 * FINE) as u32),
    ))?;
    Ok(())
}

/// Minutes to mark and their words.
fn minutes(layout: &pango::Layout, frame: &Frame) -> Vec<(u64, String)> {
    let words = |minute: u64| match minute {
        // Translators: the right end of the time axis
        0 => gettext("now"),
        // Translators: a mark of the time axis, as short as possible
        _ => fill(
            &gettext("−{minutes} min"),
            &[("minutes", &minute.to_string())],
        ),
    };
    layout.set_text(&words(5));
    let widest = f64::from(layout.pixel_size().0);
    minute_marks(SPAN_US, frame.right - frame.left, widest)
        .into_iter()
        .map(|minute| (minute, words(minute)))
        .collect()
}

fn text(cairo: &cairo::Context, layout: &pango::Layout, x: f64, y: f64) {
    cairo.move_to(x, y);
    pangocairo::functions::show_layout(cairo, layout);
}

fn fine((x, y): (f64, f64)) -> (i32, i32) {
    ((x * FINE).round() as i32, (y * FINE).round() as i32)
}

fn rgb(shade: gdk::RGBA) -> (f64, f64, f64) {
    (
        f64::from(shade.red()),
        f64::from(shade.green()),
        f64::from(shade.blue()),
    )
}

fn colour(shade: gdk::RGBA, alpha: f64) -> RGBAColor {
    let part = |value: f64| (value * 255.0).round() as u8;
    let (red, green, blue) = rgb(shade);
    RGBAColor(part(red), part(green), part(blue), alpha)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_breaks_where_nothing_was_read_and_where_counting_starts_anew() {
        let point = |time_us: u64, hit_rate, starts| Point {
            time_us,
            since_us: time_us.saturating_sub(1),
            hit_rate,
            dirty: 0.0,
            starts,
        };
        let points = [
            point(1, Some(0.1), true),
            point(2, Some(0.2), false),
            point(3, None, false),
            point(4, Some(0.4), false),
            point(5, Some(0.5), true),
        ];
        let runs = pieces(points.iter(), |point| point.hit_rate);
        assert_eq!(
            runs,
            [vec![(1, 0.1), (2, 0.2)], vec![(4, 0.4)], vec![(5, 0.5)]]
        );
        // A single point becomes a line as long as its window, not a dot.
        assert_eq!(
            with_windows(runs, points.iter()),
            [
                vec![(1, 0.1), (2, 0.2)],
                vec![(3, 0.4), (4, 0.4)],
                vec![(4, 0.5), (5, 0.5)]
            ]
        );
    }
}

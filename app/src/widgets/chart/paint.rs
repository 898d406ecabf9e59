// SPDX-License-Identifier: GPL-3.0-or-later
//! Draws bars. plotters draws the areas and lines, and Pango the text in the font of the desktop.

use gtk::{gdk, pango};
use plotters::prelude::*;

use super::axis::{Frame, Times, time_marks};
use super::brush::{
    Area, FINE, Result, colour, draw_area, draw_line, fine, on_fine_grid, rgb, text,
};
use crate::display::{axis_bytes, axis_rate, axis_time};
use crate::model::bars::{Bar, axis_top};
use crate::model::range::Range;

/// Pixels between a label and the plot, and between two plots.
const GAP: f64 = 8.0;

/// Colours of a chart.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Labels and, fainter, the grid.
    pub text: gdk::RGBA,
    /// Reads from the SSD.
    pub ssd: gdk::RGBA,
    /// Reads from the disk.
    pub disk: gdk::RGBA,
    /// Writes.
    pub written: gdk::RGBA,
    /// Dirty data.
    pub dirty: gdk::RGBA,
}

/// What a chart shows.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The bars, oldest first.
    pub bars: &'a [Bar],
    /// How far back the chart goes.
    pub range: Range,
    /// The time of the right edge, in seconds of Unix time.
    pub now: f64,
    /// Whether a second plot shows the dirty data.
    pub dirty: bool,
    /// The bar that the person looks at.
    pub selected: Option<usize>,
}

impl Contents<'_> {
    /// The time that the chart shows.
    #[must_use]
    pub fn times(&self) -> Times {
        Times {
            start: self.now - self.range.seconds() as f64,
            end: self.now,
        }
    }

    fn top(&self) -> u64 {
        let most = self.bars.iter().map(|bar| bar.read().max(bar.written));
        axis_top(most.max().unwrap_or(0))
    }

    fn dirty_top(&self) -> u64 {
        axis_top(self.bars.iter().map(|bar| bar.dirty).max().unwrap_or(0))
    }
}

/// The plots of a widget of this size in pixels: of the rates and, if there is one, of the dirty data.
#[must_use]
pub fn frames(
    (width, height): (i32, i32),
    contents: &Contents<'_>,
    labels: &pango::Context,
) -> (Frame, Option<Frame>) {
    let layout = pango::Layout::new(labels);
    let (mut widest, mut label_height) = (0, 0);
    let (top, dirty_top) = (contents.top(), contents.dirty_top());
    let rates = [top / 2, top].map(axis_rate);
    let amounts = [dirty_top / 2, dirty_top].map(axis_bytes);
    let amounts = amounts.iter().filter(|_| contents.dirty);
    for label in rates.iter().chain(amounts) {
        layout.set_text(label);
        let size = layout.pixel_size();
        widest = widest.max(size.0);
        label_height = label_height.max(size.1);
    }
    let label_height = f64::from(label_height);
    let left = f64::from(widest) + GAP;
    let top = (label_height / 2.0).ceil();
    let bottom = (f64::from(height) - label_height - GAP).max(top + 1.0);
    let frame = |top, bottom| Frame {
        left,
        top,
        right: f64::from(width - 1).max(left + 1.0),
        bottom,
    };
    if contents.dirty {
        let middle = top + (bottom - top) * 0.68;
        let second = (middle + label_height + GAP).min(bottom - 1.0);
        (frame(top, middle), Some(frame(second, bottom)))
    } else {
        (frame(top, bottom), None)
    }
}

/// Draws `contents` on a surface of this size in pixels.
///
/// # Errors
/// Cairo cannot draw, for example because there is no memory.
pub fn paint(
    cairo: &cairo::Context,
    size: (i32, i32),
    contents: &Contents<'_>,
    palette: &Palette,
    labels: &pango::Context,
) -> Result<()> {
    let (rates, dirty) = frames(size, contents, labels);
    let layout = pango::Layout::new(labels);
    let (red, green, blue) = rgb(palette.text);
    cairo.set_source_rgba(red, green, blue, 0.7);
    label_amounts(cairo, &layout, &rates, contents.top(), axis_rate);
    if let Some(dirty) = &dirty {
        label_amounts(cairo, &layout, dirty, contents.dirty_top(), axis_bytes);
    }
    label_times(
        cairo,
        &layout,
        dirty.as_ref().unwrap_or(&rates),
        contents.range,
    );

    on_fine_grid(cairo, size, |area| {
        draw(area, contents, &rates, dirty.as_ref(), palette)
    })
}

fn draw(
    area: &Area<'_>,
    contents: &Contents<'_>,
    rates: &Frame,
    dirty: Option<&Frame>,
    palette: &Palette,
) -> Result<()> {
    let times = contents.times();
    let top = contents.top();
    draw_grid(area, rates, palette)?;
    for run in runs(contents.bars, times) {
        let (zero, ssd) = (|_: &Bar| 0, |bar: &Bar| bar.ssd);
        let below = |amount: &dyn Fn(&Bar) -> u64| steps(run, rates, times, top, amount);
        draw_area(area, &below(&ssd), &below(&zero), palette.ssd)?;
        draw_area(area, &below(&Bar::read), &below(&ssd), palette.disk)?;
        draw_line(area, &below(&|bar| bar.written), palette.written)?;
        if let Some(frame) = dirty {
            let top = contents.dirty_top();
            for known in known_parts(run) {
                let line = steps(known, frame, times, top, &|bar| bar.dirty);
                let zero = steps(known, frame, times, top, &zero);
                draw_area(area, &line, &zero, palette.dirty)?;
            }
        }
    }
    if let Some(frame) = dirty {
        draw_grid(area, frame, palette)?;
    }
    if let Some(bar) = contents.selected.and_then(|at| contents.bars.get(at)) {
        let x = rates.x(f64::midpoint(bar.start, bar.end), times);
        let bottom = dirty.unwrap_or(rates).bottom;
        draw_line(area, &[(x, rates.top), (x, bottom)], palette.text)?;
    }
    Ok(())
}

/// The runs of bars without a gap between them, as far as they are in `times`.
fn runs(bars: &[Bar], times: Times) -> impl Iterator<Item = &[Bar]> {
    bars.chunk_by(|one, next| (next.start - one.end).abs() < 0.5)
        .filter(move |run| run.last().is_some_and(|bar| bar.end > times.start))
}

/// The parts of a run whose dirty data is known.
fn known_parts(run: &[Bar]) -> impl Iterator<Item = &[Bar]> {
    run.split(|bar| bar.dirty_unknown)
        .filter(|part| !part.is_empty())
}

/// The line over the bars of a run: level over each bar.
fn steps(
    run: &[Bar],
    frame: &Frame,
    times: Times,
    top: u64,
    amount: &dyn Fn(&Bar) -> u64,
) -> Vec<(f64, f64)> {
    run.iter()
        .filter(|bar| bar.end > times.start)
        .flat_map(|bar| {
            let y = frame.y(amount(bar), top);
            [(frame.x(bar.start, times), y), (frame.x(bar.end, times), y)]
        })
        .collect()
}

fn label_amounts(
    cairo: &cairo::Context,
    layout: &pango::Layout,
    frame: &Frame,
    top: u64,
    words: impl Fn(u64) -> String,
) {
    for amount in [0, top / 2, top] {
        layout.set_text(&words(amount));
        let (width, height) = layout.pixel_size();
        let x = frame.left - GAP - f64::from(width);
        text(
            cairo,
            layout,
            x,
            frame.y(amount, top) - f64::from(height) / 2.0,
        );
    }
}

fn label_times(cairo: &cairo::Context, layout: &pango::Layout, frame: &Frame, range: Range) {
    let (units, step) = range.marks();
    layout.set_text(&axis_time(range, units * step));
    let widest = f64::from(layout.pixel_size().0);
    let width = frame.right - frame.left;
    for mark in time_marks(units, width, widest) {
        layout.set_text(&axis_time(range, mark * step));
        let label = f64::from(layout.pixel_size().0);
        let x = frame.right - width * mark as f64 / units.max(1) as f64 - label / 2.0;
        let x = x.min(frame.right - label).max(0.0);
        text(cairo, layout, x, frame.bottom + GAP);
    }
}

fn draw_grid(area: &Area<'_>, frame: &Frame, palette: &Palette) -> Result<()> {
    let grid = colour(palette.text, 0.12).stroke_width(FINE as u32);
    for part in [0.0, 0.5, 1.0] {
        let y = (frame.bottom + (frame.top - frame.bottom) * part).floor() + 0.5;
        let line = vec![fine((frame.left, y)), fine((frame.right, y))];
        area.draw(&PathElement::new(line, grid))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_where_nothing_was_observed_and_what_is_too_old_is_left_out() {
        let bar = |start, end| Bar {
            start,
            end,
            ssd: 5,
            ..Bar::default()
        };
        let times = Times {
            start: 10.0,
            end: 30.0,
        };
        let bars = [
            bar(0.0, 5.0),
            bar(8.0, 12.0),
            bar(12.0, 15.0),
            bar(20.0, 30.0),
        ];
        let found: Vec<_> = runs(&bars, times).map(<[Bar]>::len).collect();
        assert_eq!(found, [2, 1]);
        let mut unknown = bars;
        unknown[1].dirty_unknown = true;
        let known: Vec<_> = known_parts(&unknown).map(<[Bar]>::len).collect();
        assert_eq!(known, [1, 2]);
        let frame = Frame {
            left: 0.0,
            top: 0.0,
            right: 20.0,
            bottom: 10.0,
        };
        let line = steps(&bars[1..3], &frame, times, 10, &|bar| bar.ssd);
        assert_eq!(line, [(0.0, 5.0), (2.0, 5.0), (2.0, 5.0), (5.0, 5.0)]);
    }
}

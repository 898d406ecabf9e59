// SPDX-License-Identifier: GPL-3.0-or-later
//! Draws the curve: shares of the reads over sizes of the cache, on a logarithmic axis, with a band for the error.

use gtk::{gdk, pango};
use tandem_api::AdvicePoint;

use crate::display::{SsdMark, bytes, percent};
use crate::widgets::chart::axis::Frame;
use crate::widgets::chart::brush::{Area, Result, draw_area, draw_line, on_fine_grid, rgb, text};

/// Pixels between a label and the plot.
const GAP: f64 = 8.0;
/// Length of the dashes of a mark, and of the gaps between them, in pixels.
const DASH: f64 = 4.0;
/// All reads, in thousandths. Each curve has this upper edge: with another one, a small share would look like a large one.
const ALL: u64 = 1000;
/// Shares that get a label.
const SHARES: [u64; 3] = [0, 500, ALL];
/// Sizes that get a label.
const LABELS: [u64; 7] = [
    1_000_000_000,
    10_000_000_000,
    100_000_000_000,
    1_000_000_000_000,
    10_000_000_000_000,
    100_000_000_000_000,
    1_000_000_000_000_000,
];

/// Colours of the curve.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Labels and, fainter, the grid.
    pub text: gdk::RGBA,
    /// The curve.
    pub ssd: gdk::RGBA,
    /// The marks of SSDs.
    pub mark: gdk::RGBA,
}

/// The data of the curve.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The prediction, smallest cache first.
    pub points: &'a [AdvicePoint],
    /// The SSDs that are there.
    pub marks: &'a [SsdMark],
    /// The point that the person looks at.
    pub selected: Option<usize>,
}

impl Contents<'_> {
    /// The smallest and the largest size.
    fn sizes(&self) -> (f64, f64) {
        let first = self.points.first().map_or(1, |point| point.bytes);
        let last = self.points.last().map_or(1, |point| point.bytes);
        let largest = self.marks.last().map_or(0, |mark| mark.bytes);
        let low = first.max(1) as f64;
        // A mark at the edge would look like a part of the frame.
        (low, (last.max(largest) as f64 * 1.25).max(low * 2.0))
    }

    fn x(&self, frame: &Frame, size: u64) -> f64 {
        let (low, high) = self.sizes();
        let part = (size.max(1) as f64 / low).ln() / (high / low).ln();
        frame.left + part.clamp(0.0, 1.0) * (frame.right - frame.left)
    }

    /// The point that is nearest to this distance from the left edge of the widget.
    pub fn nearest(&self, frame: &Frame, x: f64) -> Option<usize> {
        let away = |at: &usize| (self.x(frame, self.points[*at].bytes) - x).abs();
        (0..self.points.len()).min_by(|a, b| away(a).total_cmp(&away(b)))
    }
}

/// The plot of a widget of this size in pixels.
pub fn frame((width, height): (i32, i32), labels: &pango::Context) -> Frame {
    let layout = pango::Layout::new(labels);
    layout.set_text(&percent(1.0));
    let (wide, tall) = layout.pixel_size();
    let left = f64::from(wide) + GAP;
    let top = (f64::from(tall) / 2.0).ceil();
    Frame {
        left,
        top,
        right: f64::from(width - 1).max(left + 1.0),
        bottom: (f64::from(height) - f64::from(tall) - GAP).max(top + 1.0),
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
    let frame = frame(size, labels);
    let layout = pango::Layout::new(labels);
    let (red, green, blue) = rgb(palette.text);
    cairo.set_source_rgba(red, green, blue, 0.7);
    label(cairo, &layout, contents, &frame);
    on_fine_grid(cairo, size, |area| draw(area, contents, &frame, palette))
}

fn label(cairo: &cairo::Context, layout: &pango::Layout, contents: &Contents<'_>, frame: &Frame) {
    for share in SHARES {
        layout.set_text(&percent(share as f64 / 1000.0));
        let (width, height) = layout.pixel_size();
        let x = frame.left - GAP - f64::from(width);
        text(
            cairo,
            layout,
            x,
            frame.y(share, ALL) - f64::from(height) / 2.0,
        );
    }
    let (low, high) = contents.sizes();
    let mut end = f64::MIN;
    for size in LABELS
        .into_iter()
        .filter(|size| (low..=high).contains(&(*size as f64)))
    {
        // "10 GB" and not "10.0 GB": the sizes are round.
        layout.set_text(&bytes(size).replacen(".0", "", 1).replacen(",0", "", 1));
        let width = f64::from(layout.pixel_size().0);
        let x = (contents.x(frame, size) - width / 2.0).min(frame.right - width);
        if x >= end + GAP {
            text(cairo, layout, x.max(frame.left), frame.bottom + GAP);
            end = x.max(frame.left) + width;
        }
    }
}

fn draw(area: &Area<'_>, contents: &Contents<'_>, frame: &Frame, palette: &Palette) -> Result<()> {
    for share in SHARES {
        let y = frame.y(share, ALL).floor() + 0.5;
        let faint = palette.text.with_alpha(0.12);
        draw_line(area, &[(frame.left, y), (frame.right, y)], faint)?;
    }
    for mark in contents.marks {
        let x = contents.x(frame, mark.bytes).floor() + 0.5;
        let mut y = frame.top;
        while y < frame.bottom {
            let end = (y + DASH).min(frame.bottom);
            draw_line(area, &[(x, y), (x, end)], palette.mark)?;
            y += 2.0 * DASH;
        }
    }
    let line = |share: &dyn Fn(&AdvicePoint) -> u32| -> Vec<(f64, f64)> {
        let place = |point: &AdvicePoint| {
            let y = frame.y(share(point).into(), ALL);
            (contents.x(frame, point.bytes), y)
        };
        let mut line: Vec<_> = contents.points.iter().map(place).collect();
        // A cache that is larger than the last does what the last does.
        line.extend(line.last().map(|&(_, y)| (frame.right, y)));
        line
    };
    let upper = line(&|point| point.reads_permille + point.reads_error);
    let lower = line(&|point| point.reads_permille.saturating_sub(point.reads_error));
    draw_area(area, &upper, &lower, palette.ssd.with_alpha(0.4))?;
    draw_line(area, &line(&|point| point.reads_permille), palette.ssd)?;
    if let Some(point) = contents.selected.and_then(|at| contents.points.get(at)) {
        let x = contents.x(frame, point.bytes);
        draw_line(area, &[(x, frame.top), (x, frame.bottom)], palette.text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(bytes: u64, reads_permille: u32, reads_error: u32) -> AdvicePoint {
        AdvicePoint {
            bytes,
            reads_permille,
            reads_error,
            ..AdvicePoint::default()
        }
    }

    #[test]
    fn each_doubling_takes_the_same_width_and_the_pointer_finds_the_nearest_point() {
        let points = [
            point(1 << 30, 100, 0),
            point(1 << 31, 150, 5),
            point(1 << 32, 180, 40),
        ];
        let contents = Contents {
            points: &points,
            marks: &[],
            selected: None,
        };
        let frame = Frame {
            left: 10.0,
            top: 0.0,
            right: 110.0,
            bottom: 50.0,
        };
        let x = points.map(|point| contents.x(&frame, point.bytes));
        assert_eq!(x[0], 10.0);
        assert!((x[2] - x[1] - (x[1] - x[0])).abs() < 1e-9, "{x:?}");
        assert_eq!(contents.nearest(&frame, 0.0), Some(0));
        assert_eq!(contents.nearest(&frame, x[1] + 2.0), Some(1));
        assert_eq!(contents.nearest(&frame, 1000.0), Some(2));
    }
}

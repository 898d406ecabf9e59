// SPDX-License-Identifier: GPL-3.0-or-later
//! Draws areas and lines with plotters, on a grid four times as fine as the pixels because plotters rounds to whole numbers,
//! and text with Pango.

use gtk::{gdk, pango};
use plotters::prelude::*;
use plotters::style::RGBAColor;
use plotters_cairo::CairoBackend;

/// Grid points of plotters for each pixel, in each direction.
pub const FINE: f64 = 4.0;

/// Drawing may fail in Cairo or plotters. The chart then keeps what was drawn before the failure.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The surface that plotters draws on.
pub type Area<'a> = DrawingArea<CairoBackend<'a>, plotters::coord::Shift>;

/// Has `draw` draw on a surface of this size in pixels.
///
/// # Errors
/// Cairo or plotters cannot draw.
pub fn on_fine_grid(
    cairo: &cairo::Context,
    size: (i32, i32),
    draw: impl FnOnce(&Area<'_>) -> Result<()>,
) -> Result<()> {
    cairo.save()?;
    cairo.scale(1.0 / FINE, 1.0 / FINE);
    cairo.set_line_join(cairo::LineJoin::Round);
    let grid_size = |pixels: i32| (f64::from(pixels.max(1)) * FINE) as u32;
    let area =
        CairoBackend::new(cairo, (grid_size(size.0), grid_size(size.1)))?.into_drawing_area();
    draw(&area)?;
    area.present()?;
    drop(area);
    cairo.restore()?;
    Ok(())
}

/// Fills the area between two lines.
///
/// # Errors
/// plotters cannot draw.
pub fn draw_area(
    area: &Area<'_>,
    upper: &[(f64, f64)],
    lower: &[(f64, f64)],
    shade: gdk::RGBA,
) -> Result<()> {
    let around = upper.iter().chain(lower.iter().rev()).copied();
    let around: Vec<_> = around.map(fine).collect();
    area.draw(&Polygon::new(around, colour(shade, 0.75).filled()))?;
    Ok(())
}

/// Draws a line.
///
/// # Errors
/// plotters cannot draw.
pub fn draw_line(area: &Area<'_>, line: &[(f64, f64)], shade: gdk::RGBA) -> Result<()> {
    let path: Vec<_> = line.iter().copied().map(fine).collect();
    let style = colour(shade, 1.0).stroke_width((1.5 * FINE) as u32);
    area.draw(&PathElement::new(path, style))?;
    Ok(())
}

/// Writes the text of the layout, from this corner on.
pub fn text(cairo: &cairo::Context, layout: &pango::Layout, x: f64, y: f64) {
    cairo.move_to(x, y);
    pangocairo::functions::show_layout(cairo, layout);
}

/// The grid point of a place in pixels.
pub fn fine((x, y): (f64, f64)) -> (i32, i32) {
    ((x * FINE).round() as i32, (y * FINE).round() as i32)
}

/// The parts of a colour, for Cairo.
pub fn rgb(shade: gdk::RGBA) -> (f64, f64, f64) {
    (
        f64::from(shade.red()),
        f64::from(shade.green()),
        f64::from(shade.blue()),
    )
}

/// A colour for plotters, so much fainter.
pub fn colour(shade: gdk::RGBA, alpha: f64) -> RGBAColor {
    let part = |value: f64| (value * 255.0).round() as u8;
    let (red, green, blue) = rgb(shade);
    RGBAColor(
        part(red),
        part(green),
        part(blue),
        alpha * f64::from(shade.alpha()),
    )
}

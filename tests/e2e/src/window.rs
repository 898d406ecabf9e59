// SPDX-License-Identifier: GPL-3.0-or-later
//! Where a window is on the screen. GTK 4 tells assistive technologies only where things are in their window.

use std::collections::HashMap;

use anyhow::{Context, Result};
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt, ImageFormat, MapState, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;

use tandem_stage::node::Place;

/// The middle of a place in the window of this name, on the screen; `None` while there is no such window.
pub fn on_screen(window: &str, place: Place) -> Result<Option<(i32, i32)>> {
    let (x, screen) = x11rb::connect(None).context("there is no X display")?;
    let root = x.setup().roots[screen].root;
    // The last in stacking order is on top.
    let windows = numbers(&x, root, b"_NET_CLIENT_LIST_STACKING")?;
    for id in windows.into_iter().rev() {
        if name(&x, id)? != window {
            continue;
        }
        let corner = x.translate_coordinates(id, root, 0, 0)?.reply()?;
        // Left, right, top, bottom: the shadow that GTK draws around the window.
        let shadow = numbers(&x, id, b"_GTK_FRAME_EXTENTS")?;
        let shadow = |index: usize| shadow.get(index).copied().unwrap_or(0).cast_signed();
        return Ok(Some((
            i32::from(corner.dst_x) + shadow(0) + place.left + place.width / 2,
            i32::from(corner.dst_y) + shadow(2) + place.top + place.height / 2,
        )));
    }
    Ok(None)
}

/// The visible windows that the window manager does not manage: menus and some others.
pub fn popups() -> Result<HashMap<Window, Place>> {
    let (x, screen) = x11rb::connect(None).context("there is no X display")?;
    let root = x.setup().roots[screen].root;
    let mut found = HashMap::new();
    for id in x.query_tree(root)?.reply()?.children {
        // A window that is closed meanwhile is no menu.
        if let (Ok(attributes), Ok(place)) = (
            x.get_window_attributes(id)?.reply(),
            x.get_geometry(id)?.reply(),
        ) && attributes.override_redirect
            && attributes.class == WindowClass::INPUT_OUTPUT
            && attributes.map_state == MapState::VIEWABLE
            && place.width > 1
            && place.x >= 0
        {
            let place = Place {
                left: place.x.into(),
                top: place.y.into(),
                width: place.width.into(),
                height: place.height.into(),
            };
            found.insert(id, place);
        }
    }
    Ok(found)
}

/// Whether a place on the screen shows more than one colour.
pub fn is_painted(place: Place) -> Result<bool> {
    let (x, screen) = x11rb::connect(None).context("there is no X display")?;
    let root = x.setup().roots[screen].root;
    let (left, top) = (place.left.try_into()?, place.top.try_into()?);
    let (width, height) = (place.width.try_into()?, place.height.try_into()?);
    let image = x
        .get_image(ImageFormat::Z_PIXMAP, root, left, top, width, height, !0)?
        .reply()
        .context("a place that is not on the screen")?;
    // Screens of 24 bits have 4 bytes a pixel.
    let mut pixels = image.data.chunks_exact(4);
    let first = pixels.next();
    Ok(pixels.any(|pixel| Some(pixel) != first))
}

fn name(x: &RustConnection, window: Window) -> Result<String> {
    let property = atom(x, b"_NET_WM_NAME")?;
    let reply = x
        .get_property(false, window, property, AtomEnum::ANY, 0, 1024)?
        .reply()?;
    Ok(String::from_utf8_lossy(&reply.value).into_owned())
}

fn numbers(x: &RustConnection, window: Window, property: &[u8]) -> Result<Vec<u32>> {
    let property = atom(x, property)?;
    let reply = x
        .get_property(false, window, property, AtomEnum::ANY, 0, 1024)?
        .reply()?;
    Ok(reply.value32().map(Iterator::collect).unwrap_or_default())
}

fn atom(x: &RustConnection, name: &[u8]) -> Result<Atom> {
    Ok(x.intern_atom(false, name)?.reply()?.atom)
}

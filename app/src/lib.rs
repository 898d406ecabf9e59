// SPDX-License-Identifier: GPL-3.0-or-later
//! The Tandem window: points an SSD at a hard disk and shows that it works.
//!
//! Facts come up from the bus through [`client`] into [`model`] objects; widgets are bound to those. Commands go
//! down as calls of the client, and a widget changes only when a fact has come up.

pub mod a11y;
pub mod application;
pub mod client;
pub mod display;
pub mod i18n;
pub mod model;
pub mod widgets;

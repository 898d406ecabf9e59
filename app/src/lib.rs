// SPDX-License-Identifier: GPL-3.0-or-later
//! The Tandem window: points an SSD at a hard disk and shows that it works.
//!
//! Facts come from the bus through [`client`] into [`model`] objects, and widgets are bound to those objects. Commands
//! are calls of the client. A widget changes only when a fact has come, never because it made a call.

pub mod a11y;
pub mod application;
pub mod client;
pub mod display;
pub mod enrollment;
pub mod model;
pub mod widgets;

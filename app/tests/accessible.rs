// SPDX-License-Identifier: GPL-3.0-or-later
//! Every page and dialog for a person with a screen reader or weak eyes, in the usual colours, light and dark.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;
#[path = "../examples/screenshots/tour.rs"]
mod tour;
mod walk;

use walk::{Camera, Result};

#[gtk::test]
async fn every_page_is_named_and_readable_in_normal_contrast() {
    walk::every_page(false).await;
}

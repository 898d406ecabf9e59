// SPDX-License-Identifier: GPL-3.0-or-later
//! What the tests of several packages share. No program that is installed uses this package.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops where it cannot go on"
)]

pub mod bus;
#[cfg(feature = "desktop")]
pub mod machine;
#[cfg(feature = "desktop")]
pub mod node;
#[cfg(feature = "pair")]
pub mod pair;
#[cfg(feature = "desktop")]
pub mod panel;

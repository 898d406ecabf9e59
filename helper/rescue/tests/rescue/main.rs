// SPDX-License-Identifier: GPL-3.0-or-later
//! Rescues of caches that the simulator of the kernel module left with dirty data.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod doubts;
mod drives;
mod power;

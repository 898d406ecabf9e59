// SPDX-License-Identifier: GPL-3.0-or-later
//! The Tandem tray indicator.

fn main() {}

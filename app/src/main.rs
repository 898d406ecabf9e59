// SPDX-License-Identifier: GPL-3.0-or-later
//! The Tandem window: points an SSD at a hard disk and shows that it works.

fn main() {}

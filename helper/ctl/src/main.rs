// SPDX-License-Identifier: GPL-3.0-or-later
//! Tandem on the command line.

fn main() {}

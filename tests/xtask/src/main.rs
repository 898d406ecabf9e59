// SPDX-License-Identifier: GPL-3.0-or-later
//! Builds, tests and shows Tandem: `cargo xtask demo` and `cargo xtask test`.

fn main() {}

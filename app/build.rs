// SPDX-License-Identifier: GPL-3.0-or-later
//! Packs style and icons into the program, so that it looks right from the build directory too.

fn main() {
    glib_build_tools::compile_resources(
        &["src", "../data/icons"],
        "src/tandem.gresource.xml",
        "tandem.gresource",
    );
}

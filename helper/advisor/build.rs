// SPDX-License-Identifier: GPL-3.0-or-later
//! Compiles the shim. Core itself comes with the crate `tandem-core`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in ["shim", "../../kmod/core"] {
        println!("cargo::rerun-if-changed={path}");
    }
    // As kmod/user/build.rs compiles core.
    cc::Build::new()
        .std("gnu11")
        .opt_level(2)
        .flag("-fno-strict-aliasing")
        .warnings(true)
        .extra_warnings(true)
        .flag("-Wno-unused-parameter")
        .include("../../kmod/core/env-user")
        .include("../../kmod/core")
        .file("shim/ghost.c")
        .try_compile("tandem-ghost")?;
    Ok(())
}

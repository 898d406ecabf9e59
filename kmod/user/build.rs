// SPDX-License-Identifier: GPL-3.0-or-later
//! Compiles core and the shim for user space.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut cc = cc::Build::new();
    cc.std("gnu11")
        .opt_level(2)
        .flag("-fno-strict-aliasing")
        .warnings(true)
        .extra_warnings(true)
        .flag("-Wno-unused-parameter")
        .include("../core/env-user")
        .include("../core");
    for dir in ["../core", "shim"] {
        println!("cargo::rerun-if-changed={dir}");
        for entry in std::fs::read_dir(Path::new(dir))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "c") {
                cc.file(path);
            }
        }
    }
    cc.try_compile("tandem-engine")?;
    Ok(())
}

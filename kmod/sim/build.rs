// SPDX-License-Identifier: GPL-3.0-or-later
//! Compiles the checks in C and the word explorer. Core itself is compiled by the package `tandem-core`.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for dir in ["../core", "../user/shim", "shim", "words"] {
        println!("cargo::rerun-if-changed={dir}");
    }
    build("tandem-checks", "../core/env-user", "shim")?;
    build("tandem-words", "words/env", "words")?;
    Ok(())
}

/// The C files of `dir` as one archive, with the atomics of `env`.
fn build(name: &str, env: &str, dir: &str) -> std::io::Result<()> {
    let mut cc = cc::Build::new();
    cc.std("gnu11")
        .opt_level(2)
        .flag("-fno-strict-aliasing")
        .warnings(true)
        .extra_warnings(true)
        .flag("-Wno-unused-parameter")
        .include(env)
        .include("../core")
        .include("../user/shim");
    for entry in std::fs::read_dir(Path::new(dir))? {
        let path = entry?.path();
        let threads = path.file_name().is_some_and(|name| name == "threads.c");
        if path.extension().is_some_and(|extension| extension == "c") && !threads {
            cc.file(path);
        }
    }
    cc.try_compile(name).map_err(std::io::Error::other)
}

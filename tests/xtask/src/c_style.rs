// SPDX-License-Identifier: GPL-3.0-or-later
//! The layer that holds the module's C to the kernel's own style and to sparse's view of its types.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::layer::{Bench, Layer};
use crate::{run, uml};

/// What checkpatch says of lists that are expanded with a macro of the reader's, of which it knows nothing.
const X_MACROS: &str = "COMPLEX_MACRO,MACRO_ARG_UNUSED";

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![Layer {
        name: "kmod-style",
        about: "the module's C is clean under checkpatch and sparse",
        run: c_style,
    }]
}

fn c_style(bench: &mut Bench) -> Result<()> {
    let files = sources(bench)?;
    let source = uml::source(bench.cx)?;
    for file in &files {
        let mut command = run::cmd("perl", [source.join("scripts/checkpatch.pl")]);
        command
            .args(["--no-tree", "--terse", "--show-types", "--no-summary"])
            .args(["--ignore", X_MACROS, "--file"])
            .arg(file)
            .current_dir(bench.cx.path("kmod"));
        bench.command(&format!("checkpatch {}", file.display()), &mut command);
    }
    let result = sparse(bench);
    bench.check("sparse", result);
    Ok(())
}

/// C files and headers of the module, relative to its directory.
fn sources(bench: &Bench) -> Result<Vec<PathBuf>> {
    let list = run::output(
        run::cmd(
            "git",
            [
                "ls-files",
                "core/*.[ch]",
                "linux/*.[ch]",
                "configure.d/*.[ch]",
            ],
        )
        .current_dir(bench.cx.path("kmod")),
    )?;
    // What makes the kernel's words in user space cannot be written in them.
    let words_of_kernel = |file: &&str| file.contains("/env-user/");
    Ok(list
        .lines()
        .filter(|file| !words_of_kernel(file))
        .map(PathBuf::from)
        .collect())
}

/// Checks every file of the module as it is compiled for a kernel; sparse only warns, so its words decide.
fn sparse(bench: &Bench) -> Result<()> {
    let kernel = uml::kernel(bench.cx, "plain")?;
    let build = bench.cx.target.join("kmod-sparse");
    if build.exists() {
        fs::remove_dir_all(&build)?;
    }
    fs::create_dir_all(&build)?;
    run::output(
        run::cmd("cp", ["-r"])
            .arg(bench.cx.path("kmod").join("."))
            .arg(&build),
    )?;
    let mut make = run::cmd(
        "make",
        ["-s", "-j2", "ARCH=um", "C=2", "CHECK=sparse", "-C"],
    );
    make.arg(&kernel.build)
        .arg(format!("M={}", build.display()))
        .arg("modules");
    run::logged(&mut make, &bench.log)?;
    let log = fs::read_to_string(&bench.log)?;
    let ours = build.display().to_string();
    let complaints: Vec<_> = log
        .lines()
        .filter(|line| {
            line.contains(&ours) && (line.contains(": warning:") || line.contains(": error:"))
        })
        .collect();
    if !complaints.is_empty() {
        bail!("{}", complaints.join("\n"));
    }
    Ok(())
}

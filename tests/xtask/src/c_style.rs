// SPDX-License-Identifier: GPL-3.0-or-later
//! The layer that checks the module's C for the kernel's style, for types with sparse, and for functions that a kernel
//! of 32 bits lacks.

use std::fs;
use std::path::PathBuf;
use tandem_harness::deps;
use tandem_harness::kbuild;

use anyhow::{Result, bail, ensure};

use crate::uml;
use tandem_harness::layer::{Layer, Run, When};
use tandem_harness::{hash, run};

/// checkpatch's complaints about lists that a macro of the including file expands: checkpatch does not see that macro.
const X_MACROS: &str = "COMPLEX_MACRO,MACRO_ARG_UNUSED";

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![Layer {
        name: "kmod-style",
        about: "the module's C is clean under checkpatch and sparse, and divides no 64 bits",
        needs: deps::KERNEL,
        when: When::Always,
        run: c_style,
    }]
}

fn c_style(run: &mut Run) -> Result<()> {
    let files = sources(run)?;
    let source = uml::source(run.cx)?;
    for file in &files {
        let mut command = run::cmd("perl", [source.join("scripts/checkpatch.pl")]);
        command
            .args(["--no-tree", "--terse", "--show-types", "--no-summary"])
            .args(["--ignore", X_MACROS, "--file"])
            .arg(file)
            .current_dir(run.cx.path("kmod"));
        run.command(&format!("checkpatch {}", file.display()), &mut command);
    }
    let result = sparse(run);
    run.check("sparse", result);
    let result = divisions(run);
    run.check("32 bits", result);
    Ok(())
}

/// C files and headers of the module, relative to its directory.
fn sources(run: &Run) -> Result<Vec<PathBuf>> {
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
        .current_dir(run.cx.path("kmod")),
    )?;
    // Headers that define the kernel's names in user space break the kernel's style.
    let words_of_kernel = |file: &&str| file.contains("/env-user/");
    Ok(list
        .lines()
        .filter(|file| !words_of_kernel(file))
        .map(PathBuf::from)
        .collect())
}

/// Checks every file of the module as it is compiled for a kernel. sparse only warns and never fails, so that any
/// output is a failure.
fn sparse(run: &Run) -> Result<()> {
    let kernel = uml::kernel(run.cx, "plain")?;
    let build = run.cx.target.join("kmod-sparse");
    kbuild::copy(&run.cx.path("kmod"), &build)?;
    let mut make = run::cmd(
        "make",
        ["-s", "-j2", "ARCH=um", "C=2", "CHECK=sparse", "-C"],
    );
    make.arg(&kernel.build)
        .arg(format!("M={}", build.display()))
        .arg("modules");
    run::logged(&mut make, &run.log)?;
    let log = fs::read_to_string(&run.log)?;
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

/// A processor of 32 bits does not divide 64 bits: the compiler calls a function that the kernel does not have, and the
/// module cannot be loaded. The module has to use the divisions of linux/math64.h.
fn divisions(run: &Run) -> Result<()> {
    let source = uml::source(run.cx)?;
    let config = run.cx.path("tests/module/config/i386.config");
    let key = hash::key([source.display().to_string(), fs::read_to_string(&config)?]);
    let kernel = run.cx.cached("kernel-i386", &key, |dir| {
        let make = |target: &str| {
            let mut make = run::cmd("nice", ["make", "-s", "-j2", "ARCH=i386", "-C"]);
            make.arg(&source).arg(format!("O={}", dir.display()));
            make.env("KCONFIG_ALLCONFIG", &config).arg(target);
            run::logged(&mut make, &run.log)
        };
        make("allnoconfig")?;
        make("modules_prepare")
    })?;
    let build = run.cx.target.join("kmod-32");
    // The kernel itself is not built here, so that its symbols are not known either: modpost only warns.
    let settings = ["ARCH=i386", "KBUILD_MODPOST_WARN=1"];
    kbuild::module(&run.cx.path("kmod"), &kernel, &build, &settings, &run.log)?;
    let mut nm = run::cmd("nm", ["--print-file-name"]);
    for part in ["core", "linux"] {
        for entry in fs::read_dir(build.join(part))? {
            let file = entry?.path();
            if file.extension().is_some_and(|extension| extension == "o") {
                nm.arg(file);
            }
        }
    }
    let names = run::output(&mut nm)?;
    ensure!(
        names.contains("td_clean_seek"),
        "nothing of the module was looked at"
    );
    let divide = |line: &&str| line.contains(" U ") && line.ends_with("di3");
    let found: Vec<_> = names.lines().filter(divide).collect();
    if !found.is_empty() {
        bail!("{}", found.join("\n"));
    }
    Ok(())
}

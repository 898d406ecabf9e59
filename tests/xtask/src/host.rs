// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests that need no kernel of their own: style, data files and programs in user space.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tandem_harness::deps::Need;

use anyhow::{Context, Result, bail, ensure};

use crate::{crates, rust_tests, verify};
use tandem_harness::layer::{Layer, Run, When};
use tandem_harness::run;

/// Longest subject of a commit, in characters.
const SUBJECT: usize = 72;

/// Cargo starts this program in place of the compiler, with the compiler's command, for the packages of the work tree.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";
/// As a wrapper it compiles and looks: the layers that build a package find its faults then.
const CLIPPY: &str = "clippy-driver";

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        Layer {
            name: "style",
            about: "rustfmt, clippy, licences, commits; whole: the crates, with cargo-deny",
            needs: &[Need::App, Need::Helper, Need::Data, Need::Services],
            when: When::Always,
            run: style,
        },
        Layer {
            name: "data",
            about: "what is installed beside the programs is valid",
            needs: &[Need::App, Need::Data],
            when: When::Always,
            run: data,
        },
    ]
}

fn style(run: &mut Run) -> Result<()> {
    let root = run.cx.root.clone();
    let cargo = |args: &[&str]| {
        let mut command = run::cmd("cargo", args);
        command.current_dir(&root);
        command
    };
    run.command("rustfmt", &mut cargo(&["fmt", "--all", "--check"]));
    let lint = [
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    if run.wants("clippy") {
        let mut clippy = cargo(&lint[..4]);
        if std::env::var_os(WRAPPER).is_some_and(|wraps| wraps == CLIPPY) {
            clippy.args(rust_tests::built().flat_map(|package| ["--exclude", package]));
        }
        run.command("clippy", clippy.args(&lint[4..]));
    }
    // A call of its own has no feature but those that these programs are built with.
    let start = lint.map(|word| match word {
        "--workspace" => "--package=tandem-assemble",
        word => word,
    });
    // Their libraries are checked once more for that, which takes a minute.
    let name = "clippy of the programs of the start";
    if run.is_whole() && run.wants(name) {
        run.command(name, &mut cargo(&start));
    }
    let files = tracked(run)?;
    run.check("every file names its licence", licences(&root, &files));
    run.check("no version number decides", versions(&root, &files));
    run.check("subjects of commits", subjects(&root));
    for script in files.iter().filter(|file| is_shell(&root, file)) {
        let mut command = run::cmd("shellcheck", [script]);
        run.command(
            &format!("shellcheck {}", script.display()),
            command.current_dir(&root),
        );
    }
    if run.is_whole() {
        crates::check(run);
    }
    Ok(())
}

/// Files under version control, relative to the top.
fn tracked(run: &Run) -> Result<Vec<PathBuf>> {
    let list = run::output(run::cmd("git", ["ls-files"]).current_dir(&run.cx.root))?;
    Ok(list.lines().map(PathBuf::from).collect())
}

fn extension(file: &Path) -> &str {
    file.extension().and_then(|ext| ext.to_str()).unwrap_or("")
}

fn licences(root: &Path, files: &[PathBuf]) -> Result<()> {
    let sources = [
        "rs", "c", "h", "sh", "toml", "ui", "css", "rst", "rules", "service", "py", "po",
    ];
    let mut without = Vec::new();
    for file in files
        .iter()
        .filter(|file| sources.contains(&extension(file)))
    {
        let path = root.join(file);
        // A masked unit is a link to an empty target.
        if path.is_symlink() {
            continue;
        }
        let text = fs::read(&path).with_context(|| format!("cannot read {}", file.display()))?;
        let head = String::from_utf8_lossy(&text[..text.len().min(600)]).into_owned();
        let expected = if file.starts_with("kmod/core") || file.starts_with("kmod/linux") {
            "SPDX-License-Identifier: GPL-2.0-or-later"
        } else {
            "SPDX-License-Identifier: GPL-"
        };
        if !head.contains(expected) {
            without.push(file.display().to_string());
        }
    }
    if !without.is_empty() {
        bail!("no or a wrong SPDX line: {}", without.join(", "));
    }
    Ok(())
}

/// The module tests what a kernel can do, never which version it has; `kmod/core` uses no kernel at all.
fn versions(root: &Path, files: &[PathBuf]) -> Result<()> {
    for file in files.iter().filter(|file| file.starts_with("kmod")) {
        if !["c", "h"].contains(&extension(file)) {
            continue;
        }
        let text = fs::read_to_string(root.join(file))?;
        if text.contains("LINUX_VERSION_CODE") || text.contains("KERNEL_VERSION(") {
            bail!("{} compares kernel versions", file.display());
        }
        if file.starts_with("kmod/core")
            && (text.contains("<linux/") || text.contains("__KERNEL__"))
        {
            bail!("{} knows about the kernel", file.display());
        }
    }
    Ok(())
}

fn subjects(root: &Path) -> Result<()> {
    let log = run::output(run::cmd("git", ["log", "--format=%s"]).current_dir(root))?;
    match log.lines().find(|line| line.chars().count() > SUBJECT) {
        Some(line) => bail!("longer than {SUBJECT} characters: {line}"),
        None => Ok(()),
    }
}

fn is_shell(root: &Path, file: &Path) -> bool {
    let shebang = |line: &str| line.starts_with("#!") && line.ends_with("sh");
    extension(file) != "rs"
        && fs::read_to_string(root.join(file))
            .ok()
            .and_then(|text| text.lines().next().map(shebang))
            .unwrap_or(false)
}

/// Each kind of data file with the tool that checks it.
fn data(run: &mut Run) -> Result<()> {
    let root = run.cx.root.clone();
    for file in tracked(run)?
        .iter()
        .filter(|file| file.starts_with("data") || file.starts_with("po"))
    {
        let name = file.display().to_string();
        match extension(file) {
            "service" if file.starts_with("data/systemd") => {
                let result = verify::unit(run.cx, &root.join(file));
                run.check(&format!("systemd-analyze {name}"), result);
                continue;
            }
            "rules" if file.starts_with("data/udev") => {
                rules(run, &name);
                continue;
            }
            _ => {}
        }
        if extension(file) == "desktop" {
            let text = fs::read_to_string(root.join(file))?;
            run.check(&format!("TryExec {name}"), names_its_program(&text));
        }
        let tool: Option<(&str, &[&str])> = match extension(file) {
            "desktop" => Some(("desktop-file-validate", &[])),
            "xml" if name.ends_with("metainfo.xml") => {
                Some(("appstreamcli", &["validate", "--no-net"]))
            }
            "xml" if name.ends_with("gschema.xml") => {
                Some(("glib-compile-schemas", &["--strict", "--dry-run"]))
            }
            "xml" | "policy" | "svg" | "conf" if is_xml(&root.join(file)) => {
                Some(("xmllint", &["--noout", "--nonet"]))
            }
            "po" => Some(("msgfmt", &["--check", "--output-file=/dev/null"])),
            _ => None,
        };
        let Some((program, args)) = tool else {
            continue;
        };
        let mut command: Command = run::cmd(program, args);
        // This tool takes the directory of the schemas.
        let what = if program == "glib-compile-schemas" {
            file.parent().unwrap_or(file)
        } else {
            file
        };
        run.command(
            &format!("{program} {name}"),
            command.arg(what).current_dir(&root),
        );
    }
    Ok(())
}

/// Whether a desktop can tell that the program of an entry is not installed: the entry of an autostart stays when its
/// package is removed and not purged.
fn names_its_program(entry: &str) -> Result<()> {
    let value = |key: &str| entry.lines().find_map(|line| line.strip_prefix(key));
    let program = value("Exec=").and_then(|command| command.split(' ').next());
    ensure!(
        program.is_some() && value("TryExec=") == program,
        "TryExec= does not name the program of Exec="
    );
    Ok(())
}

/// Checks udev rules, if there is a udevadm that can verify rules.
fn rules(run: &mut Run, name: &str) {
    let test = format!("udevadm {name}");
    match verify::udevadm(run.cx) {
        Ok(mut udevadm) => {
            udevadm.args(["verify", "--resolve-names=never", name]);
            run.command(&test, udevadm.current_dir(run.cx.root.clone()));
        }
        Err(error) => run.skip(&test, &format!("there is no udevadm for it: {error:#}")),
    }
}

fn is_xml(file: &Path) -> bool {
    fs::read(file).is_ok_and(|text| text.trim_ascii_start().starts_with(b"<"))
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks units and udev rules with systemd's own tools, as far as that is possible without installing them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use tandem_harness::cx::Cx;
use tandem_harness::{fetch, pins, run};

/// Libraries of the compiler of Debian 13 that its udevadm needs, too.
const SHARED: [&str; 3] = ["libc6", "libzstd1", "zlib1g"];

/// Checks a unit below a root directory that has nothing but the programs that the unit starts.
pub fn unit(cx: &Cx, unit: &Path) -> Result<()> {
    let root = cx.target.join("verify-units");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    let units = root.join("usr/lib/systemd/system");
    fs::create_dir_all(&units)?;
    let text = fs::read_to_string(unit)?;
    for program in programs(&text) {
        let program = root.join(program.trim_start_matches('/'));
        fs::create_dir_all(program.parent().context("a program lies somewhere")?)?;
        fs::write(&program, "#!/bin/sh\n")?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    }
    let name = unit.file_name().context("a unit has a name")?;
    fs::write(units.join(name), &text)?;
    let root = format!("--root={}", root.display());
    let words = ["verify", "--man=no", "--recursive-errors=no", &root];
    let mut verify = run::cmd("systemd-analyze", words);
    let result = verify
        .arg(name)
        .output()
        .context("cannot start systemd-analyze")?;
    let said = String::from_utf8_lossy(&result.stderr).into_owned();
    // systemd-analyze warns about what it does not know and goes on, so that any output is a failure.
    ensure!(
        result.status.success() && said.is_empty(),
        "{}",
        said.trim()
    );
    Ok(())
}

/// The programs that a unit starts, by their paths.
fn programs(unit: &str) -> impl Iterator<Item = &str> {
    unit.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let program = value.trim_start_matches(['-', '+', '!', '@', ':']);
        key.starts_with("Exec").then(|| program.split(' ').next())?
    })
}

/// A udevadm that can check rules: this machine's, or that of Debian 13, which its own loader starts.
pub fn udevadm(cx: &Cx) -> Result<Command> {
    let own = run::cmd("udevadm", ["verify", "--help"]).output();
    if own.is_ok_and(|own| own.status.success()) {
        return Ok(Command::new("udevadm"));
    }
    let mut wanted = pins::group("trixie-udevadm")?;
    let shared = pins::group("trixie-compiler")?.into_iter();
    wanted.extend(shared.filter(|pin| SHARED.contains(&pin.name.as_str())));
    let root = fetch::unpacked(cx, "udevadm", &fetch::all_pinned(cx, &wanted)?)?;
    let libraries: PathBuf = root.join("usr/lib/x86_64-linux-gnu");
    let path = format!("{0}:{0}/systemd", libraries.display());
    let mut command = Command::new(root.join("usr/lib64/ld-linux-x86-64.so.2"));
    command
        .args(["--library-path", &path])
        .arg(root.join("usr/bin/udevadm"));
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_with_an_unknown_key_is_found() {
        let cx = Cx::new().unwrap();
        let good = cx.path("data/systemd/tandem.service");
        unit(&cx, &good).unwrap();
        let bad = cx.target.join("verify-tandem.service");
        let text = fs::read_to_string(good).unwrap();
        fs::write(&bad, text.replace("RestartSec=", "RestartSeconds=")).unwrap();
        let error = unit(&cx, &bad).unwrap_err().to_string();
        assert!(error.contains("RestartSeconds"), "{error}");
    }
}

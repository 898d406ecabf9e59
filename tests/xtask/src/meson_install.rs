// SPDX-License-Identifier: GPL-3.0-or-later
//! The layer that installs the data files with a prefix that no system has, and looks for wrong paths in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tandem_harness::deps::Need;

use anyhow::{Context, Result, bail, ensure};

use tandem_harness::layer::{Layer, Run, When};
use tandem_harness::run;

const PREFIX: &str = "/opt/strange-place";
/// Files that the system finds only where it looks for them, whatever the prefix is.
const SYSTEM: [&str; 14] = [
    "/usr/lib/systemd/system/tandem.service",
    "/usr/lib/systemd/system/tandem-wake.service",
    "/usr/lib/systemd/system/tandem-assemble.service",
    "/usr/lib/systemd/system/emergency.target.wants/tandem-assemble.service",
    "/usr/lib/systemd/system/sysinit.target.wants/tandem-assemble.service",
    "/usr/lib/udev/rules.d/56-tandem.rules",
    "/usr/lib/systemd/system/sysinit.target.wants/tandem-started.service",
    "/usr/share/dbus-1/system.d/org.tandemcache.Tandem1.conf",
    "/usr/share/dbus-1/system-services/org.tandemcache.Tandem1.service",
    "/usr/share/polkit-1/actions/org.tandemcache.Tandem1.policy",
    "/usr/share/polkit-1/rules.d/org.tandemcache.Tandem.rules",
    "/etc/kernel/postinst.d/zz-tandem",
    "/etc/kernel/postrm.d/zz-tandem",
    "/etc/xdg/autostart/org.tandemcache.Tandem.Tray.desktop",
];
/// What meson must make before it can be installed, without the programs.
const MADE: [&str; 4] = [
    "org.tandemcache.Tandem.desktop",
    "org.tandemcache.Tandem.Tray.desktop",
    "org.tandemcache.Tandem.metainfo.xml",
    "tandem-gmo",
];

/// The layer.
pub fn layers() -> Vec<Layer> {
    vec![Layer {
        name: "meson-install",
        about: "an installation from source with a strange prefix names no wrong path",
        needs: &[Need::App, Need::Helper],
        when: When::Always,
        run,
    }]
}

fn run(run: &mut Run) -> Result<()> {
    let (tree, programs) = install(run)?;
    run.check("files lie where the system looks", system_files(&tree));
    let result = named_programs(&tree, &programs);
    run.check("every program is named where it is installed", result);
    let result = dkms(&tree);
    run.check(
        "DKMS has every source that the module is built from",
        result,
    );
    Ok(())
}

/// Installs everything but the programs. Returns the tree, and the paths of the programs as meson would install them.
fn install(run: &Run) -> Result<(PathBuf, BTreeSet<String>)> {
    let dir = run.cx.target.join("meson-install");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    let (build, tree) = (dir.join("build"), dir.join("tree"));
    let prefix = format!("--prefix={PREFIX}");
    let mut setup = run::cmd("meson", ["setup", &prefix]);
    run::logged(setup.arg(&build).arg(&run.cx.root), &run.log)?;
    run::logged(run::cmd("ninja", ["-C"]).arg(&build).args(MADE), &run.log)?;
    let words = ["install", "--no-rebuild", "--tags", "data,i18n,dkms", "-C"];
    let mut install = run::cmd("meson", words);
    run::logged(install.arg(&build).env("DESTDIR", &tree), &run.log)?;
    let listed = run::output(run::cmd("meson", ["introspect", "--installed"]).arg(&build))?;
    let listed: BTreeMap<String, String> = serde_json::from_str(&listed)?;
    let programs = listed.into_values().filter(|path| is_program(path));
    Ok((tree, programs.collect()))
}

/// Whether a path leads to one of our programs by its name and folder.
fn is_program(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or_default();
    let ours = name == "tandem" || name == "tandemctl" || name.starts_with("tandem-");
    ours && (folder.ends_with("/bin") || folder.contains("/libexec"))
}

fn system_files(tree: &Path) -> Result<()> {
    for path in SYSTEM {
        let file = tree.join(path.trim_start_matches('/'));
        ensure!(file.is_file() || file.is_symlink(), "no {path}");
    }
    Ok(())
}

fn named_programs(tree: &Path, programs: &BTreeSet<String>) -> Result<()> {
    let mut named = BTreeSet::new();
    for file in files(tree)? {
        let text = String::from_utf8_lossy(&fs::read(&file)?).into_owned();
        named.extend(check(&text, programs).with_context(|| file.display().to_string())?);
    }
    // The command line is called by people only.
    let unnamed = programs.iter().filter(|path| !named.contains(*path));
    let unnamed: Vec<_> = unnamed
        .filter(|path| !path.ends_with("/tandemctl"))
        .collect();
    ensure!(unnamed.is_empty(), "no file names {unnamed:?}");
    Ok(())
}

/// The programs of ours that a file names, all of which must be installed programs.
fn check(text: &str, programs: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let is_part = |c: char| c.is_alphanumeric() || "/-_.".contains(c);
    let words = text.split(|c| !is_part(c));
    let paths = words.filter(|word| word.starts_with('/') && is_program(word));
    let named: BTreeSet<_> = paths.map(str::to_owned).collect();
    if let Some(wrong) = named.iter().find(|path| !programs.contains(*path)) {
        bail!("it names {wrong}, which is not installed");
    }
    // A name without a path is found only where PATH leads.
    if let Some(line) = text.lines().find(|line| line.starts_with("Exec=tandem")) {
        bail!("it says {line}");
    }
    Ok(named)
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_symlink() {
            continue;
        } else if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// The objects that Kbuild names must have sources, and dkms.conf must have the version of its directory.
fn dkms(tree: &Path) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let source = tree.join(format!("usr/src/tandem-{version}"));
    let conf = fs::read_to_string(source.join("dkms.conf"))?;
    let line = format!("PACKAGE_VERSION=\"{version}\"");
    ensure!(conf.contains(&line), "dkms.conf has no {line}");
    let kbuild = fs::read_to_string(source.join("Kbuild"))?;
    let words = kbuild.split_whitespace();
    let objects = words.filter(|word| word.contains('/') && word.ends_with(".o"));
    let mut number = 0;
    for object in objects {
        let file = source.join(object).with_extension("c");
        ensure!(file.is_file(), "no {}", file.display());
        number += 1;
    }
    ensure!(number > 10, "Kbuild names only {number} objects");
    ensure!(source.join("configure.d/probe.sh").is_file(), "no probes");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed() -> BTreeSet<String> {
        ["/opt/x/libexec/tandem-helper".to_owned()].into()
    }

    #[test]
    fn a_path_of_another_prefix_is_found() {
        let good = "ExecStart=/opt/x/libexec/tandem-helper --flag\n";
        assert_eq!(check(good, &installed()).unwrap().len(), 1);
        for bad in [
            "ExecStart=/usr/libexec/tandem-helper\n",
            "RUN+=\"/opt/x/libexec/tandem-assemble late\"\n",
            "Exec=tandem\n",
        ] {
            assert!(check(bad, &installed()).is_err(), "{bad}");
        }
    }

    #[test]
    fn records_are_no_programs() {
        assert!(!is_program("/var/lib/tandem"));
        assert!(!is_program("/run/tandem-started"));
        assert!(is_program("/usr/libexec/tandem-probe"));
    }
}

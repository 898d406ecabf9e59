// SPDX-License-Identifier: GPL-3.0-or-later
//! A clean Debian 12 with what the packages need to be built, in the cache. The build needs no network.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use tandem_harness::cx::{Cx, say};
use tandem_harness::{apt, hash, run};

/// Debian packages in the chroot: what data/debian/control asks for, and Debian's own tools.
pub const PACKAGES: &[&str] = &[
    "appstream",
    "debhelper",
    "desktop-file-utils",
    "dh-dkms",
    "dpkg-dev",
    "gettext",
    "libadwaita-1-dev",
    "libclang-dev",
    "libdevmapper-dev",
    "libglib2.0-dev-bin",
    "libgtk-4-dev",
    "libmount-dev",
    "libudev-dev",
    "lintian",
    "meson",
    "pkg-config",
];

/// The chroot, locked for this process while this value lives.
pub struct Chroot {
    root: PathBuf,
    /// The directory of the Rust compiler on this machine.
    compiler: PathBuf,
    crates: PathBuf,
    _lock: File,
}

impl Chroot {
    /// Makes the chroot unless the cache has it.
    pub fn get(cx: &Cx, crates: &Path) -> Result<Self> {
        let dir = cx.cached("deb-chroot", &hash::key(PACKAGES), |dir| make(cx, dir))?;
        let lock = File::create(dir.join("lock"))?;
        lock.lock().context("cannot lock the chroot")?;
        let compiler = run::output(&mut run::cmd("rustc", ["--print", "sysroot"]))?;
        Ok(Self {
            root: dir.join("root"),
            compiler: PathBuf::from(compiler.trim()),
            crates: crates.join("vendor"),
            _lock: lock,
        })
    }

    /// The directory `/build` of the chroot.
    pub fn build(&self) -> PathBuf {
        self.root.join("build")
    }

    /// Runs a script as root of the chroot, with its output in a log.
    pub fn run(&self, script: &str, log: &Path) -> Result<()> {
        let is_root = run::output(&mut run::cmd("id", ["-u"]))?.trim() == "0";
        // Where xtask does not run as root, a user namespace makes the build root.
        let user: &[&str] = if is_root { &[] } else { &["--map-root-user"] };
        let enter = r#"set -e
            mount --rbind /dev "$1/dev"; mount --rbind /proc "$1/proc"
            mount --bind "$2" "$1/opt/rust"; mount --bind "$3" "$1/build/vendor"
            exec /usr/sbin/chroot "$1" /bin/sh -c "$4""#;
        let mut command = run::cmd("unshare", ["--mount", "--net"].iter().chain(user));
        command.args(["/bin/sh", "-c", enter, "chroot"]);
        command
            .arg(&self.root)
            .arg(&self.compiler)
            .arg(&self.crates);
        command
            .arg(script)
            .env_clear()
            .env("PATH", "/opt/rust/bin:/usr/bin:/usr/sbin:/bin:/sbin")
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", "/build")
            .env("CARGO_TARGET_DIR", "/build/cargo")
            .env("DEB_BUILD_OPTIONS", "noautodbgsym");
        run::logged(&mut command, log)
    }
}

fn make(cx: &Cx, dir: &Path) -> Result<()> {
    say("making a Debian 12 that builds packages (about two minutes, once)");
    let (archive, security) = apt::mirrors()?;
    let words = ["--variant=minbase", "--quiet", "--skip=output/dev"];
    let mut command = run::cmd("mmdebstrap", words);
    command.arg("--aptopt=APT::Install-Recommends \"false\"");
    command.arg(format!("--include={}", PACKAGES.join(",")));
    for path in ["doc", "info", "locale"] {
        command.arg(format!("--dpkgopt=path-exclude=/usr/share/{path}/*"));
    }
    let tar = dir.join("debian.tar");
    command.arg("bookworm").arg(&tar);
    command.arg(format!("deb {archive} bookworm main"));
    if let Some(security) = security {
        command.arg(format!("deb {security} bookworm-security main"));
    }
    run::logged(&mut command, &cx.target.join("deb-chroot.log"))?;
    let root = dir.join("root");
    fs::create_dir(&root)?;
    run::output(
        run::cmd(
            "tar",
            [
                "--extract",
                "--numeric-owner",
                "--exclude=./dev/*",
                "--file",
            ],
        )
        .arg(&tar)
        .arg("--directory")
        .arg(&root),
    )?;
    fs::remove_file(tar)?;
    for place in ["dev", "proc", "opt/rust", "build/vendor", "build/.cargo"] {
        fs::create_dir_all(root.join(place))?;
    }
    let config = "[source.crates-io]\nreplace-with = \"vendored\"\n[source.vendored]\ndirectory = \"/build/vendor\"\n";
    fs::write(root.join("build/.cargo/config.toml"), config)?;
    Ok(())
}

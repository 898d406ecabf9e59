// SPDX-License-Identifier: GPL-3.0-or-later
//! The Debian packages that building and testing need, and how they get onto the machine.

use std::io::{IsTerminal, Write};

use anyhow::{Context, Result, bail};

use crate::cx::{Cx, say};
use crate::run;

/// Sets of packages, each with the reason why it is needed.
const NEEDED: &[(&str, &[&str])] = &[
    (
        "build the app",
        &[
            "libgtk-4-dev",
            "libadwaita-1-dev",
            "libglib2.0-dev-bin",
            "gettext",
            "pkg-config",
            "meson",
        ],
    ),
    (
        "build the helper",
        &[
            "libdevmapper-dev",
            "libudev-dev",
            "libmount-dev",
            "libclang-dev",
        ],
    ),
    (
        "build the module and its tests",
        &[
            "build-essential",
            "flex",
            "bison",
            "bc",
            "libelf-dev",
            "libssl-dev",
            "cpio",
            "kmod",
            "pahole",
            "rsync",
            "xz-utils",
            "zstd",
            "clang",
            "libclang-rt-14-dev",
            "clang-19",
            "sparse",
            "coccinelle",
            "xfsprogs",
            "btrfs-progs",
        ],
    ),
    (
        "check data files",
        &[
            "desktop-file-utils",
            "appstream",
            "libxml2-utils",
            "dbus",
            "shellcheck",
        ],
    ),
    (
        "make the virtual machine",
        &[
            "mmdebstrap",
            "debian-archive-keyring",
            "gpgv",
            "e2fsprogs",
            "fakeroot",
            "uidmap",
            "fdisk",
            "busybox-static",
            "file",
        ],
    ),
    (
        "run the app without a display",
        &[
            "xvfb",
            "xauth",
            "openbox",
            "imagemagick",
            "fonts-cantarell",
            "fonts-dejavu-core",
            "adwaita-icon-theme",
            "at-spi2-core",
            "dbus-x11",
            "locales",
        ],
    ),
    (
        "run the helper on this machine",
        &["polkitd", "udisks2", "dmsetup"],
    ),
    ("cut the power of disks", &["nbd-server", "socat"]),
    ("read a rescued disk", &["qemu-utils"]),
];

/// Arguments of `cargo xtask deps`.
#[derive(clap::Args)]
pub struct Args {
    /// Name what is missing and stop.
    #[arg(long)]
    dry_run: bool,
}

/// `cargo xtask deps`.
pub fn command(_cx: &Cx, args: &Args) -> Result<()> {
    let missing = missing()?;
    if args.dry_run {
        print_missing(&missing);
        return Ok(());
    }
    install(&missing)
}

/// Installs missing packages; prints nothing if none is missing.
pub fn ensure() -> Result<()> {
    let missing = missing()?;
    if missing.is_empty() {
        Ok(())
    } else {
        install(&missing)
    }
}

/// The versions of all packages that are needed, a line each.
pub fn versions() -> Result<String> {
    let names = NEEDED.iter().flat_map(|(_, names)| names.iter());
    let format = ["--show", "--showformat", "${Package} ${Version}\n"];
    run::output(run::cmd("dpkg-query", format).args(names))
}

fn missing() -> Result<Vec<(&'static str, Vec<&'static str>)>> {
    if !run::found("dpkg-query") {
        bail!("this is not a Debian system: install what tests/xtask/src/deps.rs names by hand");
    }
    let names = NEEDED.iter().flat_map(|(_, names)| names.iter());
    let format = ["--show", "--showformat", "${Package} ${db:Status-Status}\n"];
    // dpkg-query fails when it does not know a package; its output for the other packages is still right.
    let result = run::cmd("dpkg-query", format)
        .args(names)
        .output()
        .context("cannot start dpkg-query")?;
    let text = String::from_utf8_lossy(&result.stdout).into_owned();
    let installed = |name: &str| {
        text.lines()
            .any(|line| line.strip_prefix(name) == Some(" installed"))
    };
    Ok(NEEDED
        .iter()
        .map(|(why, names)| {
            (
                *why,
                names
                    .iter()
                    .copied()
                    .filter(|name| !installed(name))
                    .collect::<Vec<_>>(),
            )
        })
        .filter(|(_, names)| !names.is_empty())
        .collect())
}

fn print_missing(missing: &[(&str, Vec<&str>)]) {
    if missing.is_empty() {
        say("every Debian package that is needed is installed");
        return;
    }
    say("these Debian packages are needed and not installed:");
    for (why, names) in missing {
        println!("    to {why}: {}", names.join(" "));
    }
}

fn install(missing: &[(&str, Vec<&str>)]) -> Result<()> {
    print_missing(missing);
    if missing.is_empty() {
        return Ok(());
    }
    let root = run::output(&mut run::cmd("id", ["-u"]))?.trim() == "0";
    let sudo = !root;
    if sudo && !run::found("sudo") {
        bail!(
            "installing packages needs root, and there is no sudo: run `cargo xtask deps` as root"
        );
    }
    if sudo && std::io::stdin().is_terminal() {
        say("sudo may ask for your password now");
    }
    std::io::stdout().flush()?;
    let names: Vec<_> = missing
        .iter()
        .flat_map(|(_, names)| names.iter().copied())
        .collect();
    say("apt-get update");
    apt(sudo, &["update", "-q"], &[]).context("cannot refresh the package lists")?;
    say(format!("apt-get install: {} packages", names.len()));
    let install = ["install", "-y", "-q", "--no-install-recommends"];
    apt(sudo, &install, &names).with_context(|| {
        format!(
            "cannot install the packages; try by hand: apt-get install --no-install-recommends {}",
            names.join(" ")
        )
    })
}

fn apt(sudo: bool, args: &[&str], names: &[&str]) -> Result<()> {
    // sudo drops the caller's variables, so `env` sets this one after sudo. With the lock option, apt-get waits until
    // another apt-get has finished.
    let mut words = if sudo {
        vec!["sudo", "env"]
    } else {
        vec!["env"]
    };
    words.extend([
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "-o",
        "DPkg::Lock::Timeout=600",
        "-o",
        "Dpkg::Use-Pty=0",
    ]);
    words.extend(args);
    words.extend(names);
    run::show(&mut run::cmd(words[0], &words[1..]))
}

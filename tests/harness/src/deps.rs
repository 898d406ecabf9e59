// SPDX-License-Identifier: GPL-3.0-or-later
//! The Debian packages that building and testing need, and how they get onto the machine.

use std::io::{IsTerminal, Write};

use anyhow::{Context, Result, bail};

use crate::cx::say;
use crate::run;

/// A reason to need packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// What builds the app.
    App,
    /// What builds the service.
    Helper,
    /// What builds kernels and the module.
    Module,
    /// What checks data files and scripts.
    Data,
    /// What makes the image of the virtual machine.
    Machine,
    /// What runs the app without a display.
    Display,
    /// What the service talks to, on this machine.
    Services,
    /// What cuts the power of disks.
    Power,
    /// What reads a rescued disk.
    Rescue,
    /// What makes and repairs file systems in a bare kernel.
    Formats,
}

/// Sets of packages, each with the reason why it is needed.
const NEEDED: &[(Need, &str, &[&str])] = &[
    (
        Need::App,
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
        Need::Helper,
        "build the helper",
        &[
            "libdevmapper-dev",
            "libudev-dev",
            "libmount-dev",
            "libclang-dev",
            "gettext",
        ],
    ),
    (
        Need::Module,
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
        Need::Data,
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
        Need::Machine,
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
        Need::Display,
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
        Need::Services,
        "run the helper on this machine",
        &["polkitd", "udisks2", "dmsetup"],
    ),
    (
        Need::Power,
        "cut the power of disks",
        &["nbd-server", "socat"],
    ),
    (Need::Rescue, "read a rescued disk", &["qemu-utils"]),
    (
        Need::Formats,
        "make and repair file systems",
        &[
            "f2fs-tools",
            "exfatprogs",
            "dosfstools",
            "ntfs-3g",
            "cryptsetup-bin",
            "lvm2",
        ],
    ),
];

/// What layers in the virtual machine need, which builds everything for the guest.
pub const GUEST: &[Need] = &[
    Need::App,
    Need::Helper,
    Need::Module,
    Need::Machine,
    Need::Power,
    Need::Rescue,
];
/// What layers in a bare kernel need.
pub const KERNEL: &[Need] = &[Need::Module, Need::Helper, Need::Formats];

/// Everything that any layer needs.
pub fn all() -> Vec<Need> {
    NEEDED.iter().map(|(need, ..)| *need).collect()
}

/// Installs the packages that are missing for these needs; prints nothing if none is missing.
///
/// # Errors
/// This is no Debian system, or apt fails.
pub fn ensure(needs: &[Need]) -> Result<()> {
    let missing = missing(needs)?;
    if missing.is_empty() {
        Ok(())
    } else {
        install(&missing)
    }
}

/// Names the packages that are missing for these needs.
///
/// # Errors
/// This is no Debian system.
pub fn tell(needs: &[Need]) -> Result<()> {
    print_missing(&missing(needs)?);
    Ok(())
}

fn missing(needs: &[Need]) -> Result<Vec<(&'static str, Vec<&'static str>)>> {
    let wanted: Vec<_> = NEEDED
        .iter()
        .filter(|(need, ..)| needs.contains(need))
        .collect();
    if !run::found("dpkg-query") {
        bail!("this is not a Debian system: install what tests/harness/src/deps.rs names by hand");
    }
    let names = wanted.iter().flat_map(|(_, _, names)| names.iter());
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
    Ok(wanted
        .iter()
        .map(|(_, why, names)| {
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

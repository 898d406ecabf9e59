// SPDX-License-Identifier: GPL-3.0-or-later
//! The packages on a disk that is plugged into the machine: those of this source, a newer one, and a flawed one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use tandem_guest::deb;
use tandem_guest::vm::Disk;
use tandem_harness::cx::Cx;
use tandem_harness::run;

/// What the newer package's version ends with.
pub const NEWER: &str = "+1";
/// Script that unpacks the disk to /root/packages and has apt read the local directory.
pub const UNPACK: &str = "disk=/dev/disk/by-id/wwn-0x50000000000000ab; for _ in $(seq 200); do [ -b $disk ] && break; sleep 0.05; done; \
    mkdir -p /root/packages /var/lib/apt/lists/partial /var/cache/apt/archives/partial && tar --extract --file $disk --directory /root/packages && apt-get --quiet update";

/// A tar file on a disk.
pub struct Medium(PathBuf);

impl Medium {
    /// Builds the packages and packs them.
    pub fn get(cx: &Cx) -> Result<Self> {
        let built = deb::build(cx)?;
        let dir = cx.target.join("vm-packages");
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        for sub in ["newer", "flawed"] {
            fs::create_dir_all(dir.join(sub))?;
        }
        for file in [&built.tandem, &built.dkms] {
            run::output(run::cmd("cp", ["-t"]).arg(&dir).arg(file))?;
        }
        changed(&built.tandem, &dir.join("newer"), |tree| {
            replace(
                &tree.join("DEBIAN/control"),
                "\nVersion: ",
                "\nVersion: ",
                NEWER,
            )
        })?;
        changed(&built.tandem, &dir.join("flawed"), |tree| {
            replace(
                &tree.join("DEBIAN/prerm"),
                "/usr/libexec/tandem-helper --removable",
                "true",
                "",
            )?;
            let unit = tree.join("usr/lib/systemd/system/tandem.service");
            replace(
                &unit,
                "ExecStart=/usr/libexec/",
                "ExecStart=/usr/lib/libexec/",
                "",
            )
        })?;
        let tar = cx.target.join("vm-packages.tar");
        let mut pack = run::cmd("tar", ["--create", "--owner=0", "--group=0", "--file"]);
        run::output(pack.arg(&tar).arg("--directory").arg(&dir).arg("."))?;
        Ok(Self(tar))
    }

    /// The disk.
    pub fn disk(&self) -> Disk {
        Disk {
            file: self.0.clone(),
            vendor: "Tandem",
            product: "Packages",
            serial: "PACKAGES1",
            wwn: 0x5000_0000_0000_00ab,
            rotation_rate: 1,
            read_only: true,
        }
    }
}

/// Unpacks a package, changes it, and packs it again in `to`.
fn changed(deb: &Path, to: &Path, change: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let tree = to.join("tree");
    run::output(run::cmd("dpkg-deb", ["--raw-extract"]).arg(deb).arg(&tree))?;
    change(&tree)?;
    let words = ["--root-owner-group", "-Zgzip", "--build"];
    run::output(run::cmd("dpkg-deb", words).arg(&tree).arg(to))?;
    Ok(fs::remove_dir_all(tree)?)
}

/// Replaces a text in a file, and adds `end` to the line in which it stands.
fn replace(file: &Path, old: &str, new: &str, end: &str) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let Some((before, after)) = text.split_once(old) else {
        anyhow::bail!("{} has no {old}", file.display());
    };
    let (line, rest) = after.split_once('\n').unwrap_or((after, ""));
    ensure!(!after.contains(old), "{} has {old} twice", file.display());
    Ok(fs::write(
        file,
        format!("{before}{new}{line}{end}\n{rest}"),
    )?)
}

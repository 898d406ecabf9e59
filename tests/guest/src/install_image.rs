// SPDX-License-Identifier: GPL-3.0-or-later
//! Machines as a person has them before Tandem is installed: Debian 12 and 13 with the kernel and the headers of their
//! own packages. A local directory has the packages that Tandem's packages bring with them, so that apt needs no network.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};

use crate::guest_kernel::{self, Kernel};
use crate::image::{self, Image, LEFT_OUT};
use crate::vm::Parts;
use tandem_harness::cx::{Cx, say};
use tandem_harness::machine::Family;
use tandem_harness::{apt, hash, run};

/// What a machine has on which modules are built, beside the desktop of tests/guest/machine/packages.
const PACKAGES: [&str; 6] = [
    "dpkg-dev",
    "gcc",
    "linux-headers-amd64",
    "linux-image-amd64",
    "make",
    "patch",
];
/// Packages that apt finds in the local directory, each with those that it needs.
const OFFERED: &str = "dkms mokutil openssl";
/// Size of the root file system in MiB; the file is sparse.
const SIZE: u32 = 3 << 10;
/// Script that puts the local directory into the tree, and has apt use nothing else. The machine starts from an initrd
/// of its own, so that no package has to make one, which takes minutes under emulation.
const OFFER: &str = r#"
	(cd srv/packages && dpkg-scanpackages --multiversion . 2>/dev/null >Packages)
	rm -rf etc/apt/sources.list.d/*; echo "deb [trusted=yes] file:/srv/packages ./" >etc/apt/sources.list
	sed -i 's/^update_initramfs=.*/update_initramfs=no/' etc/initramfs-tools/update-initramfs.conf
	rm -f initrd.img* vmlinuz*"#;

/// Makes the machine unless the cache has it.
pub fn get(cx: &Cx, release: Family) -> Result<Parts> {
    let sources = cx.path("tests/guest/machine");
    let packages = format!(
        "{},{}",
        image::packages(&sources, release)?,
        PACKAGES.join(",")
    );
    let userland = userland(cx, release, &packages)?;
    let made_from = userland.file_name().unwrap_or_default();
    let key = hash::key([
        made_from.to_string_lossy().into_owned(),
        hash::tree(&sources.join("rootfs"))?,
        hash::file(&sources.join("agent.c"))?,
        hash::file(&sources.join("init"))?,
        format!("{SIZE} {OFFER}"),
    ]);
    let kind = format!("install-image-{}", release.codename());
    let dir = cx.newest(&kind, &key, |dir| {
        say(format!(
            "making the disk of a fresh {} machine",
            release.codename()
        ));
        let tar = userland.join("debian.tar");
        let kernel = kernel(&tar, dir)?;
        image::initrd(&kernel, &sources.join("init"), dir)?;
        image::disk(&sources, &tar, SIZE, OFFER, dir, dir)
    })?;
    let kernel = found(&dir)?;
    let image = Image {
        root: dir.join("root.ext4"),
        initrd: dir.join("initrd"),
        modules: kernel.modules.clone(),
        key,
    };
    Parts::of(cx, kernel, image)
}

fn userland(cx: &Cx, release: Family, packages: &str) -> Result<PathBuf> {
    let (archive, security) = apt::mirrors()?;
    let suite = release.codename();
    let key = hash::key([packages, OFFERED]);
    cx.newest(&format!("install-userland-{suite}"), &key, |dir| {
        say(format!("making a {suite} userland with a kernel and a compiler (about three minutes, once)"));
        let start = Instant::now();
        let words = ["--variant=minbase", "--quiet", "--skip=output/dev"];
        let mut command = run::cmd("mmdebstrap", words);
        command.arg("--aptopt=APT::Install-Recommends \"false\"").arg(format!("--include={packages}"));
        for path in ["doc", "man", "info", "locale"] {
            command.arg(format!("--dpkgopt=path-exclude=/usr/share/{path}/*"));
        }
        for part in LEFT_OUT {
            for top in ["", "/usr"] {
                command.arg(format!("--dpkgopt=path-exclude={top}/lib/modules/*/kernel/{part}/*"));
            }
        }
        let fetch = format!(
            "--customize-hook=APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get --yes --quiet --download-only install {OFFERED} && \
             mkdir \"$1/srv/packages\" && mv \"$1\"/var/cache/apt/archives/*.deb \"$1/srv/packages/\""
        );
        command.arg(fetch);
        command.arg(suite).arg(dir.join("debian.tar")).arg(format!("deb {archive} {suite} main"));
        if let Some(security) = security {
            command.arg(format!("deb {security} {suite}-security main"));
        }
        run::logged(&mut command, &cx.target.join(format!("install-{suite}.log")))?;
        say(format!("userland made in {} s", start.elapsed().as_secs()));
        Ok(())
    })
}

/// Unpacks the kernel that is installed in a userland.
fn kernel(userland: &Path, dir: &Path) -> Result<Kernel> {
    let tree = dir.join("kernel");
    fs::create_dir(&tree)?;
    let mut tar = run::cmd("tar", ["--extract", "--wildcards", "--file"]);
    tar.arg(userland).arg("--directory").arg(&tree);
    run::output(tar.args(["./boot/vmlinuz-*", "./usr/lib/modules/*"]))?;
    fs::create_dir_all(tree.join("lib"))?;
    fs::rename(tree.join("usr/lib/modules"), tree.join("lib/modules"))?;
    let release = release(&tree)?;
    let image = tree.join("boot").join(format!("vmlinuz-{release}"));
    guest_kernel::extract(&image, &dir.join("vmlinux"))?;
    found(dir)
}

/// The kernel that [`kernel`] has unpacked.
fn found(dir: &Path) -> Result<Kernel> {
    let modules = dir.join("kernel");
    let release = release(&modules)?;
    Ok(Kernel {
        build: Some(modules.join("lib/modules").join(&release).join("build")),
        vmlinux: dir.join("vmlinux"),
        modules,
        release,
    })
}

fn release(tree: &Path) -> Result<String> {
    let names: Vec<_> = fs::read_dir(tree.join("lib/modules"))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    match names.as_slice() {
        [name] => Ok(name.clone()),
        names => bail!("not one kernel is installed: {names:?}"),
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The guest's root disk and initrd, made in steps that are each kept: Debian userland, then ours on top.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::guest_kernel::{self, Kernel};
use tandem_harness::apt;
use tandem_harness::cx::{Cx, say};
use tandem_harness::machine::Family;
use tandem_harness::{hash, run};

/// Name and password of the guest's user, who may administer the machine as the owner of a desktop does.
pub const USER: &str = "anna";
/// What the user types into the authentication dialog.
pub const PASSWORD: &str = "tandem-e2e";
/// The package in the list that makes initial file systems.
pub const INITRAMFS_TOOLS: &str = "initramfs-tools";
/// Size of the root file system in MiB; the file is sparse.
pub(crate) const ROOT_MIB: u32 = 2048;
/// Parts of the kernel's module tree that no virtual machine of ours has a device for.
pub(crate) const LEFT_OUT: &[&str] = &[
    "sound",
    "net",
    "drivers/net",
    "drivers/media",
    "drivers/gpu/drm/amd",
    "drivers/gpu/drm/nouveau",
    "drivers/gpu/drm/i915",
    "drivers/gpu/drm/radeon",
    "drivers/infiniband",
    "drivers/staging",
    "drivers/iio",
    "drivers/hwmon",
    "drivers/isdn",
];

/// What a machine boots from.
pub struct Image {
    /// ext4 root file system; attached with snapshot=on or copied, never written.
    pub root: PathBuf,
    /// Minimal initrd.
    pub initrd: PathBuf,
    /// The guest's kernel modules, `<release>/kernel/...`.
    pub modules: PathBuf,
    /// Names this image and its kernel.
    pub key: String,
}

/// Makes the image unless the cache has it. The package `initramfs` makes initial file systems in it.
pub fn get(cx: &Cx, kernel: &Kernel, initramfs: &str) -> Result<Image> {
    let sources = cx.path("tests/guest/machine");
    let release = cx.machine.release();
    let packages = packages(&sources, release)?.replace(INITRAMFS_TOOLS, initramfs);
    let userland = userland(cx, release, &packages)?;
    let key = hash::key([
        userland
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        kernel
            .modules
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        hash::tree(&sources.join("rootfs"))?,
        hash::file(&sources.join("agent.c"))?,
        hash::file(&sources.join("init"))?,
        format!("2 {USER} {PASSWORD} {ROOT_MIB} {LEFT_OUT:?}"),
    ]);
    let dir = cx.recent("image", &key, 2, |dir| {
        assemble(kernel, &sources, &userland.join("debian.tar"), dir)
    })?;
    Ok(Image {
        root: dir.join("root.ext4"),
        initrd: dir.join("initrd"),
        modules: dir.join("modules"),
        key,
    })
}

/// The packages of the desktop in the folder `sources`, with commas between them. A later release has other names for some.
pub(crate) fn packages(sources: &Path, release: Family) -> Result<String> {
    let list = sources.join("packages");
    let text =
        fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let names: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let list = names.join(",");
    Ok(match release {
        Family::Bookworm => list,
        Family::Trixie => list
            .replace("libblockdev-crypto2", "libblockdev-crypto3")
            .replace("libblockdev-mdraid2", "libblockdev-mdraid3"),
    })
}

/// A release with the guest's packages, as a tar file.
fn userland(cx: &Cx, release: Family, packages: &str) -> Result<PathBuf> {
    let (archive, security) = apt::mirrors()?;
    let suite = release.codename();
    cx.newest(&format!("userland-{suite}"), &hash::key([packages]), |dir| {
        say(format!("making a {suite} userland for the virtual machine (about two minutes, once)"));
        let start = Instant::now();
        let mut command = run::cmd("mmdebstrap", ["--variant=minbase", "--quiet", "--skip=output/dev"]);
        command.arg("--aptopt=APT::Install-Recommends \"false\"").arg(format!("--include={packages}"));
        for path in ["doc", "man", "info", "locale"] {
            command.arg(format!("--dpkgopt=path-exclude=/usr/share/{path}/*"));
        }
        command.arg("--customize-hook=chroot \"$1\" sh -c 'echo de_DE.UTF-8 UTF-8 >/etc/locale.gen; locale-gen >/dev/null'");
        command.arg(suite).arg(dir.join("debian.tar")).arg(format!("deb {archive} {suite} main"));
        if let Some(security) = security {
            command.arg(format!("deb {security} {suite}-security main"));
        }
        run::logged(&mut command, &cx.target.join("image.log"))?;
        say(format!("userland made in {} s", start.elapsed().as_secs()));
        Ok(())
    })
}

/// Puts kernel modules, agent and configuration over the userland and makes the disk.
fn assemble(kernel: &Kernel, sources: &Path, userland: &Path, dir: &Path) -> Result<()> {
    say("making the virtual machine's disk");
    initrd(kernel, &sources.join("init"), dir)?;
    let modules = dir.join("modules");
    copy_modules(kernel, &modules)?;
    let script = r#"mkdir -p lib/modules; cp -r --no-preserve=ownership "$MODULES/." lib/modules/"#;
    disk(sources, userland, ROOT_MIB, script, &modules, dir)
}

/// Makes the disk `root.ext4` in `dir` from a userland. The agent, the user and the configuration are added, and what
/// `script` adds, which finds `more` in `$MODULES` and runs at the top of the tree.
pub(crate) fn disk(
    sources: &Path,
    userland: &Path,
    size_mib: u32,
    script: &str,
    more: &Path,
    dir: &Path,
) -> Result<()> {
    let agent = dir.join("agent");
    let cc = run::cmd(
        "gcc",
        ["-static", "-O2", "-Wall", "-Wextra", "-Werror", "-o"],
    )
    .arg(&agent)
    .arg(sources.join("agent.c"))
    .status();
    anyhow::ensure!(
        cc.context("cannot start gcc")?.success(),
        "cannot compile the guest's agent"
    );
    let hash = run::output(&mut run::cmd(
        "openssl",
        ["passwd", "-6", "-salt", "tandem", PASSWORD],
    ))?;
    let root = dir.join("tree");
    fs::create_dir(&root)?;
    // One shell script, because ownership exists only inside one fakeroot.
    let whole = r#"set -e
        cd "$ROOT"; tar --extract --file "$USERLAND" --numeric-owner
        mkdir -p dev proc sys run
        cp -r --no-preserve=ownership "$SOURCES/rootfs/." .
        install -m 755 "$AGENT" usr/lib/vm/agent
        eval "$MORE"
        echo "$NAME:x:1000:1000:Anna:/home/$NAME:/bin/bash" >>etc/passwd
        echo "$NAME:x:1000:" >>etc/group
        echo "$NAME:$HASH:19000:0:99999:7:::" >>etc/shadow
        for group in sudo video input; do sed -i "s/^$group:\(.*\):\$/$group:\1:$NAME/" etc/group; done
        mkdir -p "home/$NAME/Archive"; chown -R 1000:1000 "home/$NAME"
        echo 0123456789abcdef0123456789abcdef >etc/machine-id
        rm -rf var/cache/apt var/lib/apt/lists
        truncate -s "${SIZE}M" "$DISK"
        mke2fs -q -F -t ext4 -L guest -E lazy_itable_init=1,lazy_journal_init=1 -d . "$DISK"
        rm -rf "$ROOT"
    "#;
    let me_root = run::output(&mut run::cmd("id", ["-u"]))?.trim() == "0";
    let mut command = if me_root {
        run::cmd("sh", ["-c", whole])
    } else {
        run::cmd("fakeroot", ["--", "sh", "-c", whole])
    };
    command
        .env("ROOT", &root)
        .env("USERLAND", userland)
        .env("SOURCES", sources)
        .env("AGENT", &agent)
        .env("MORE", script)
        .env("MODULES", more);
    command
        .env("NAME", USER)
        .env("HASH", hash.trim())
        .env("SIZE", size_mib.to_string())
        .env("DISK", dir.join("root.ext4"));
    run::output(&mut command)?;
    Ok(())
}

fn copy_modules(kernel: &Kernel, to: &Path) -> Result<()> {
    let from = kernel.modules.join("lib/modules");
    fs::create_dir_all(to)?;
    let mut command = run::cmd("rsync", ["-a", "--exclude=/*/build", "--exclude=/*/source"]);
    for part in LEFT_OUT {
        command.arg(format!("--exclude=/*/kernel/{part}/"));
    }
    run::output(command.arg(format!("{}/", from.display())).arg(to))?;
    let base = to.join("base/lib");
    fs::create_dir_all(&base)?;
    std::os::unix::fs::symlink(to, base.join("modules"))?;
    run::output(
        run::cmd("depmod", ["-b"])
            .arg(to.join("base"))
            .arg(&kernel.release),
    )?;
    fs::remove_dir_all(to.join("base"))?;
    Ok(())
}

/// Busybox, our init script and the modules that lead to the root disk.
pub(crate) fn initrd(kernel: &Kernel, init: &Path, dir: &Path) -> Result<()> {
    let tree = dir.join("initrd.tree");
    for sub in ["bin", "dev", "lib", "root"] {
        fs::create_dir_all(tree.join(sub))?;
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox"]
        .into_iter()
        .find(|path| Path::new(path).is_file());
    fs::copy(
        busybox.context("busybox-static is not installed")?,
        tree.join("bin/busybox"),
    )?;
    fs::copy(init, tree.join("init"))?;
    let mut list = String::new();
    // crc32c is asked for by name at run time, so that no dependency names it. Later kernels have it built in.
    let wanted = ["crc32c_generic", "virtio_pci", "virtio_blk", "ext4"];
    let is_built_in = guest_kernel::with_dependencies(kernel, &wanted[..1]).is_err();
    let wanted = &wanted[usize::from(is_built_in)..];
    for module in guest_kernel::with_dependencies(kernel, wanted)? {
        let name = module.file_name().context("a module has a name")?;
        let name = name.to_string_lossy();
        let file = tree.join("lib").join(&*name);
        fs::copy(&module, &file)?;
        // busybox loads only modules that are not compressed.
        if name.ends_with(".xz") {
            run::output(run::cmd("xz", ["--decompress"]).arg(&file))?;
        }
        list.push_str(name.trim_end_matches(".xz"));
        list.push('\n');
    }
    fs::write(tree.join("modules"), list)?;
    let pack = r#"cd "$TREE" && find . | cpio --quiet -o -H newc -R 0:0 >"$OUT""#;
    run::output(
        run::cmd("sh", ["-c", pack])
            .env("TREE", &tree)
            .env("OUT", dir.join("initrd")),
    )?;
    fs::remove_dir_all(tree)?;
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The compiler of Debian 13, for kernels that are too new for Debian 12's compiler and libraries.
//!
//! Its pinned packages are unpacked into a directory that becomes the root of the processes that build.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cx::{Cx, say};
use crate::kbuild;
use crate::{fetch, pins, run};

/// Builds the module `file`, whose sources are below `source`, for Debian 13's newest kernel and returns it.
pub fn module(cx: &Cx, release: &str, source: &str, file: &str, log: &Path) -> Result<PathBuf> {
    let mut wanted = pins::group("trixie-compiler")?;
    wanted.extend(pins::group("linux-debian13-backports-headers")?);
    let debs = fetch::all_pinned(cx, &wanted)?;
    let root = cx.cached("compiler", &fetch::key(&debs), |dir| unpack(&debs, dir))?;
    // Inside the root directory, because the processes that build see no other files of the machine.
    let name = format!("build-{}", std::process::id());
    let build = root.join(&name);
    kbuild::copy(&cx.path(source), &build)?;
    let built = build_module(release, &root, &name, log);
    let module = cx.target.join(format!("kmod-{release}"));
    let kept = built.and_then(|()| {
        fs::create_dir_all(&module)?;
        fs::copy(build.join(file), module.join(file))?;
        Ok(module.join(file))
    });
    fs::remove_dir_all(&build)?;
    kept
}

fn build_module(release: &str, root: &Path, name: &str, log: &Path) -> Result<()> {
    // The build runs in a mount namespace of its own. Where xtask does not run as root, a user namespace makes the
    // build root.
    let is_root = run::output(&mut run::cmd("id", ["-u"]))?.trim() == "0";
    let user: &[&str] = if is_root { &[] } else { &["--map-root-user"] };
    let script = "mount --rbind /dev \"$1/dev\" && mount --rbind /proc \"$1/proc\" && exec /usr/sbin/chroot \"$@\"";
    let mut make = run::cmd("unshare", ["--mount"].iter().chain(user));
    make.args(["/bin/sh", "-c", script, "chroot"]).arg(root);
    make.args(["/usr/bin/make", "-s", "-j2", "-C"])
        .arg(format!("/usr/src/linux-headers-{release}"));
    make.arg(format!("M=/{name}")).arg("modules");
    make.env_clear()
        .env("PATH", "/usr/bin:/usr/sbin:/bin")
        .env("LC_ALL", "C");
    run::logged(&mut make, log).with_context(|| format!("the module does not build for {release}"))
}

fn unpack(debs: &[PathBuf], dir: &Path) -> Result<()> {
    say("unpacking Debian 13's compiler (about 80 MB)");
    // Since Debian 13 everything lies in /usr. The package that makes these links would bring many other packages.
    fs::create_dir_all(dir.join("usr"))?;
    for name in ["bin", "lib", "lib64", "sbin"] {
        fs::create_dir_all(dir.join("usr").join(name))?;
        symlink(Path::new("usr").join(name), dir.join(name))?;
    }
    debs.iter().try_for_each(|deb| fetch::unpack(deb, dir))?;
    // The short names gcc (for x86_64-linux-gnu-gcc-14), as, ld and awk, which would come from further packages.
    let programs = dir.join("usr/bin");
    for entry in fs::read_dir(&programs)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(short) = name.strip_prefix("x86_64-linux-gnu-") {
            symlink(&name, programs.join(short.trim_end_matches("-14")))?;
        }
    }
    symlink("mawk", programs.join("awk"))?;
    for name in ["dev", "proc", "tmp"] {
        fs::create_dir_all(dir.join(name))?;
    }
    Ok(())
}

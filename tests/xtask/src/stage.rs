// SPDX-License-Identifier: GPL-3.0-or-later
//! Builds the project and lays it out as it is installed, for the guest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cx::{Cx, say};
use crate::guest_kernel::Kernel;
use crate::vm::{Disk, Parts, Vm};
use crate::{hash, run, suite};

/// Unpacking a few dozen MB and reloading the guest's services, under emulation.
const INSTALL_LIMIT: Duration = Duration::from_secs(120);

/// Programs and where they are installed.
const PROGRAMS: &[(&str, &str)] = &[
    ("tandem", "usr/bin"),
    ("tandem-tray", "usr/bin"),
    ("tandemctl", "usr/bin"),
    ("tandem-helper", "usr/libexec"),
    ("tandem-probe", "usr/libexec"),
    ("tandem-e2e", "usr/local/bin"),
    ("tandem-kill", "usr/local/bin"),
];

/// The project, built and packed as a tar file which the guest unpacks over its root.
pub struct Stage {
    /// The tar file.
    pub tar: PathBuf,
}

/// Builds programs and module, and packs them with the data files.
pub fn build(cx: &Cx, parts: &Parts) -> Result<Stage> {
    let kernel = &parts.kernel;
    let start = Instant::now();
    say("building the app, the service and the module");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&cx.root).args(["build", "--quiet"]);
    for (program, _) in PROGRAMS {
        cargo.args(["--bin", program]);
    }
    run::show(&mut cargo)?;
    let module = module(cx, kernel)?;

    let dir = cx.target.join("vm-stage");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    for (program, place) in PROGRAMS {
        let to = dir.join(place);
        fs::create_dir_all(&to)?;
        let from = cx.target.join("debug").join(program);
        run::output(run::cmd("strip", ["-o"]).arg(to.join(program)).arg(&from))?;
    }
    let modules = dir
        .join("lib/modules")
        .join(&kernel.release)
        .join("updates");
    fs::create_dir_all(&modules)?;
    run::output(
        run::cmd("strip", ["--strip-debug", "-o"])
            .arg(modules.join("dm-tandem.ko"))
            .arg(&module),
    )?;
    list_modules(parts, &dir)?;
    data(cx, &dir)?;
    let tar = cx.target.join("vm-stage.tar");
    let pack = [
        "--create",
        "--owner=0",
        "--group=0",
        "--sort=name",
        "--file",
    ];
    run::output(
        run::cmd("tar", pack)
            .arg(&tar)
            .arg("--directory")
            .arg(&dir)
            .arg("."),
    )?;
    say(format!("built in {} s", start.elapsed().as_secs()));
    Ok(Stage { tar })
}

/// Lists the guest's modules with ours among them; the guest itself would take ten seconds for it.
fn list_modules(parts: &Parts, dir: &Path) -> Result<()> {
    let release = &parts.kernel.release;
    let ours = dir.join("lib/modules").join(release);
    let tree = dir.with_extension("modules");
    let all = tree.join("lib/modules").join(release);
    fs::create_dir_all(&all)?;
    run::output(
        run::cmd("cp", ["-r"])
            .arg(parts.modules().join(release).join("kernel"))
            .arg(&all),
    )?;
    run::output(run::cmd("cp", ["-r"]).arg(ours.join("updates")).arg(&all))?;
    for name in [
        "modules.builtin",
        "modules.builtin.modinfo",
        "modules.order",
    ] {
        fs::copy(parts.modules().join(release).join(name), all.join(name))?;
    }
    run::output(run::cmd("/sbin/depmod", ["-b"]).arg(&tree).arg(release))?;
    for entry in fs::read_dir(&all)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), ours.join(entry.file_name()))?;
        }
    }
    fs::remove_dir_all(&tree)?;
    Ok(())
}

/// The module for a kernel, built anew whenever its sources have changed.
fn module(cx: &Cx, kernel: &Kernel) -> Result<PathBuf> {
    let source = cx.path("kmod");
    let mut key = vec![kernel.release.clone(), hash::file(&source.join("Kbuild"))?];
    for part in ["core", "linux", "configure.d"] {
        key.push(hash::tree(&source.join(part))?);
    }
    let log = cx.target.join("kmod.log");
    // Debian builds its kernels with this compiler; another one would not be accepted by them.
    let settings = ["CC=gcc-12"];
    let dir = cx.cached("module", &hash::key(key), |dir| {
        suite::module(&source, &kernel.build, dir, &settings, &log)
    })?;
    Ok(dir.join("dm-tandem.ko"))
}

/// The data files, as meson installs them.
fn data(cx: &Cx, dir: &Path) -> Result<()> {
    let build = cx.target.join("vm-meson");
    let log = cx.target.join("meson.log");
    if !build.join("build.ninja").is_file() {
        let setup = [
            "setup",
            "--prefix=/usr",
            "--libexecdir=libexec",
            "--sysconfdir=/etc",
        ];
        run::logged(run::cmd("meson", setup).arg(&build).arg(&cx.root), &log)?;
    }
    let install = [
        "install",
        "--quiet",
        "--no-rebuild",
        "--tags",
        "data",
        "--destdir",
    ];
    run::logged(
        run::cmd("meson", install).arg(dir).arg("-C").arg(&build),
        &log,
    )
}

/// Puts the project into the running guest, as a package would.
pub fn install(vm: &mut Vm, stage: &Stage) -> Result<()> {
    let start = Instant::now();
    let disk = Disk {
        file: stage.tar.clone(),
        vendor: "Tandem",
        product: "Package",
        serial: "PACKAGE01",
        wwn: 0x5000_0000_0000_00aa,
        rotation_rate: 1,
        read_only: true,
    };
    vm.plug(&disk)?;
    vm.agent
        .sh(include_str!("../../vm/install.sh"), INSTALL_LIMIT)?;
    vm.unplug(&disk)?;
    say(format!(
        "installed in the virtual machine in {:.1} s",
        start.elapsed().as_secs_f32()
    ));
    Ok(())
}

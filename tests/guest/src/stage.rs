// SPDX-License-Identifier: GPL-3.0-or-later
//! Builds the project and packs it for the guest as it is installed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::guest_kernel::Kernel;
use crate::vm::{Disk, Parts, Vm};
use tandem_harness::cx::{Cx, say};
use tandem_harness::{hash, run};

/// Longest installation: some dozens of MB are unpacked and the guest's services reloaded, under emulation.
const INSTALL_LIMIT: Duration = Duration::from_secs(120);

/// Script that installs the project in the guest.
pub const INSTALL: &str = include_str!("../machine/install.sh");

const MODULE: &str = "dm-tandem.ko";

/// The packed project, in the target folder.
pub const TAR: &str = "vm-stage.tar";

/// Folder of what cargo builds, in a target folder. The tests of the programs have built most of it then.
const BUILT: &str = "debug";

/// Programs and where they are installed.
const PROGRAMS: &[(&str, &str)] = &[
    ("tandem", "usr/bin"),
    ("tandem-tray", "usr/bin"),
    ("tandemctl", "usr/bin"),
    ("tandem-helper", "usr/libexec"),
    ("tandem-e2e", "usr/local/bin"),
    ("tandem-kill", "usr/local/bin"),
    ("tandem-same", "usr/local/bin"),
];

/// The packages of the programs, built apart: cargo gives the libraries of packages that are built together the features of
/// all. So the window's have those of its tests and are not built again.
const PACKAGES: &[&[&str]] = &[
    &["tandem"],
    &["tandem-tray", "tandemctl", "tandem-helper"],
    &["tandem-e2e"],
];

/// Programs of the start, which are also in the initial file system. They have no bus in them. Their tests have, which may be built
/// at the same time: so these have a folder of their own.
const START: &str = "start";
const OF_THE_START: &[(&str, &str)] = &[
    ("tandem-probe", "usr/libexec"),
    ("tandem-assemble", "usr/libexec"),
];

/// The project, built and packed as a tar file which the guest unpacks over its root.
pub struct Stage {
    /// The tar file.
    pub tar: PathBuf,
    /// Names what is in it.
    pub key: String,
}

/// Builds programs and module, and packs them with the data files.
pub fn build(cx: &Cx, parts: &Parts) -> Result<Stage> {
    // Another process may be packing now.
    let lock = File::create(cx.target.join("vm-stage.lock"))?;
    lock.lock()?;
    let kernel = &parts.kernel;
    let start = Instant::now();
    say("building the app, the service and the module");
    for packages in PACKAGES {
        run::show(&mut cargo(cx, packages))?;
    }
    let apart = cx.target.join(START);
    run::show(
        cargo(cx, &["tandem-assemble"])
            .arg("--target-dir")
            .arg(&apart),
    )?;
    let built = |folder: &Path, programs: &[(&str, &'static str)]| -> Vec<_> {
        let file = |name: &str| folder.join(BUILT).join(name);
        programs
            .iter()
            .map(|(name, place)| (file(name), *place))
            .collect()
    };
    let of_the_start = built(&apart, OF_THE_START);
    for (program, _) in &of_the_start {
        let crates = of_the_bus(&fs::read(program)?);
        ensure!(
            crates.is_empty(),
            "{} holds code of {crates:?}",
            program.display()
        );
    }
    let mut programs = built(&cx.target, PROGRAMS);
    programs.extend(of_the_start);
    let module = module(cx, kernel)?;
    let lists = module_lists(cx, parts, &module)?;
    let tar = cx.target.join(TAR);
    let packed = cx.target.join("vm-stage.key");
    let mut key = vec![
        lists.display().to_string(),
        hash::tree(&cx.path("data"))?,
        hash::file(&cx.path("meson.build"))?,
        hash::file(&cx.path("meson_options.txt"))?,
    ];
    for (program, place) in &programs {
        let changed = fs::metadata(program)?
            .modified()?
            .duration_since(UNIX_EPOCH)?;
        key.push(format!("{} {place} {changed:?}", program.display()));
    }
    let key = hash::key(key);
    if !(tar.is_file() && fs::read_to_string(&packed).is_ok_and(|old| old == key)) {
        let _ = fs::remove_file(&packed);
        let dir = cx.target.join("vm-stage");
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        for (program, place) in &programs {
            fs::create_dir_all(dir.join(place))?;
            let name = program.file_name().context("a program has a name")?;
            let mut strip = run::cmd("strip", ["-o"]);
            strip.arg(dir.join(place).join(name)).arg(program);
            run::output(&mut strip)?;
        }
        fs::create_dir_all(dir.join("lib"))?;
        run::output(
            run::cmd("cp", ["-r"])
                .arg(&lists)
                .arg(dir.join("lib/modules")),
        )?;
        data(cx, &dir)?;
        pack(&dir, &tar)?;
        fs::write(&packed, &key)?;
    }
    say(format!("built in {} s", start.elapsed().as_secs()));
    Ok(Stage { tar, key })
}

/// Has the programs of these packages built.
fn cargo(cx: &Cx, packages: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&cx.root).args(["build", "--bins"]);
    for package in packages {
        cargo.args(["--package", package]);
    }
    cargo
}

/// The crates of the bus and of the asynchronous runtime whose code a program holds: the compiler leaves the names of
/// their sources in it, where the code may panic.
fn of_the_bus(program: &[u8]) -> Vec<&'static str> {
    let crates = ["zbus", "zruntime", "tokio", "mio"];
    let text = String::from_utf8_lossy(program);
    let is_in = |name: &&str| {
        let version = |rest: &str| {
            let numbers = |c: char| c == '-' || c == '.' || c.is_ascii_digit();
            rest.trim_start_matches(numbers).starts_with("/src/")
        };
        text.split(&format!("/{name}")).skip(1).any(version)
    };
    crates.into_iter().filter(is_in).collect()
}

fn pack(dir: &Path, tar: &Path) -> Result<()> {
    // The new file replaces the old one by name; a running machine keeps the old file.
    let new = tar.with_extension("new");
    let words = [
        "--create",
        "--owner=0",
        "--group=0",
        "--sort=name",
        "--file",
    ];
    run::output(
        run::cmd("tar", words)
            .arg(&new)
            .arg("--directory")
            .arg(dir)
            .arg("."),
    )?;
    Ok(fs::rename(new, tar)?)
}

/// What lies below `lib/modules`: our module, and the lists of the guest's modules with ours among them, which the
/// guest itself would take ten seconds to make.
fn module_lists(cx: &Cx, parts: &Parts, module: &Path) -> Result<PathBuf> {
    let release = &parts.kernel.release;
    let key = hash::key([
        hash::file(module)?,
        parts.modules().display().to_string(),
        release.clone(),
    ]);
    cx.cached("module-lists", &key, |dir| {
        let tree = dir.join("tree");
        let all = tree.join("lib/modules").join(release);
        let updates = all.join("updates");
        fs::create_dir_all(&updates)?;
        run::output(
            run::cmd("cp", ["-r"])
                .arg(parts.modules().join(release).join("kernel"))
                .arg(&all),
        )?;
        run::output(
            run::cmd("strip", ["--strip-debug", "-o"])
                .arg(updates.join(MODULE))
                .arg(module),
        )?;
        for name in [
            "modules.builtin",
            "modules.builtin.modinfo",
            "modules.order",
        ] {
            fs::copy(parts.modules().join(release).join(name), all.join(name))?;
        }
        run::output(run::cmd("/sbin/depmod", ["-b"]).arg(&tree).arg(release))?;
        fs::remove_dir_all(all.join("kernel"))?;
        fs::rename(&all, dir.join(release))?;
        fs::remove_dir_all(&tree)?;
        Ok(())
    })
}

/// The module for a kernel, built anew whenever its sources have changed.
fn module(cx: &Cx, kernel: &Kernel) -> Result<PathBuf> {
    let source = cx.path("kmod");
    let mut key = vec![kernel.release.clone(), hash::file(&source.join("Kbuild"))?];
    for part in ["core", "linux", "configure.d"] {
        key.push(hash::tree(&source.join(part))?);
    }
    let log = cx.target.join("kmod.log");
    let dir = cx.cached("module", &hash::key(key), |dir| {
        let built = kernel.built(cx, "kmod", MODULE, &dir.join("build"), &log)?;
        Ok(fs::copy(built, dir.join(MODULE)).map(drop)?)
    })?;
    Ok(dir.join(MODULE))
}

/// The data files, as meson installs them.
fn data(cx: &Cx, dir: &Path) -> Result<()> {
    let build = cx.target.join("vm-meson");
    let log = cx.target.join("meson.log");
    // meson copies the files and fixes which are installed when the build folder is made.
    let made = cx.target.join("vm-meson.key");
    let key = hash::key([
        hash::file(&cx.path("meson.build"))?,
        hash::file(&cx.path("meson_options.txt"))?,
        hash::tree(&cx.path("data"))?,
    ]);
    if !fs::read_to_string(&made).is_ok_and(|old| old == key) {
        if build.exists() {
            fs::remove_dir_all(&build)?;
        }
        let setup = [
            "setup",
            "--prefix=/usr",
            "--libexecdir=libexec",
            "--sysconfdir=/etc",
        ];
        run::logged(run::cmd("meson", setup).arg(&build).arg(&cx.root), &log)?;
        fs::write(&made, &key)?;
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
    vm.agent.sh(INSTALL, INSTALL_LIMIT)?;
    vm.unplug(&disk)?;
    let gone = "while [ -b /dev/disk/by-id/wwn-0x50000000000000aa ]; do sleep 0.05; done";
    vm.agent.sh(gone, INSTALL_LIMIT)?;
    say(format!(
        "installed in the virtual machine in {:.1} s",
        start.elapsed().as_secs_f32()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_the_bus_is_seen_by_the_names_of_its_sources() {
        let program = |text: &str| of_the_bus(&[&[0x7f, 0xff, 0], text.as_bytes(), &[0]].concat());
        assert_eq!(program("/a/tokio-1.54.1/src/sync/notify.rs"), ["tokio"]);
        assert_eq!(program("/vendor/zbus/src/fdo/mod.rs"), ["zbus"]);
        assert_eq!(
            program("/a/zbus-6.2.1/src/x.rs/a/mio-1.2/src/y.rs"),
            ["zbus", "mio"]
        );
        assert!(
            program("/a/serde-1.0/src/lib.rs zbus tokio-1.54.1 /tokio-util/src/x.rs").is_empty()
        );
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests that run the module in the kernels of Debian's releases, in QEMU.
//!
//! The guest has a kernel and an initramfs and no disk. The initramfs has the suite as the first process, the modules
//! that the suite needs, and the programs that make and check file systems.

mod formats;
mod trouble;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tandem_harness::deps;

use anyhow::{Context, Result, ensure};

use crate::{suite, uml};
use tandem_guest::guest_kernel::{self, Kernel, Source};
use tandem_guest::qemu::Qemu;
use tandem_harness::cx::Cx;
use tandem_harness::layer::{Layer, Run, When};
use tandem_harness::{programs, run, sample, seed};

/// Longest run of an emulated guest on a busy machine.
const LIMIT: Duration = Duration::from_secs(5000);

/// Modules of the kernel that the suite uses, where they are not built in.
///
/// Arguments follow after colons: null_blk makes a disk of its own unless told not to.
const MODULES: &[&str] = &[
    "null_blk:nr_devices=0",
    "loop",
    "dm-mod",
    "dm-flakey",
    "dm-delay",
    "dm-log-writes",
    "ext4",
];

/// Modules of the file systems that only the functional suite uses.
const FILE_SYSTEMS: [&str; 2] = ["xfs", "btrfs"];

/// Programs that the suite starts.
const PROGRAMS: [&str; 2] = ["/sbin/mke2fs", "/sbin/e2fsck"];

/// Programs for [`FILE_SYSTEMS`].
const FILE_SYSTEM_PROGRAMS: [&str; 4] = [
    "/sbin/mkfs.xfs",
    "/sbin/xfs_repair",
    "/sbin/mkfs.btrfs",
    "/bin/btrfs",
];

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        Layer {
            name: "kernel-debian12",
            about: "module built for and tested in Debian 12's kernel",
            needs: deps::KERNEL,
            when: When::Always,
            run: |run| functional(run, Source::Debian12),
        },
        Layer {
            name: "kernel-debian12-backports",
            about: "module built for and tested in the kernel of Debian 12's backports",
            needs: deps::KERNEL,
            when: When::Sampled(7),
            run: |run| functional(run, Source::Debian12Backports),
        },
        Layer {
            name: "kernel-debian13-backports",
            about: "module built for and tested in the kernel of Debian 13's backports",
            needs: deps::KERNEL,
            when: When::Sampled(7),
            run: |run| functional(run, Source::Debian13Backports),
        },
    ]
}

/// A kernel, and our modules built for it.
pub struct Target {
    /// The kernel.
    pub kernel: Kernel,
    /// The module under test.
    pub module: PathBuf,
    /// The module of test disks, tests/module/disk.
    pub disk: PathBuf,
}

/// The kernel of a layer with our modules.
pub fn target(cx: &Cx, source: Source, log: &Path) -> Result<Target> {
    let kernel = source.kernel(cx)?;
    let built = |sources: &str, file: &str| {
        let build = cx.target.join(format!("suite-{}", kernel.release));
        kernel.built(
            cx,
            sources,
            file,
            &build.join(file.trim_end_matches(".ko")),
            log,
        )
    };
    let module = built("kmod", "dm-tandem.ko")?;
    let disk = built("tests/module/disk", "dm-testdisk.ko")?;
    Ok(Target {
        kernel,
        module,
        disk,
    })
}

/// Cases whose results may differ between kernels, by the beginnings of their names: the interface of device mapper,
/// memory, requests of all kinds, and disks that fail. What the module does with its own metadata is the same in all.
const INTERFACE_AND_FAILURES: &[&str] = &[
    "refusals:",
    "life:",
    "reload: the",
    "reload: a cold",
    "content: direct",
    "content: buffered",
    "content: discards",
    "content: 4096",
    "content: 512",
    "order:",
    "sizes:",
    "write caches:",
    "failures: SSD gone",
    "failures: SSD that",
    "failures: disk",
    "failures: the disk",
    "hung:",
];

/// One case in so many runs without `--all`.
const PARTS: u64 = 12;

/// The suite on one of the three kernels. Without `--all` one case of [`PARTS`] runs, by the commit. With `--all` the whole
/// suite runs on the oldest kernel, also with little memory, the cases of interface and failures on the others, and on all
/// of them the tests of disks that are pulled; on the oldest and the newest the real file systems that are used elsewhere.
/// Under TCG a case takes ten seconds of a processor.
fn functional(run: &mut Run, source: Source) -> Result<()> {
    let cx = run.cx;
    let target = target(cx, source, &run.log)?;
    let qemu = Qemu::get(cx)?;
    let accel = if qemu.kvm_works(cx, &target.kernel.vmlinux)? {
        ["kvm", "host"]
    } else {
        ["tcg,thread=multi", "max"]
    };
    let set = run.case.as_deref().map(uml::set_of);
    if set.map_or(run.all && source == Source::Debian12, |set| set == "memory") {
        trouble::memory(run, &qemu, &target, accel)?;
    }
    if set.map_or(run.all, |set| set == "pulled") {
        trouble::pulled(run, &qemu, &target, accel)?;
    }
    let with_formats = run.all && source != Source::Debian12Backports;
    if set.map_or(with_formats, |set| set == "formats") {
        formats::run(run, &qemu, &target, accel)?;
    }
    if set.is_some_and(|set| !set.is_empty()) {
        return Ok(());
    }
    let programs: Vec<_> = PROGRAMS
        .iter()
        .chain(&FILE_SYSTEM_PROGRAMS)
        .map(|program| (Path::new(*program), *program))
        .collect();
    let modules: Vec<_> = MODULES.iter().chain(&FILE_SYSTEMS).copied().collect();
    let (initramfs, variables) = initramfs(cx, &target, &modules, &[&target.disk], &programs)?;
    let part = match &run.case {
        Some(_) => format!(" SUITE_ONLY={}", uml::only(run)),
        None if run.all && source == Source::Debian12 => String::new(),
        None if run.all => {
            let names = INTERFACE_AND_FAILURES.join("|").replace(' ', "_");
            format!(" SUITE_ONLY={names}")
        }
        None => {
            let part = sample::part(cx, &target.kernel.release, PARTS)?;
            format!(" SUITE_PART={part}")
        }
    };
    // A case that takes half a minute in User-mode Linux takes four under TCG.
    let speed = match accel[0] {
        "tcg,thread=multi" => " SUITE_EMULATED=1 SUITE_LIMIT=900",
        _ => "",
    };
    let seed = seed::of_this_run()?;
    let mut guest = qemu.command();
    guest.args([
        "-accel", accel[0], "-cpu", accel[1], "-machine", "q35", "-smp", "2", "-m", "2048",
    ]);
    boot(
        &mut guest,
        &target.kernel,
        &initramfs,
        &format!("{variables}{part}{speed} SUITE_SEED={seed} oops=panic"),
    );
    suite::cases(run, &mut guest, LIMIT)
}

/// Sets up a QEMU that boots a kernel with the suite, prints the suite's output on standard output, and ends with the
/// guest.
pub fn boot(guest: &mut Command, kernel: &Kernel, initramfs: &Path, words: &str) {
    guest
        .args([
            "-nodefaults",
            "-display",
            "none",
            "-no-reboot",
            "-serial",
            "stdio",
            "-kernel",
        ])
        .arg(&kernel.vmlinux)
        .arg("-initrd")
        .arg(initramfs)
        // The kernel's check of its timer panics where a busy machine lets the emulator stand still.
        .args([
            "-append",
            &format!("console=ttyS0 quiet panic=-1 nokaslr no_timer_check rdinit=/init {words}"),
        ]);
}

/// Makes an initramfs with the suite, our module, the kernel's `modules`, modules built elsewhere and `programs` (file
/// on this machine, path in the guest). Returns the initramfs and the kernel's command-line words that name the
/// modules.
pub fn initramfs(
    cx: &Cx,
    target: &Target,
    modules: &[&str],
    built: &[&Path],
    programs: &[(&Path, &str)],
) -> Result<(PathBuf, String)> {
    let dir = cx
        .target
        .join(format!("initramfs-{}", target.kernel.release));
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    for sub in ["dev", "proc", "sys", "mnt", "m", "run"] {
        fs::create_dir_all(dir.join(sub))?;
    }
    fs::copy(programs::suite(cx)?, dir.join("init"))?;
    let depends = run::output(run::cmd("/sbin/modinfo", ["-F", "depends"]).arg(&target.module))?;
    let mut wanted = modules.to_vec();
    wanted.extend(depends.trim().split(',').filter(|name| !name.is_empty()));
    let mut names = Vec::new();
    let plain: Vec<_> = wanted
        .iter()
        .map(|module| module.split(':').next().unwrap_or(module))
        .collect();
    for path in guest_kernel::with_dependencies(&target.kernel, &plain)? {
        let file = put_module(&path, &dir.join("m"))?;
        let with_arguments = wanted.iter().find(|module| {
            module
                .split_once(':')
                .is_some_and(|(name, _)| format!("{name}.ko") == file)
        });
        let arguments = with_arguments.and_then(|module| module.split_once(':'));
        names.push(
            file + &arguments.map_or(String::new(), |(_, arguments)| format!(":{arguments}")),
        );
    }
    for module in built.iter().copied().chain([target.module.as_path()]) {
        names.push(put_module(module, &dir.join("m"))?);
    }
    for (program, to) in programs {
        put_program(program, to, &dir)?;
    }
    let file = dir.with_extension("cpio");
    let script = "cd \"$1\" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet > \"$2\"";
    run::output(
        run::cmd("bash", ["-o", "pipefail", "-c", script, "pack"])
            .arg(&dir)
            .arg(&file),
    )?;
    let names: Vec<_> = names.iter().map(|name| format!("/m/{name}")).collect();
    Ok((file, format!("SUITE_MODULES={}", names.join(","))))
}

/// Copies a module, uncompressed and without its debugging information, and returns its name.
fn put_module(from: &Path, to: &Path) -> Result<String> {
    let name = from
        .file_name()
        .context("a module without a name")?
        .to_string_lossy()
        .into_owned();
    let plain = name
        .trim_end_matches(".xz")
        .trim_end_matches(".zst")
        .to_owned();
    let file = to.join(&plain);
    if plain == name {
        run::output(
            run::cmd("strip", ["--strip-debug", "-o"])
                .arg(&file)
                .arg(from),
        )?;
    } else {
        let program = if name.ends_with(".xz") { "xz" } else { "zstd" };
        let status = Command::new(program)
            .arg("-dc")
            .arg(from)
            .stdout(fs::File::create(&file)?)
            .status()?;
        ensure!(status.success(), "cannot uncompress {}", from.display());
    }
    Ok(plain)
}

/// Copies a program to a path of the guest, with the libraries that it needs.
fn put_program(program: &Path, to: &str, root: &Path) -> Result<()> {
    let put = |from: &Path, to: &str| -> Result<()> {
        let to = root.join(to.trim_start_matches('/'));
        fs::create_dir_all(to.parent().context("a file without a directory")?)?;
        fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        Ok(())
    };
    let libraries = run::output(&mut run::cmd("ldd", [program]))?;
    for file in libraries
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
    {
        put(Path::new(file), file)?;
    }
    put(program, to)
}

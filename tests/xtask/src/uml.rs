// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests that run the module in User-mode Linux: plain, and with the kernel's own detectors.
//!
//! The kernels are built once and kept in the cache, named by the source package and the configuration.
//! There are two debug kernels, because one with both KASAN and lockdep is slower than the two together: a case takes
//! about ten times as long as in the plain kernel, in these two three and four times. The one with lockdep has two
//! processors, which needs a newer source than Debian 12's.

mod detectors;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tandem_harness::deps;
use tandem_harness::kbuild;

use anyhow::{Context, Result, bail, ensure};

use crate::suite;
use tandem_harness::cx::{Cx, say};
use tandem_harness::layer::{Layer, Run, When};
use tandem_harness::{fetch, hash, pins, programs, run, sample, seed};

/// The suite takes three to eight minutes; a machine under load takes several times as long. A case that never ends has
/// to fail by its name, before the run of all layers is cut off without one.
const LIMIT: Duration = Duration::from_secs(2400);

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        Layer {
            name: "uml-plain",
            about: "functional suite of the module in User-mode Linux",
            needs: deps::KERNEL,
            when: When::Always,
            run: |run| functional(run, "plain"),
        },
        Layer {
            name: "uml-time",
            about: "what the module does by the clock, in virtual time",
            needs: deps::KERNEL,
            when: When::Always,
            run: |run| set(run, "time"),
        },
        Layer {
            name: "uml-memory",
            about: "swap and loop files on the cached device, with little memory",
            needs: deps::KERNEL,
            when: When::Sampled(1),
            run: |run| set(run, "memory"),
        },
        Layer {
            name: "uml-scale",
            about: "a full cache of 4 TiB: its start, syncs, and what forgetting it costs",
            needs: deps::KERNEL,
            when: When::Whole,
            run: scale,
        },
        Layer {
            name: "uml-detectors",
            about: "each detector of the debug kernels finds an injected bug",
            needs: deps::KERNEL,
            when: When::Whole,
            run: detectors::run,
        },
        Layer {
            name: "uml-kasan",
            about: "functional suite with KASAN, UBSAN and kmemleak",
            needs: deps::KERNEL,
            when: When::Whole,
            run: |run| functional(run, "kasan"),
        },
        Layer {
            name: "uml-lockdep",
            about: "functional suite on two processors with lockdep, sleep and object checks",
            needs: deps::KERNEL,
            when: When::Whole,
            run: |run| functional(run, "lockdep"),
        },
    ]
}

/// A built User-mode Linux kernel.
pub struct Kernel {
    /// Build directory, which modules are built against and which holds the program `linux`.
    pub build: PathBuf,
    config: &'static str,
}

/// Parts of the suite in a debug kernel. One of eight took nine minutes beside the other lane of a run.
const DEBUG_PARTS: u64 = 16;

/// Runs the suite. A debug kernel gets a fresh seed, and without `--all` one part of the suite, by the commit.
fn functional(run: &mut Run, config: &'static str) -> Result<()> {
    let kernel = kernel(run.cx, config)?;
    let module = kernel.module(run, "kmod", "dm-tandem.ko")?;
    let modules = kernel.modules_of_set(run, "", &module)?;
    let only = only(run);
    let (part, seed) = match config {
        "plain" => (String::new(), 0),
        _ => (debug_part(run, config)?, seed::of_this_run()?),
    };
    let variables = [
        ("SUITE_MODULES", modules.as_str()),
        ("SUITE_ONLY", &only),
        ("SUITE_PART", &part),
        ("SUITE_WHOLE", if run.all { "1" } else { "" }),
        ("SUITE_SEED", &seed.to_string()),
    ];
    let mut guest = kernel.guest(run.cx, &variables)?;
    suite::cases(run, &mut guest, LIMIT)
}

/// The part of the suite that this run tries in a debug kernel; empty if it is all.
fn debug_part(run: &Run, config: &str) -> Result<String> {
    if run.is_whole() {
        return Ok(String::new());
    }
    sample::part(run.cx, config, DEBUG_PARTS)
}

/// Runs another set of cases.
fn set(run: &mut Run, name: &str) -> Result<()> {
    let kernel = kernel(run.cx, "plain")?;
    let module = kernel.module(run, "kmod", "dm-tandem.ko")?;
    let modules = kernel.modules_of_set(run, name, &module)?;
    let variables = [
        ("SUITE_MODULES", modules.as_str()),
        ("SUITE_ONLY", &only(run)),
    ];
    let mut guest = kernel.guest_of_set(run.cx, name, &variables)?;
    suite::cases(run, &mut guest, LIMIT)
}

/// How many mappings a process may have. User-mode Linux maps each page of its kernel's large arrays for itself.
const MAPPINGS: &str = "/proc/sys/vm/max_map_count";

/// Runs the set of the very large cache, and takes back what it needs of the host.
fn scale(run: &mut Run) -> Result<()> {
    let before = fs::read_to_string(MAPPINGS)?;
    fs::write(MAPPINGS, "2000000\n")
        .with_context(|| format!("{MAPPINGS} has to be 2000000, which only root may write"))?;
    let result = set(run, "scale");
    fs::write(MAPPINGS, before)?;
    for (_, name, _) in disks("scale") {
        // The set may have ended before it had any.
        let _ = fs::remove_file(image(run.cx, name));
    }
    result
}

/// The disks of a set: which of the guest's disks, its name, and MiB.
fn disks(set: &str) -> [(&'static str, &'static str, u64); 2] {
    match set {
        "scale" => [
            ("ubd0", "large-disk", 8 << 20),
            ("ubd1", "large-ssd", 4 << 20),
        ],
        _ => [("ubd0", "disk", 512), ("ubd1", "ssd", 64)],
    }
}

fn image(cx: &Cx, name: &str) -> PathBuf {
    cx.target.join(format!("uml-{name}.img"))
}

/// A disk whose data is in a file of the host, so that written data leaves the guest's memory.
fn disk(cx: &Cx, name: &str, mib: u64) -> Result<String> {
    let path = image(cx, name);
    let _ = fs::remove_file(&path);
    fs::File::create(&path)?.set_len(mib << 20)?;
    Ok(path.display().to_string())
}

/// The set that a case belongs to, by the word that its name begins with.
pub fn set_of(case: &str) -> &'static str {
    match case.split_once(':') {
        Some(("time", _)) => "time",
        Some(("memory", _)) => "memory",
        Some(("scale", _)) => "scale",
        Some(("pulled", _)) => "pulled",
        Some(("formats", _)) => "formats",
        _ => "",
    }
}

/// The value of `SUITE_ONLY`: a word of a kernel's command line has no spaces. Empty if all cases run.
pub fn only(run: &Run) -> String {
    run.case.as_deref().unwrap_or_default().replace(' ', "_")
}

/// The layer that runs a set in the plain kernel.
pub fn layer_of(set: &str) -> &'static str {
    match set {
        "time" => "uml-time",
        "memory" => "uml-memory",
        "scale" => "uml-scale",
        _ => "uml-plain",
    }
}

impl Kernel {
    /// Builds one of our modules for this kernel.
    pub fn module(&self, run: &Run, source: &str, file: &str) -> Result<PathBuf> {
        let name = Path::new(source)
            .file_name()
            .context("a module without a directory")?;
        let build = run
            .cx
            .target
            .join(format!("uml-{}", self.config))
            .join(name);
        kbuild::module(
            &run.cx.path(source),
            &self.build,
            &build,
            &["ARCH=um"],
            &run.log,
        )?;
        Ok(build.join(file))
    }

    /// The command that builds a module in a copy of its sources.
    pub fn make(&self, dir: &Path) -> Command {
        kbuild::command(&self.build, dir, &["ARCH=um"])
    }

    /// The modules that a set of cases needs, with the module under test.
    pub fn modules_of_set(&self, run: &Run, set: &str, tested: &Path) -> Result<String> {
        let disk = self.kept_module(run, "tests/module/disk", "dm-testdisk.ko")?;
        let mut modules = format!("{},{}", disk.display(), tested.display());
        if set == "time" {
            let sleeper = self.kept_module(run, "tests/module/sleeper", "tandem-sleeper.ko")?;
            modules += &format!(",{}", sleeper.display());
        }
        Ok(modules)
    }

    /// A module that helps the tests, built once for each state of its sources.
    fn kept_module(&self, run: &Run, source: &str, file: &str) -> Result<PathBuf> {
        let source = run.cx.path(source);
        let key = hash::key([self.build.display().to_string(), hash::tree(&source)?]);
        let dir = run.cx.cached("test-module", &key, |dir| {
            kbuild::module(&source, &self.build, dir, &["ARCH=um"], &run.log)
        })?;
        Ok(dir.join(file))
    }

    /// A guest for a set of cases, with what the set needs: a clock that runs ahead, or little memory.
    pub fn guest_of_set(&self, cx: &Cx, set: &str, variables: &[(&str, &str)]) -> Result<Command> {
        let mut guest = self.guest(cx, variables)?;
        guest.arg(format!("SUITE_SET={set}"));
        match set {
            "time" => {
                let scheduler = self.build.join("block/mq-deadline.ko");
                guest.arg("time-travel=inf-cpu");
                guest.arg(format!("SUITE_SCHEDULER={}", scheduler.display()));
            }
            "memory" | "scale" => {
                guest.args(match set {
                    "scale" => &["mem=4000M", "SUITE_LIMIT=1800"][..],
                    _ => &["mem=128M"],
                });
                guest.args(["SUITE_DISK=/dev/ubda", "SUITE_SSD=/dev/ubdb"]);
                for (unit, name, mib) in disks(set) {
                    guest.arg(format!("{unit}={}", disk(cx, name, mib)?));
                }
            }
            _ => {}
        }
        Ok(guest)
    }

    /// A guest whose root is this machine's, read-only, and whose first process is the suite.
    pub fn guest(&self, cx: &Cx, variables: &[(&str, &str)]) -> Result<Command> {
        let program = programs::suite(cx)?;
        let sockets = cx.target.join("uml-run");
        fs::create_dir_all(&sockets)?;
        let mut guest = run::ending_with_us(&self.build.join("linux"));
        guest.args(words(self.config));
        guest
            .arg("mem=1500M")
            .args(["rootfstype=hostfs", "rootflags=/", "ro"])
            .arg(format!("uml_dir={}/", sockets.display()))
            .arg(format!("init={}", program.display()))
            .args([
                "con=null",
                "con0=null,fd:1",
                "quiet",
                "null_blk.nr_devices=0",
            ])
            // Every page that a process touches costs a system call of the host, so that the heap is kept.
            .args([
                "MALLOC_MMAP_THRESHOLD_=4000000000",
                "MALLOC_TRIM_THRESHOLD_=4000000000",
                "MALLOC_ARENA_MAX=1",
            ]);
        for (name, value) in variables {
            ensure!(
                !value.contains([' ', '"']),
                "{value:?} cannot be passed on a kernel's command line"
            );
            guest.arg(format!("{name}={value}"));
        }
        Ok(guest)
    }
}

/// The words that a kernel needs on its command line.
fn words(config: &str) -> &'static [&'static str] {
    match config {
        // Each processor is a thread of the host. ptrace cannot separate processes then, so that seccomp does.
        // On a busy machine the processors wait for each other: a case may take longer than in the other kernels.
        "lockdep" => &[
            "ncpus=2",
            "seccomp=on",
            "SUITE_PROCESSORS=2",
            "SUITE_LIMIT=960",
        ],
        _ => &[],
    }
}

/// The pinned source of a kernel. Only the newer one has User-mode Linux with several processors.
fn source_group(config: &str) -> &'static str {
    match config {
        "lockdep" => "linux-source-newest",
        _ => "linux-source",
    }
}

/// The file with the number of bytes of floating-point registers that User-mode Linux saves, its line, and the line
/// that it should have. Processors with AMX have 11008 bytes, and there no process starts before Linux 6.13. Later
/// sources ask the host.
const REGISTERS: [&str; 3] = [
    "arch/x86/um/user-offsets.c",
    "DEFINE_LONGS(HOST_FP_SIZE, 2696)",
    "DEFINE_LONGS(HOST_FP_SIZE, 12288)",
];

/// The source of most of the kernels, unpacked.
pub fn source(cx: &Cx) -> Result<PathBuf> {
    unpacked(cx, "linux-source").map(|(source, _)| source)
}

/// A pinned source, unpacked, and a key of what it was made from.
fn unpacked(cx: &Cx, group: &str) -> Result<(PathBuf, String)> {
    let pins = pins::group(group)?;
    let deb = fetch::pinned(cx, pins.first().context("no kernel source is pinned")?)?;
    let mut parts = vec![hash::file(&deb)?];
    parts.extend(REGISTERS.map(str::to_owned));
    let key = hash::key(parts);
    let source = cx.cached("linux-source", &key, |dir| {
        unpack(&deb, dir)?;
        let [file, from, to] = REGISTERS;
        let file = dir.join(file);
        let text = fs::read_to_string(&file)?;
        ensure!(
            text.contains(from) || !text.contains("HOST_FP_SIZE"),
            "{} has no {from}",
            file.display()
        );
        Ok(fs::write(&file, text.replace(from, to))?)
    })?;
    Ok((source, key))
}

/// The kernel of a configuration, built unless the cache has it.
pub fn kernel(cx: &Cx, config: &'static str) -> Result<Kernel> {
    let (source, key) = unpacked(cx, source_group(config))?;
    let fragments =
        ["base", config].map(|name| cx.path(&format!("tests/module/config/{name}.config")));
    let texts = fragments
        .iter()
        .map(fs::read_to_string)
        .collect::<Result<Vec<_>, _>>()?;
    let key = hash::key(
        [key.as_str()]
            .into_iter()
            .chain(texts.iter().map(String::as_str)),
    );
    let build = cx.cached(&format!("uml-{config}"), &key, |dir| {
        say(format!("building the User-mode Linux kernel {config} (once; eight to twelve minutes of one processor)"));
        let start = Instant::now();
        make_kernel(cx, &source, dir, config, &texts)?;
        say(format!("built in {} s", start.elapsed().as_secs()));
        Ok(())
    })?;
    Ok(Kernel { build, config })
}

/// Unpacks the tree of a linux-source package, without the parts that no build of ours reads.
fn unpack(deb: &Path, dir: &Path) -> Result<()> {
    say("unpacking the kernel's source");
    let script = "dpkg-deb --fsys-tarfile \"$1\" | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' | \
                  tar -xJ -C \"$2\" --strip-components=1 --exclude='*/tools/testing' --exclude='*/arch/*/boot/dts/*' \
                  --exclude='*/drivers/gpu/drm/amd/include' --exclude='*/Documentation/[!K]*'";
    run::output(
        run::cmd("bash", ["-o", "pipefail", "-c", script, "unpack"])
            .arg(deb)
            .arg(dir),
    )
    .map(drop)
}

fn make_kernel(
    cx: &Cx,
    source: &Path,
    dir: &Path,
    config: &str,
    fragments: &[String],
) -> Result<()> {
    let log = cx.target.join(format!("uml-{config}-build.log"));
    let _ = fs::remove_file(&log);
    let wanted = fragments.concat();
    let file = dir.join(".config");
    fs::write(&file, &wanted)?;
    let make = |arguments: &[&str]| {
        // A build that outlived this program would go on for minutes, for nobody.
        let mut make = run::ending_with_us(Path::new("make"));
        make.args(["-s", "-j2", "ARCH=um", "-C"]);
        make.arg(source).arg(format!("O={}", dir.display()));
        make.env("KCONFIG_ALLCONFIG", &file).args(arguments);
        run::logged(&mut make, &log)
    };
    make(&["allnoconfig"])?;
    let resolved = fs::read_to_string(&file)?;
    let missing: Vec<_> = options(&wanted)
        .into_iter()
        .filter(|line| !resolved.lines().any(|other| other == *line))
        .collect();
    if !missing.is_empty() {
        bail!(
            "tests/module/config/{config}.config: the kernel does not take {}",
            missing.join(", ")
        );
    }
    make(&["linux", "modules"])?;
    // Newer sources note their build directory in its Makefile. This directory moves to the cache when it is complete.
    let makefile = dir.join("Makefile");
    let text = fs::read_to_string(&makefile)?;
    let here = "export KBUILD_OUTPUT := $(realpath $(dir $(lastword $(MAKEFILE_LIST))))";
    let built = format!("export KBUILD_OUTPUT = {}", dir.display());
    Ok(fs::write(&makefile, text.replace(&built, here))?)
}

/// The options that fragments set, less those that a later line unsets.
fn options(fragments: &str) -> Vec<&str> {
    let mut options: Vec<&str> = Vec::new();
    for line in fragments.lines() {
        if let Some(name) = line
            .strip_prefix("# ")
            .and_then(|line| line.strip_suffix(" is not set"))
        {
            options.retain(|option| option.split('=').next() != Some(name));
        } else if line.starts_with("CONFIG_") {
            options.push(line);
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::options;

    #[test]
    fn a_later_fragment_unsets_an_option() {
        let fragments = "CONFIG_A=y\n# of B\nCONFIG_B=y\nCONFIG_BB=4\n# CONFIG_B is not set\n";
        assert_eq!(options(fragments), ["CONFIG_A=y", "CONFIG_BB=4"]);
    }
}

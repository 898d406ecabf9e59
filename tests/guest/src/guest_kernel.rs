// SPDX-License-Identifier: GPL-3.0-or-later
//! Debian's kernels, unpacked: image, modules, and headers against which our module is built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use tandem_harness::cx::{Cx, notice};
use tandem_harness::machine::Machine;
use tandem_harness::{compiler, fetch, kbuild, pins, run};

/// The suite of Debian that a kernel is from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The oldest kernel that Tandem supports.
    Debian12,
    /// A newer kernel, built like the kernel before: one package has image and modules.
    Debian12Backports,
    /// Image and modules are in separate packages; the headers need Debian 13's compiler.
    Debian13Backports,
}

impl From<Machine> for Source {
    fn from(machine: Machine) -> Self {
        match machine {
            Machine::Debian12 => Self::Debian12,
            Machine::Debian13 => Self::Debian12Backports,
            Machine::Debian13Backports => Self::Debian13Backports,
        }
    }
}

impl Source {
    /// Fetches and unpacks the kernel unless the cache has it.
    pub fn kernel(self, cx: &Cx) -> Result<Kernel> {
        match self {
            Self::Debian12 => debian12(cx),
            Self::Debian12Backports => {
                let debs = fetched(cx, "linux-debian12-backports")?;
                unpacked(cx, &release(&debs[0], "linux-image-")?, &debs)
            }
            Self::Debian13Backports => {
                // Fetched together: should Debian have moved on, image and headers move to the same release.
                fetched(cx, "linux-debian13-backports-headers")?;
                let debs = fetched(cx, "linux-debian13-backports")?;
                split(cx, &release(&debs[0], "linux-binary-")?, &debs)
            }
        }
    }
}

/// An unpacked kernel.
pub struct Kernel {
    /// Release, as `uname -r` prints it.
    pub release: String,
    /// The uncompressed kernel, which boots without unpacking itself in the guest.
    pub vmlinux: PathBuf,
    /// Directory with `lib/modules/<release>` and the list of dependencies.
    pub modules: PathBuf,
    /// Directory for `make -C` when a module is built. `None`: the headers need Debian 13's compiler.
    pub build: Option<PathBuf>,
}

impl Kernel {
    /// Builds the module `file`, whose sources are below `sources` of the work tree, in the directory `build`.
    pub fn built(
        &self,
        cx: &Cx,
        sources: &str,
        file: &str,
        build: &Path,
        log: &Path,
    ) -> Result<PathBuf> {
        let Some(headers) = &self.build else {
            return compiler::module(cx, &self.release, sources, file, log);
        };
        // The compiler with which Debian builds these kernels; they accept modules of no other compiler.
        kbuild::module(&cx.path(sources), headers, build, &["CC=gcc-12"], log)?;
        Ok(build.join(file))
    }
}

/// How long a kernel that was looked up counts as Debian 12's newest.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);

/// The current kernel of Debian 12, as a user has it today.
fn debian12(cx: &Cx) -> Result<Kernel> {
    let note = cx.cache.join("kernel-of-debian12");
    let fresh = fs::metadata(&note)
        .and_then(|meta| meta.modified())
        .is_ok_and(|time| time.elapsed().is_ok_and(|age| age < REMEMBERED));
    if !fresh && let Err(error) = look_up(cx, &note) {
        if !note.is_file() {
            return Err(error);
        }
        notice(format!("keeping the kernel of the last time: {error:#}"));
    }
    let text = fs::read_to_string(&note)?;
    let mut lines = text.lines();
    let release = lines.next().unwrap_or_default().to_owned();
    let debs: Vec<_> = lines.map(PathBuf::from).collect();
    if !debs.iter().all(|deb| deb.is_file()) {
        fs::remove_file(&note)?;
        return debian12(cx);
    }
    unpacked(cx, &release, &debs)
}

/// Finds Debian 12's newest kernel, fetches it and writes release and packages to `note`.
fn look_up(cx: &Cx, note: &Path) -> Result<()> {
    let image = dependency(&fetch::own(cx, "linux-image-amd64")?, "linux-image-")?;
    let headers = dependency(&fetch::own(cx, "linux-headers-amd64")?, "linux-headers-")?;
    let headers_deb = fetch::own(cx, &headers)?;
    let common = dependency(&headers_deb, "linux-headers-")?;
    let kbuild = dependency(&headers_deb, "linux-kbuild-")?;
    let mut text = format!("{}\n", image.trim_start_matches("linux-image-"));
    for deb in [
        fetch::own(cx, &image)?,
        headers_deb,
        fetch::own(cx, &common)?,
        fetch::own(cx, &kbuild)?,
    ] {
        text.push_str(&format!("{}\n", deb.display()));
    }
    fs::write(note, text).with_context(|| format!("cannot write {}", note.display()))
}

/// Unpacks a kernel's image and headers packages together.
fn unpacked(cx: &Cx, release: &str, debs: &[PathBuf]) -> Result<Kernel> {
    let key = fetch::key(debs);
    let kind = format!("kernel-{release}");
    let final_dir = cx.cache.join(&kind).join(&key);
    let dir = cx.cached(&kind, &key, |dir| {
        debs.iter().try_for_each(|deb| fetch::unpack(deb, dir))?;
        extract(
            &dir.join("boot").join(format!("vmlinuz-{release}")),
            &dir.join("vmlinux"),
        )?;
        run::output(run::cmd("depmod", ["-b"]).arg(dir).arg(release))?;
        relocate(
            &dir.join(format!("usr/src/linux-headers-{release}")),
            &final_dir,
        )
    })?;
    Ok(Kernel {
        release: release.to_owned(),
        vmlinux: dir.join("vmlinux"),
        build: Some(dir.join(format!("usr/src/linux-headers-{release}"))),
        modules: dir,
    })
}

fn fetched(cx: &Cx, group: &str) -> Result<Vec<PathBuf>> {
    fetch::all_pinned(cx, &pins::group(group)?)
}

/// The release, as `uname -r` prints it, from the name of a package that begins with `prefix`.
fn release(deb: &Path, prefix: &str) -> Result<String> {
    let name = run::output(run::cmd("dpkg-deb", ["-f"]).arg(deb).arg("Package"))?;
    let release = name
        .trim()
        .strip_prefix(prefix)
        .with_context(|| format!("{name} is no {prefix}*"))?;
    Ok(release.to_owned())
}

/// Unpacks a kernel whose image, modules and headers are in separate packages; the headers are not needed here.
fn split(cx: &Cx, release: &str, debs: &[PathBuf]) -> Result<Kernel> {
    let dir = cx.cached(&format!("kernel-{release}"), &fetch::key(debs), |dir| {
        debs.iter().try_for_each(|deb| fetch::unpack(deb, dir))?;
        // These packages install everything below /usr.
        let merged = dir.join("lib");
        if !merged.exists() {
            std::os::unix::fs::symlink("usr/lib", merged)?;
        }
        let image = dir.join(format!("usr/lib/modules/{release}/vmlinuz"));
        extract(&image, &dir.join("vmlinux"))?;
        run::output(run::cmd("/sbin/depmod", ["-b"]).arg(dir).arg(release)).map(drop)
    })?;
    Ok(Kernel {
        release: release.to_owned(),
        vmlinux: dir.join("vmlinux"),
        build: None,
        modules: dir,
    })
}

/// The modules that a module needs, itself last, as paths below the kernel's directory.
pub fn with_dependencies(kernel: &Kernel, modules: &[&str]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for module in modules {
        let mut command = run::cmd("modprobe", ["--show-depends", "-S", &kernel.release, "-d"]);
        for line in run::output(command.arg(&kernel.modules).arg(module))?.lines() {
            if let Some(path) = line.strip_prefix("insmod ") {
                let path = PathBuf::from(path.trim());
                if !all.contains(&path) {
                    all.push(path);
                }
            }
        }
    }
    Ok(all)
}

/// The dependency of `deb` whose name starts with `prefix`.
fn dependency(deb: &Path, prefix: &str) -> Result<String> {
    let depends = run::output(run::cmd("dpkg-deb", ["-f"]).arg(deb).arg("Depends"))?;
    depends
        .split(',')
        .filter_map(|word| word.split_whitespace().next())
        .find(|name| name.starts_with(prefix))
        .map(str::to_owned)
        .with_context(|| format!("{} depends on no {prefix}*", deb.display()))
}

/// Changes the absolute paths below /usr/src and /usr/lib, by which headers refer to each other, to the directory where
/// they were unpacked.
fn relocate(headers: &Path, root: &Path) -> Result<()> {
    let makefile = headers.join("Makefile");
    let text = fs::read_to_string(&makefile)
        .with_context(|| format!("cannot read {}", makefile.display()))?;
    fs::write(
        &makefile,
        text.replace("/usr/src/", &format!("{}/usr/src/", root.display())),
    )?;
    for name in ["scripts", "tools"] {
        let link = headers.join(name);
        let Ok(target) = fs::read_link(&link) else {
            continue;
        };
        if target.is_absolute() {
            fs::remove_file(&link)?;
            std::os::unix::fs::symlink(root.join(target.strip_prefix("/")?), &link)?;
        }
    }
    Ok(())
}

/// Finds the compressed kernel in a bzImage and unpacks it.
pub(crate) fn extract(bzimage: &Path, vmlinux: &Path) -> Result<()> {
    const PACKED: [(&[u8], &str); 4] = [
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\x02\x21\x4c\x18", "lz4"),
    ];
    let image = fs::read(bzimage).with_context(|| format!("cannot read {}", bzimage.display()))?;
    for (magic, program) in PACKED {
        for at in (0..image.len()).filter(|at| image[*at..].starts_with(magic)) {
            let part = vmlinux.with_extension("packed");
            fs::write(&part, &image[at..])?;
            let output = fs::File::create(vmlinux)?;
            let mut command = Command::new(program);
            // Bytes after the compressed stream make the unpacker fail; the magic number of its output decides.
            let _ = command
                .args(["-dc"])
                .stdin(fs::File::open(&part)?)
                .stdout(output)
                .stderr(Stdio::null())
                .status();
            fs::remove_file(&part)?;
            if fs::read(vmlinux)?.starts_with(b"\x7fELF") {
                return Ok(());
            }
        }
    }
    bail!(
        "{} holds no kernel in a known compression",
        bzimage.display()
    )
}

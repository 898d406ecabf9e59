// SPDX-License-Identifier: GPL-3.0-or-later
//! Random operations on a file of ext4, XFS and btrfs over the cache, held against its content in memory, after fsx.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use rustix::fs::FallocateFlags;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::Entry;
use crate::disk::Shape;
use crate::model::seeded;
use crate::rig::{Config, Rig};
use crate::skipped::Skipped;

pub const CASES: &[Entry] = &[
    ("fsx: ext4", || file_system("ext4")),
    ("fsx: XFS", || file_system("xfs")),
    ("fsx: btrfs", || file_system("btrfs")),
];

const AT: &str = "/mnt/fsx";
const LONGEST: usize = 400_000;

/// How a file system is made and checked.
fn tools(kind: &str) -> [Vec<&'static str>; 2] {
    match kind {
        "ext4" => [
            vec!["/sbin/mke2fs", "-q", "-F", "-t", "ext4"],
            vec!["/sbin/e2fsck", "-f", "-n"],
        ],
        "xfs" => [
            vec!["/sbin/mkfs.xfs", "-q", "-f"],
            vec!["/sbin/xfs_repair", "-n"],
        ],
        _ => [
            vec!["/sbin/mkfs.btrfs", "-q", "-f"],
            vec!["/bin/btrfs", "check", "-q"],
        ],
    }
}

fn run(words: &[&str], path: &Path) -> Result<()> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .arg(path)
        // mkfs.xfs takes small disks only for tests.
        .envs([("TEST_DIR", AT), ("TEST_DEV", "x"), ("QA_CHECK_FS", "x")])
        .output()
        .with_context(|| format!("cannot run {}", words[0]))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{}: {}: {text}",
        words[0],
        output.status
    );
    Ok(())
}

struct Mount;

impl Mount {
    fn new(path: &Path, kind: &str) -> Result<Self> {
        fs::create_dir_all(AT)?;
        mount(path, AT, kind, MountFlags::empty(), None)
            .with_context(|| format!("cannot mount {}", path.display()))?;
        Ok(Self)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = unmount(AT, UnmountFlags::empty()) {
            println!("     cannot unmount: {error}");
            let _ = unmount(AT, UnmountFlags::DETACH);
        }
    }
}

/// Writes through a shared mapping, by which the page changes while it may be under way.
fn write_mapped(file: &File, at: usize, bytes: &[u8]) -> Result<()> {
    let page = at & !4095;
    let length = at + bytes.len() - page;
    // SAFETY: a new mapping of the file; its pages lie within the file, which nobody shortens meanwhile.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            page as libc::off_t,
        );
        ensure!(memory != libc::MAP_FAILED, "cannot map the file");
        let to = memory.cast::<u8>().add(at - page);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        libc::munmap(memory, length);
    }
    Ok(())
}

/// One operation on the file and on its model.
fn step(file: &File, model: &mut Vec<u8>, rng: &mut Rng) -> Result<&'static str> {
    let at = rng.usize(0..LONGEST - 1);
    let longest = (1 << rng.u32(3..17)).min(LONGEST - at);
    let length = rng.usize(1..=longest);
    let inside = at.min(model.len());
    let end = (at + length).min(model.len()).max(inside);
    Ok(match rng.u8(0..16) {
        0 => {
            file.set_len(at as u64)?;
            model.resize(at, 0);
            "truncate"
        }
        1 => {
            file.sync_all()?;
            "fsync"
        }
        2 => {
            rustix::fs::sync();
            fs::write("/proc/sys/vm/drop_caches", "3\n")?;
            "drop caches"
        }
        3 if end > inside => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, flags, inside as u64, (end - inside) as u64)?;
            model[inside..end].fill(0);
            "punch"
        }
        4 if end > inside => {
            let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, flags, inside as u64, (end - inside) as u64)?;
            model[inside..end].fill(0);
            "zero"
        }
        5 | 6 if end > inside => {
            rng.fill(&mut model[inside..end]);
            write_mapped(file, inside, &model[inside..end])?;
            "mapped write"
        }
        7..12 => {
            if model.len() < at + length {
                model.resize(at + length, 0);
            }
            rng.fill(&mut model[at..at + length]);
            file.write_all_at(&model[at..at + length], at as u64)?;
            "write"
        }
        _ => {
            let mut read = vec![0; end - inside];
            file.read_exact_at(&mut read, inside as u64)?;
            ensure!(
                read == model[inside..end],
                "{} bytes read at {inside} are wrong",
                end - inside
            );
            "read"
        }
    })
}

fn file_system(kind: &str) -> Result<()> {
    let [make, check] = tools(kind);
    let known = fs::read_to_string("/proc/filesystems")?;
    if !known.split_whitespace().any(|word| word == kind) || !Path::new(make[0]).exists() {
        return Err(Skipped::because(format!(
            "this guest has no {kind} or no {}",
            make[0]
        )));
    }
    for mode in ["writeback", "writethrough", "writearound"] {
        let mut rig = Rig::disks(Config {
            mode,
            origin: Shape::new(192),
            // A size so small that the content is replaced, and more than the journal.
            ssd: Shape::new(16),
            ..Config::default()
        })?;
        rig.attach(true)?;
        run(&make, &rig.path()?)?;
        let mut model = Vec::new();
        let mut rng = seeded(u64::from(mode.as_bytes()[6]));
        for round in 0..2 {
            let _mounted = Mount::new(&rig.path()?, kind)?;
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(format!("{AT}/file"))?;
            for number in 0..800 {
                step(&file, &mut model, &mut rng)
                    .with_context(|| format!("{mode}: round {round}, operation {number}"))?;
            }
        }
        run(&check, &rig.path()?)?;
        rig.quiet()?;
        rig.drain()?;
        rig.detach()?;
        // What was given back is the whole of it.
        run(&check, rig.origin.path())?;
        let _mounted = Mount::new(rig.origin.path(), kind)?;
        ensure!(
            fs::read(format!("{AT}/file"))? == model,
            "{mode}: the file on the plain disk is wrong"
        );
    }
    Ok(())
}

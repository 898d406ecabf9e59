// SPDX-License-Identifier: GPL-3.0-or-later
//! ext4 above the cache, with the distribution's own mke2fs and e2fsck.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::Entry;
use crate::disk::Shape;
use crate::io;
use crate::rig::{Config, Rig};

pub const CASES: &[Entry] = &[
    ("ext4: made, used, checked on the cache", fresh),
    // promise 28: uml-plain/ext4: a disk full of files is cached and given back
    (
        "ext4: a disk full of files is cached and given back",
        existing,
    ),
    // promise 29: uml-plain/ext4: made with 512-byte sectors, mounted with a 4096-byte SSD
    (
        "ext4: made with 512-byte sectors, mounted with a 4096-byte SSD",
        small_sectors,
    ),
];

const AT: &str = "/mnt/suite";

fn tool(program: &str, arguments: &[&str], path: &Path) -> Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .arg(path)
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program}: {}: {text}",
        output.status
    );
    Ok(())
}

fn make(path: &Path, block: &str) -> Result<()> {
    tool(
        "/sbin/mke2fs",
        &["-q", "-F", "-t", "ext4", "-b", block, "-E", "nodiscard"],
        path,
    )
}

fn check(path: &Path) -> Result<()> {
    tool("/sbin/e2fsck", &["-f", "-n"], path)
}

/// A mounted file system.
struct Mount;

impl Mount {
    fn new(path: &Path) -> Result<Self> {
        fs::create_dir_all(AT)?;
        mount(path, AT, "ext4", MountFlags::empty(), None)
            .with_context(|| format!("cannot mount {}", path.display()))?;
        Ok(Self)
    }

    fn end(self) -> Result<()> {
        std::mem::forget(self);
        unmount(AT, UnmountFlags::empty()).context("cannot unmount")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = unmount(AT, UnmountFlags::DETACH);
    }
}

/// Files of these numbers, of sizes up to 600 kB.
fn write_files(numbers: std::ops::Range<u64>) -> Result<()> {
    for number in numbers {
        let length = Rng::with_seed(number).usize(1..600_000);
        let mut file = File::create(format!("{AT}/{number}"))?;
        file.write_all(&io::random(length, number))?;
        if number % 5 == 0 {
            file.sync_all()?;
        }
    }
    rustix::fs::sync();
    Ok(())
}

fn check_files(numbers: std::ops::Range<u64>) -> Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3\n")?;
    for number in numbers {
        let length = Rng::with_seed(number).usize(1..600_000);
        let mut content = Vec::new();
        File::open(format!("{AT}/{number}"))?.read_to_end(&mut content)?;
        ensure!(
            content == io::random(length, number),
            "file {number} is wrong"
        );
    }
    Ok(())
}

fn fresh() -> Result<()> {
    for mode in ["writethrough", "writearound", "writeback"] {
        let (mut rig, _) = Rig::new(Config {
            mode,
            ..Config::default()
        })?;
        make(&rig.path()?, "4096")?;
        let mounted = Mount::new(&rig.path()?)?;
        write_files(0..60)?;
        check_files(0..60)?;
        for number in (0..60).step_by(3) {
            fs::remove_file(format!("{AT}/{number}"))?;
        }
        write_files(100..120)?;
        check_files(100..120)?;
        mounted.end()?;
        check(&rig.path()?)?;
        rig.quiet()?;
        rig.agrees()?;
        rig.detach()?;
        check(rig.origin.path())?;
    }
    Ok(())
}

fn existing() -> Result<()> {
    // Room for all files, so that the second time nothing of them may come from the disk.
    let mut rig = Rig::disks(Config {
        ssd: Shape::new(64),
        ..Config::default()
    })?;
    make(rig.origin.path(), "4096")?;
    let mounted = Mount::new(rig.origin.path())?;
    write_files(0..40)?;
    mounted.end()?;
    rig.attach(true)?;
    let mounted = Mount::new(&rig.path()?)?;
    check_files(0..40)?;
    rig.quiet()?;
    let (disk, ssd) = (rig.origin.stat()?, rig.ssd.stat()?);
    check_files(0..40)?;
    let (disk, ssd) = (rig.origin.stat()? - disk, rig.ssd.stat()? - ssd);
    ensure!(
        disk.read == 0 && ssd.read > 20_000,
        "{} sectors from the disk, {} from the SSD; {}",
        disk.read,
        ssd.read,
        rig.mapped()?.status()?
    );
    write_files(200..220)?;
    fs::remove_file(format!("{AT}/7"))?;
    mounted.end()?;
    rig.quiet()?;
    rig.detach()?;
    check(rig.origin.path())?;
    let mounted = Mount::new(rig.origin.path())?;
    check_files(200..220)?;
    check_files(8..40)?;
    ensure!(!Path::new(AT).join("7").exists(), "a removed file is back");
    mounted.end()
}

fn small_sectors() -> Result<()> {
    let mut config = Config::default();
    config.ssd.block = 4096;
    let mut rig = Rig::disks(config)?;
    make(rig.origin.path(), "1024")?;
    let mounted = Mount::new(rig.origin.path())?;
    write_files(0..20)?;
    mounted.end()?;
    rig.attach(true)?;
    ensure!(
        io::queue(&rig.path()?, "logical_block_size")? == 512,
        "the logical block size is not the disk's"
    );
    let mounted = Mount::new(&rig.path()?)?;
    check_files(0..20)?;
    write_files(20..40)?;
    check_files(0..40)?;
    mounted.end()?;
    check(&rig.path()?)?;
    rig.quiet()?;
    rig.agrees()?;
    rig.detach()?;
    check(rig.origin.path())
}

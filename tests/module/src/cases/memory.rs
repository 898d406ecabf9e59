// SPDX-License-Identifier: GPL-3.0-or-later
//! A swap file and a loop file on the cached device, in a guest with less memory than it uses (promise 26).
//!
//! The disks are files of the host, so that what is written to them frees memory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use rustix::fs::FallocateFlags;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::Entry;
use super::pulled::plugged;
use crate::dm::{Dm, Line};
use crate::io::{self, MIB};
use crate::loopback::Loop;
use crate::rig::Status;

pub const CASES: &[Entry] = &[
    // promise 26: uml-memory/memory: swapping to write-back
    // promise 26: kernel-debian12/memory: swapping to write-back
    ("memory: swapping to write-back", || swapping("writeback")),
    // promise 26: uml-memory/memory: swapping to write-through
    ("memory: swapping to write-through", || {
        swapping("writethrough")
    }),
];

const AT: &str = "/mnt/memory";
const SWAP: usize = 160 * MIB;
const PAGE: usize = 4096;

/// Memory of a process, of which each page says which it is and in which round it was written.
struct Hog {
    memory: *mut u8,
    length: usize,
}

impl Hog {
    fn new(length: usize) -> Result<Self> {
        // SAFETY: a new anonymous mapping.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        ensure!(memory != libc::MAP_FAILED, "cannot map {length} bytes");
        Ok(Self {
            memory: memory.cast(),
            length,
        })
    }

    fn word(&self, page: usize) -> *mut u64 {
        // SAFETY: the page lies in the mapping, whose address is that of a page.
        unsafe { self.memory.add(page * PAGE) }.cast()
    }

    fn write(&self, round: u64) {
        for page in 0..self.length / PAGE {
            // SAFETY: see above.
            unsafe { self.word(page).write_volatile(round << 32 | page as u64) };
        }
    }

    fn check(&self, round: u64, rng: &mut Rng) -> Result<()> {
        let mut pages: Vec<u32> = (0..u32::try_from(self.length / PAGE)?).collect();
        // By pieces in random order: neighbours are read from the swap file together.
        for piece in pages.chunks_mut(64).step_by(share()?) {
            rng.shuffle(piece);
            for page in piece.iter().copied() {
                // SAFETY: see above.
                let found = unsafe { self.word(page as usize).read_volatile() };
                ensure!(
                    found == round << 32 | u64::from(page),
                    "page {page} of round {round} holds {found:x}"
                );
            }
        }
        Ok(())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // SAFETY: the mapping made above.
        unsafe { libc::munmap(self.memory.cast(), self.length) };
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = std::process::Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    ensure!(
        output.status.success(),
        "{program}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn filled(path: &str, bytes: usize) -> Result<()> {
    let file = File::create(path)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
    Ok(file.sync_all()?)
}

struct Swap(String);

impl Swap {
    fn on(path: &str) -> Result<Self> {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        run("/sbin/mkswap", &[path])?;
        let name = std::ffi::CString::new(path)?;
        // SAFETY: the name is a string that ends with a zero.
        let result = unsafe { libc::swapon(name.as_ptr(), 0) };
        ensure!(
            result == 0,
            "cannot swap to {path}: {}",
            std::io::Error::last_os_error()
        );
        Ok(Self(path.to_owned()))
    }

    fn used_kib() -> Result<u64> {
        let text = fs::read_to_string("/proc/swaps")?;
        let line = text.lines().nth(1).context("no swap file")?;
        Ok(line.split_whitespace().nth(3).context("no use")?.parse()?)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        if let Ok(name) = std::ffi::CString::new(self.0.as_str()) {
            // SAFETY: see above.
            unsafe { libc::swapoff(name.as_ptr()) };
        }
    }
}

/// Direct writes and flushes to a file on the cached device until told to stop.
fn writer(path: String, stop: &AtomicBool) -> Result<u64> {
    let file = io::direct(Path::new(&path))?;
    let mut rng = Rng::with_seed(1);
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let at = rng.u64(0..512) * 8192;
        io::write(&file, at, &[number as u8; 8192])?;
        if number % 16 == 0 {
            file.sync_all()?;
        }
        number += 1;
    }
    Ok(number)
}

/// The disk that a variable names: by its node, or by its serial number.
pub fn named(which: &str) -> Result<String> {
    let name = crate::variable(&format!("SUITE_{which}"));
    if name.starts_with('/') {
        return Ok(name);
    }
    Ok(plugged(&name)?.display().to_string())
}

/// Of so many pieces one is read again: each page costs a fault, and an emulated machine is slow.
fn share() -> Result<usize> {
    let share = crate::variable("SUITE_SHARE");
    Ok(if share.is_empty() { 1 } else { share.parse()? })
}

/// Bytes of memory that are free, or would be.
pub fn available() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kib.context("no word on the memory")?.parse::<u64>()? * 1024)
}

/// More than there is memory.
fn too_much() -> Result<usize> {
    Ok((usize::try_from(available()?)? + 64 * MIB).max(128 * MIB))
}

fn swapping(mode: &'static str) -> Result<()> {
    // The kernel keeps more memory free for a time after memory of one kind was taken for another, and swaps nothing out for
    // that: with so little memory the worker of the loop device then waits for a page without an end.
    fs::write("/proc/sys/vm/watermark_boost_factor", "0\n")?;
    let (disk, ssd) = (named("DISK")?, named("SSD")?);
    // A new cache needs zeroes.
    io::write_in_pieces(&io::direct(Path::new(&ssd))?, 0, &vec![0; MIB])?;
    let sectors = (io::size(Path::new(&disk))? / 512) as u64;
    let uuid = "00112233445566778899aabbccddeeff";
    let args = format!("{disk} {ssd} {mode} 6 uuid {uuid} origin_id beef format new");
    let device = Dm::with("memory", Line::new(sectors, "tandem", args))?;
    let path = device.path().display().to_string();
    run("/sbin/mke2fs", &["-q", "-F", "-t", "ext4", &path])?;
    fs::create_dir_all(AT)?;
    mount(device.path(), AT, "ext4", MountFlags::empty(), None).context("cannot mount")?;
    let used = used(&device, mode);
    fs::write("/proc/sys/vm/drop_caches", "3\n")?;
    unmount(AT, UnmountFlags::empty()).context("cannot unmount")?;
    used?;
    run("/sbin/e2fsck", &["-f", "-n", &path])?;
    let status = Status::of(&device)?;
    ensure!(status.state == "active", "{status:?}");
    device.remove()
}

fn used(device: &Dm, mode: &str) -> Result<()> {
    let files = ["swap", "written", "looped"].map(|name| format!("{AT}/{name}"));
    filled(&files[0], SWAP)?;
    filled(&files[1], 4 * MIB)?;
    filled(&files[2], 32 * MIB)?;
    let looped = Loop::over(Path::new(&files[2]), 512)?;
    let swap = Swap::on(&files[0])?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let file = files[1].clone();
    let direct = thread::spawn(move || writer(file, &stopped));
    let result = pressed(device, mode, &looped);
    stop.store(true, Ordering::Relaxed);
    let written = direct
        .join()
        .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    result?;
    ensure!(written > 100, "only {written} direct writes meanwhile");
    drop(swap);
    Ok(())
}

fn pressed(device: &Dm, mode: &str, looped: &Loop) -> Result<()> {
    let hog = Hog::new(too_much()?)?;
    let mut rng = Rng::with_seed(2);
    let mut most = 0;
    let rounds = if mode == "writeback" { 2 } else { 1 };
    for round in 1..=rounds {
        hog.write(round);
        most = most.max(Swap::used_kib()?);
        // Buffered data of the loop device, for which there is no memory either.
        let file = io::buffered(looped.path())?;
        for at in (0..32 * MIB as u64).step_by(MIB) {
            file.write_all_at(&io::random(MIB, round ^ at), at)?;
        }
        file.sync_all()?;
        if mode == "writeback" {
            device.message(["flush stop", "flush start"][round as usize % 2])?;
        }
        hog.check(round, &mut rng)?;
        for at in (0..32 * MIB as u64).step_by(MIB) {
            let read = io::read(&io::direct(looped.path())?, at, MIB)?;
            ensure!(
                read[..] == io::random(MIB, round ^ at)[..],
                "the loop device is wrong at {at}"
            );
        }
    }
    ensure!(most > 32 * 1024, "only {most} KiB were swapped out");
    println!("     {} MiB swapped out", most / 1024);
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Says whether two block devices hold the same bytes, each read past the page cache. `cmp` on two pipes takes six
//! times as long in a virtual machine without KVM.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::thread;

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;

/// Bytes of one read.
const STEP: usize = 1 << 20;
/// Alignment of reads and of memory; no device needs more.
const ALIGNMENT: usize = 4096;

fn main() -> Result<()> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [one, other] = names.as_slice() else {
        bail!("tandem-same DEVICE DEVICE");
    };
    let (one, other) = (open(one)?, open(other)?);
    let mut memory = [vec![0; STEP + ALIGNMENT], vec![0; STEP + ALIGNMENT]];
    let [first, second] = &mut memory;
    let (first, second) = (aligned(first), aligned(second));
    let mut at = 0;
    loop {
        let (left, right) = thread::scope(|scope| {
            let left = scope.spawn(|| read(&one, first, at));
            let right = read(&other, second, at);
            (left.join(), right)
        });
        let left = left.ok().context("reading has panicked")??;
        let right = right?;
        if first[..left] != second[..right] {
            let differs = first.iter().zip(second.iter()).position(|(a, b)| a != b);
            let offset = differs.unwrap_or(left).min(left).min(right);
            bail!("they differ at byte {}", at + offset as u64);
        }
        at += left as u64;
        if left < STEP {
            println!("{at} bytes are the same");
            return Ok(());
        }
    }
}

fn open(name: &str) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(name)
        .with_context(|| format!("cannot open {name}"))
}

fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    &mut memory[start..start + STEP]
}

/// Reads until the buffer is full or the device ends, and returns how many bytes were read.
fn read(file: &File, buffer: &mut [u8], at: u64) -> Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let got = file
            .read_at(&mut buffer[done..], at + done as u64)
            .with_context(|| format!("cannot read at byte {}", at + done as u64))?;
        if got == 0 {
            break;
        }
        done += got;
    }
    Ok(done)
}

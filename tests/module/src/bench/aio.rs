// SPDX-License-Identifier: GPL-3.0-or-later
//! Many requests in flight from one thread, by the kernel's own asynchronous I/O.
//!
//! Not io_uring: on a device that may block it leaves requests to threads, which one processor has to switch between.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::io::Buffer;

/// `struct iocb` of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Request {
    pub data: u64,
    pub key: u32,
    pub rw_flags: u32,
    pub opcode: u16,
    pub priority: u16,
    pub fd: u32,
    pub buffer: u64,
    pub length: u64,
    pub offset: u64,
    pub reserved: u64,
    pub flags: u32,
    pub eventfd: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Event {
    pub data: u64,
    pub request: u64,
    pub result: i64,
    pub result2: i64,
}

/// What the requests do.
#[derive(Clone, Copy)]
pub enum Verb {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// What is asked for: at an offset, so many bytes.
pub type Ask = (Verb, u64, usize);

/// Does a request of `length` bytes at each offset, `depth` of them at a time; returns the time from the first to the
/// last.
pub fn each(
    file: &File,
    verb: Verb,
    offsets: impl IntoIterator<Item = u64>,
    length: usize,
    depth: usize,
) -> Result<Duration> {
    let asks = offsets.into_iter().map(|offset| (verb, offset, length));
    play(file, asks, length, depth)
}

/// Does all these requests in this order, of `longest` bytes at most, `depth` of them at a time.
pub fn play(
    file: &File,
    asks: impl IntoIterator<Item = Ask>,
    longest: usize,
    depth: usize,
) -> Result<Duration> {
    let buffers: Vec<Buffer> = (0..depth)
        .map(|_| Buffer::new(longest))
        .collect::<Result<_>>()?;
    let mut requests = vec![Request::default(); depth];
    let mut events = vec![Event::default(); depth];
    let mut context = 0u64;
    // SAFETY: the kernel writes one number to `context`.
    let result = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) };
    check(result)?;
    let mut free: Vec<usize> = (0..depth).collect();
    let mut asks = asks.into_iter().peekable();
    let start = Instant::now();
    loop {
        let mut batch: Vec<*mut Request> = Vec::with_capacity(free.len());
        while let (Some(slot), Some(ask)) = (free.last().copied(), asks.peek().copied()) {
            let (verb, offset, length) = ask;
            ensure!(length <= longest, "a request of {length} bytes");
            free.pop();
            asks.next();
            requests[slot] = Request {
                data: slot as u64,
                opcode: match verb {
                    Verb::Read => 0,
                    Verb::Write => 1,
                },
                fd: file.as_raw_fd().cast_unsigned(),
                buffer: buffers[slot].address() as u64,
                length: length as u64,
                offset,
                ..Request::default()
            };
            batch.push(&raw mut requests[slot]);
        }
        if !batch.is_empty() {
            // SAFETY: the requests and their buffers stay where they are until their events came.
            let result =
                unsafe { libc::syscall(libc::SYS_io_submit, context, batch.len(), batch.as_ptr()) };
            ensure!(check(result)? == batch.len(), "not all requests were taken");
        } else if free.len() == depth {
            break;
        }
        // SAFETY: room for `depth` events, which is the most there are.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                context,
                1,
                depth,
                events.as_mut_ptr(),
                null_mut::<libc::timespec>(),
            )
        };
        for event in &events[..check(result)?] {
            let slot = usize::try_from(event.data)?;
            ensure!(
                event.result == requests[slot].length as i64,
                "a request failed: {}",
                event.result
            );
            free.push(slot);
        }
    }
    let time = start.elapsed();
    // SAFETY: nothing is in flight any more.
    check(unsafe { libc::syscall(libc::SYS_io_destroy, context) })?;
    Ok(time)
}

/// What a system call returned.
pub fn check(result: i64) -> Result<usize> {
    match usize::try_from(result) {
        Ok(number) => Ok(number),
        Err(_) => bail!("asynchronous I/O: {}", std::io::Error::last_os_error()),
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A request that nobody waits for while it is under way.

use std::fs::File;
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::ptr::{from_mut, null_mut};

use anyhow::{Context, Result, ensure};

use crate::io::Buffer;

const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;

/// A request under way. Its memory stays until it has ended.
pub struct Request {
    context: libc::c_ulong,
    buffer: Buffer,
}

impl Request {
    /// Begins to write these bytes at a byte offset of a file that was opened for direct requests.
    pub fn write(file: &File, offset: u64, bytes: &[u8]) -> Result<Self> {
        Self::begin(file, offset, Buffer::of(bytes)?, IOCB_CMD_PWRITE)
    }

    /// Begins to read this many bytes from there.
    pub fn read(file: &File, offset: u64, length: usize) -> Result<Self> {
        Self::begin(file, offset, Buffer::new(length)?, IOCB_CMD_PREAD)
    }

    fn begin(file: &File, offset: u64, buffer: Buffer, command: u16) -> Result<Self> {
        let mut begun = Self { context: 0, buffer };
        // SAFETY: the kernel writes the number of the context there.
        let made =
            unsafe { libc::syscall(libc::SYS_io_setup, 1_u32, from_mut(&mut begun.context)) };
        ensure!(made == 0, "cannot set up a request");
        // SAFETY: all zeroes is a request that asks for nothing.
        let mut request: libc::iocb = unsafe { zeroed() };
        request.aio_lio_opcode = command;
        request.aio_fildes = u32::try_from(file.as_raw_fd())?;
        request.aio_buf = begun.buffer.address() as u64;
        request.aio_nbytes = begun.buffer.len() as u64;
        request.aio_offset = i64::try_from(offset)?;
        let mut requests = [from_mut(&mut request)];
        // SAFETY: the kernel copies the request; its memory lives as long as the context.
        let count = unsafe {
            libc::syscall(
                libc::SYS_io_submit,
                begun.context,
                1_usize,
                requests.as_mut_ptr(),
            )
        };
        ensure!(count == 1, "cannot begin a request");
        Ok(begun)
    }

    /// Waits until it has ended, and returns what was read or written; an error of it is one here.
    pub fn end(self) -> Result<Vec<u8>> {
        // The words of an `io_event`; the third is the number of bytes, or an error.
        let mut event = [0_i64; 4];
        // SAFETY: there is room for one event, and no time is given.
        let ended = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                1_usize,
                1_usize,
                from_mut(&mut event),
                null_mut::<libc::timespec>(),
            )
        };
        ensure!(ended == 1, "cannot wait for a request");
        let done = usize::try_from(event[2]).context("the request failed")?;
        ensure!(done >= self.buffer.len(), "{done} bytes done");
        Ok(self.buffer.to_vec())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // SAFETY: it returns when nothing of the context is under way, so that the buffer may go.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

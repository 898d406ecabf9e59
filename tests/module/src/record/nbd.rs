// SPDX-License-Identifier: GPL-3.0-or-later
//! Block devices that this program serves itself: the kernel sends it each request over a socket.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::ioctl::{IntegerSetter, NoArg, Opcode, ioctl, opcode};

use crate::io::{self, SECTOR};

const SET_SOCK: Opcode = opcode::none(0xab, 0);
const SET_BLKSIZE: Opcode = opcode::none(0xab, 1);
const SET_SIZE: Opcode = opcode::none(0xab, 2);
const DO_IT: Opcode = opcode::none(0xab, 3);
const DISCONNECT: Opcode = opcode::none(0xab, 8);
const SET_FLAGS: Opcode = opcode::none(0xab, 10);

/// What the device can do: flush, FUA, discard, fill with zeroes.
const FLAGS: usize = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6;
const ROTATIONAL: usize = 1 << 4;

const REQUEST_MAGIC: [u8; 4] = 0x2560_9513_u32.to_be_bytes();
const REPLY_MAGIC: [u8; 4] = 0x6744_6698_u32.to_be_bytes();
const FUA: u16 = 1;
const EIO: u32 = 5;

/// What the kernel asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// A flush, which makes durable what was written.
    Flush,
    /// Discards or fills with zeroes.
    Zero,
    /// The other side ends the device; there is no answer.
    Disconnect,
}

/// A request of the kernel.
pub struct Request {
    /// What the request asks for.
    pub verb: Verb,
    /// Whether it has to be durable at its end.
    pub fua: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: usize,
    /// What is to be written.
    pub data: Vec<u8>,
    handle: [u8; 8],
}

/// Makes `/dev/nbdNUMBER` a device of `sectors` sectors with a volatile write cache. Returns its node and where its
/// requests come from.
pub fn attach(number: u32, sectors: u64, rotational: bool) -> Result<(PathBuf, UnixStream)> {
    let node = PathBuf::from(format!("/dev/nbd{number}"));
    let (ours, kernels) = UnixStream::pair().context("cannot make a socket pair")?;
    // Not for writing: who does that keeps others from mounting it.
    let device = File::open(&node).with_context(|| format!("cannot open {}", node.display()))?;
    let bytes = usize::try_from(sectors)? * SECTOR;
    let flags = FLAGS | if rotational { ROTATIONAL } else { 0 };
    let socket = usize::try_from(kernels.as_raw_fd())?;
    // SAFETY: each of these takes a number.
    unsafe {
        ioctl(&device, IntegerSetter::<SET_BLKSIZE>::new_usize(SECTOR))?;
        ioctl(&device, IntegerSetter::<SET_SIZE>::new_usize(bytes))?;
        ioctl(&device, IntegerSetter::<SET_FLAGS>::new_usize(flags))?;
        ioctl(&device, IntegerSetter::<SET_SOCK>::new_usize(socket))?;
    }
    thread::spawn(move || {
        // SAFETY: takes no argument; returns when the device is no longer served, with an error if nobody asked for that.
        if let Err(error) = unsafe { ioctl(&device, NoArg::<DO_IT>::new()) } {
            println!("     a recorded device ended: {error}");
        }
        drop(kernels);
    });
    let until = Instant::now() + Duration::from_secs(20);
    while size(&node)? != sectors {
        ensure!(Instant::now() < until, "{} does not start", node.display());
        thread::sleep(Duration::from_millis(1));
    }
    // Without these the kernel would answer flushes by itself, and cuts would find nothing.
    let (cache, fua) = (
        io::queue_text(&node, "write_cache")?,
        io::queue(&node, "fua")?,
    );
    ensure!(
        cache == "write back" && fua == 1,
        "{} has no volatile write cache with FUA: {cache}, {fua}",
        node.display()
    );
    Ok((node, ours))
}

/// Asks the kernel to end a device.
pub fn detach(node: &Path) -> Result<()> {
    let device = File::open(node)?;
    // SAFETY: takes no argument.
    unsafe { ioctl(&device, NoArg::<DISCONNECT>::new()) }.context("cannot end a recorded device")
}

fn size(node: &Path) -> Result<u64> {
    let name = node.file_name().context("a node without a name")?;
    let text = fs::read_to_string(Path::new("/sys/block").join(name).join("size"))?;
    Ok(text.trim().parse()?)
}

impl Request {
    /// The next one; waits for it.
    pub fn read(socket: &mut UnixStream) -> Result<Self> {
        let mut head = [0; 28];
        socket.read_exact(&mut head)?;
        ensure!(head[..4] == REQUEST_MAGIC, "no request: {head:?}");
        let flags = u16::from_be_bytes([head[4], head[5]]);
        let verb = match u16::from_be_bytes([head[6], head[7]]) {
            0 => Verb::Read,
            1 => Verb::Write,
            2 => Verb::Disconnect,
            3 => Verb::Flush,
            4 | 6 => Verb::Zero,
            other => bail!("unknown command {other}"),
        };
        let length = u32::from_be_bytes(head[24..28].try_into()?) as usize;
        let mut request = Self {
            verb,
            fua: flags & FUA != 0,
            offset: u64::from_be_bytes(head[16..24].try_into()?),
            length,
            data: Vec::new(),
            handle: head[8..16].try_into()?,
        };
        if verb == Verb::Write {
            request.data = vec![0; length];
            socket.read_exact(&mut request.data)?;
        }
        Ok(request)
    }

    /// Answers it; `data` is what was read.
    pub fn answer(&self, socket: &mut UnixStream, ok: bool, data: &[u8]) -> Result<()> {
        let error = if ok { 0 } else { EIO };
        let mut reply = Vec::with_capacity(16 + data.len());
        reply.extend(REPLY_MAGIC);
        reply.extend(error.to_be_bytes());
        reply.extend(self.handle);
        if ok {
            reply.extend(data);
        }
        Ok(socket.write_all(&reply)?)
    }

    /// Whether two requests to one device have a byte in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.offset + other.length as u64
            && other.offset < self.offset + self.length as u64
    }
}

/// Waits until one of the files can be read, at most so many milliseconds, or for ever if negative. Returns which.
pub fn readable<const N: usize>(files: [RawFd; N], milliseconds: i32) -> Result<[bool; N]> {
    let mut polls = files.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: the array has as many elements as said.
    let result = unsafe { libc::poll(polls.as_mut_ptr(), N as libc::nfds_t, milliseconds) };
    if result < 0 {
        let error = std::io::Error::last_os_error();
        ensure!(
            error.kind() == std::io::ErrorKind::Interrupted,
            "poll: {error}"
        );
        return Ok([false; N]);
    }
    Ok(polls.map(|poll| poll.revents != 0))
}

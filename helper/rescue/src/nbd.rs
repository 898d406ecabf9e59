// SPDX-License-Identifier: GPL-3.0-or-later
//! Shows a [`View`] to programs as a network block device: read-only, on a unix socket or on the loopback interface. The protocol
//! is NBD's fixed newstyle handshake (`doc/proto.md` of nbd), which `nbd-client`, `qemu-nbd` and `qemu-img` speak.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::umask;

use crate::{SECTOR_BYTES, View};

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION: u64 = 0x4948_4156_454f_5054;
const REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const SIMPLE_REPLY: u32 = 0x6744_6698;
/// Fixed newstyle, and no zeroes behind the answer to `EXPORT_NAME`.
const HANDSHAKE: u16 = 3;
/// The export has flags, is read-only and takes flushes.
const FLAGS: u16 = 1 | 2 | 4;
const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const INFO: u32 = 6;
const GO: u32 = 7;
const ACK: u32 = 1;
const SERVER: u32 = 2;
const INFORMATION: u32 = 3;
const UNSUPPORTED: u32 = (1 << 31) + 1;
const INVALID: u32 = (1 << 31) + 3;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
/// Longest option that is read, and longest read that is answered.
const OPTION_ROOM: u32 = 4096;
const READ_ROOM: u32 = 32 << 20;
/// Connections at a time: each may have an answer of `READ_ROOM` bytes in memory. Further programs are sent away.
const CONNECTIONS: usize = 8;
/// How long a program may take to say what it wants. After that it may be silent as long as it likes.
const GREETING: Duration = Duration::from_secs(10);
/// Time after a failed attempt to take a connection: the machine may lack memory or descriptors for a while.
const PAUSE: Duration = Duration::from_millis(100);

/// Where programs find the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A unix socket, readable by its owner only.
    Socket(PathBuf),
    /// A port of 127.0.0.1; any program of this machine can read it.
    Port(u16),
}

/// A read for the thread that has the disks, and where its answer goes.
struct Wanted {
    offset: u64,
    length: u32,
    answer: Sender<io::Result<Vec<u8>>>,
}

/// A socket that listens at an address.
pub enum Listener {
    /// A unix socket.
    Socket(UnixListener),
    /// A port.
    Port(TcpListener),
}

/// Begins to listen. A socket that nobody listens on any more is replaced.
///
/// # Errors
/// If the address cannot be used.
pub fn listen(address: &Address) -> io::Result<Listener> {
    match address {
        Address::Port(port) => TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).map(Listener::Port),
        Address::Socket(path) => {
            if is_abandoned(path) {
                std::fs::remove_file(path)?;
            }
            // The process has one thread yet, so nobody else creates files meanwhile.
            let before = umask(Mode::from_raw_mode(0o177));
            let bound = UnixListener::bind(path);
            umask(before);
            bound.map(Listener::Socket)
        }
    }
}

fn is_abandoned(path: &Path) -> bool {
    let socket = std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    socket && UnixStream::connect(path).is_err()
}

/// Serves the view until the process is ended, or until no connection can come any more.
pub fn serve(view: &View<'_>, listener: Listener) {
    let size = view.sectors() * SECTOR_BYTES;
    let (wanted, reads) = channel::<Wanted>();
    std::thread::spawn(move || accept(&listener, size, &wanted));
    answer(view, &reads);
}

/// Reads what connections want, until none can come any more.
fn answer(view: &View<'_>, reads: &Receiver<Wanted>) {
    for wanted in reads {
        let first = wanted.offset / SECTOR_BYTES;
        let end = (wanted.offset + u64::from(wanted.length)).div_ceil(SECTOR_BYTES);
        let mut bytes = vec![0; ((end - first) * SECTOR_BYTES) as usize];
        let read = view.read(first, &mut bytes).map(|()| {
            let skipped = (wanted.offset % SECTOR_BYTES) as usize;
            bytes.drain(..skipped);
            bytes.truncate(wanted.length as usize);
            bytes
        });
        // The program may be gone.
        let _ = wanted.answer.send(read);
    }
}

fn accept(listener: &Listener, size: u64, wanted: &Sender<Wanted>) {
    // Each connection has a copy.
    let open = Arc::new(());
    loop {
        let begun = match listener {
            Listener::Socket(socket) => socket
                .accept()
                .and_then(|(stream, _)| begin(stream, size, wanted, &open)),
            Listener::Port(port) => port.accept().and_then(|(stream, _)| {
                let _ = stream.set_nodelay(true);
                begin(stream, size, wanted, &open)
            }),
        };
        if begun.is_err() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Serves a connection in a thread of its own.
fn begin(
    stream: impl Read + Write + AsFd + Send + 'static,
    size: u64,
    wanted: &Sender<Wanted>,
    open: &Arc<()>,
) -> io::Result<()> {
    if Arc::strong_count(open) > CONNECTIONS {
        return Ok(());
    }
    let (wanted, counted) = (wanted.clone(), open.clone());
    let serve = move || {
        connection(stream, size, &wanted);
        drop(counted);
    };
    Builder::new().spawn(serve).map(drop)
}

/// An end in the middle is the other program's affair.
fn connection(mut stream: impl Read + Write + AsFd, size: u64, wanted: &Sender<Wanted>) {
    if set_socket_timeout(&stream, Timeout::Recv, Some(GREETING)).is_err() {
        return;
    }
    let begins = greet(&mut stream, size).unwrap_or(false);
    if begins && set_socket_timeout(&stream, Timeout::Recv, None).is_ok() {
        let _ = transmit(&mut stream, size, wanted);
    }
}

fn number<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Agrees on the device. False: the other program wants to go.
fn greet(stream: &mut (impl Read + Write), size: u64) -> io::Result<bool> {
    let mut hello = MAGIC.to_be_bytes().to_vec();
    hello.extend(OPTION.to_be_bytes());
    hello.extend(HANDSHAKE.to_be_bytes());
    stream.write_all(&hello)?;
    let flags = u32::from_be_bytes(number(stream)?);
    let no_zeroes = flags & 2 != 0;
    loop {
        if u64::from_be_bytes(number(stream)?) != OPTION {
            return Ok(false);
        }
        let option = u32::from_be_bytes(number(stream)?);
        let length = u32::from_be_bytes(number(stream)?);
        if length > OPTION_ROOM {
            return Ok(false);
        }
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data)?;
        let mut reply = |kind: u32, data: &[u8]| {
            let mut bytes = REPLY.to_be_bytes().to_vec();
            bytes.extend(option.to_be_bytes());
            bytes.extend(kind.to_be_bytes());
            bytes.extend((data.len() as u32).to_be_bytes());
            bytes.extend(data);
            stream.write_all(&bytes)
        };
        match option {
            EXPORT_NAME => {
                let mut bytes = size.to_be_bytes().to_vec();
                bytes.extend(FLAGS.to_be_bytes());
                if !no_zeroes {
                    bytes.extend([0; 124]);
                }
                stream.write_all(&bytes)?;
                return Ok(true);
            }
            ABORT => {
                reply(ACK, &[])?;
                return Ok(false);
            }
            LIST => {
                // One device, whose name is empty.
                reply(SERVER, &0_u32.to_be_bytes())?;
                reply(ACK, &[])?;
            }
            INFO | GO if data.len() >= 6 => {
                let mut export = 0_u16.to_be_bytes().to_vec();
                export.extend(size.to_be_bytes());
                export.extend(FLAGS.to_be_bytes());
                reply(INFORMATION, &export)?;
                reply(ACK, &[])?;
                if option == GO {
                    return Ok(true);
                }
            }
            INFO | GO => reply(INVALID, &[])?,
            _ => reply(UNSUPPORTED, &[])?,
        }
    }
}

/// Answers reads until the other program goes.
fn transmit(
    stream: &mut (impl Read + Write),
    size: u64,
    wanted: &Sender<Wanted>,
) -> io::Result<()> {
    loop {
        if u32::from_be_bytes(number(stream)?) != REQUEST {
            return Ok(());
        }
        let _flags: [u8; 2] = number(stream)?;
        let kind = u16::from_be_bytes(number(stream)?);
        let handle: [u8; 8] = number(stream)?;
        let offset = u64::from_be_bytes(number(stream)?);
        let length = u32::from_be_bytes(number(stream)?);
        let result = match kind {
            DISCONNECT => return Ok(()),
            READ => read(offset, length, size, wanted),
            FLUSH => Ok(Vec::new()),
            WRITE => {
                io::copy(&mut stream.take(u64::from(length)), &mut io::sink())?;
                Err(EPERM)
            }
            _ => Err(EINVAL),
        };
        let mut bytes = SIMPLE_REPLY.to_be_bytes().to_vec();
        bytes.extend(result.as_ref().err().copied().unwrap_or(0).to_be_bytes());
        bytes.extend(handle);
        bytes.extend(result.unwrap_or_default());
        stream.write_all(&bytes)?;
    }
}

fn read(offset: u64, length: u32, size: u64, wanted: &Sender<Wanted>) -> Result<Vec<u8>, u32> {
    let within = offset
        .checked_add(u64::from(length))
        .is_some_and(|end| end <= size);
    if !within || length > READ_ROOM {
        return Err(EINVAL);
    }
    let (answer, answered) = channel();
    let asked = wanted.send(Wanted {
        offset,
        length,
        answer,
    });
    let read = asked.ok().and_then(|()| answered.recv().ok());
    read.and_then(Result::ok).ok_or(EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server without disks.
    fn server(name: &str) -> (PathBuf, UnixListener) {
        let path = std::env::temp_dir().join(format!("tandem-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        (path.clone(), UnixListener::bind(path).unwrap())
    }

    fn serve_in_background(listener: UnixListener) {
        let (wanted, _) = channel();
        std::thread::spawn(move || accept(&Listener::Socket(listener), 512, &wanted));
    }

    /// Whether a new connection is greeted.
    fn greeted(path: &Path) -> Option<UnixStream> {
        let mut stream = UnixStream::connect(path).ok()?;
        number::<8>(&mut stream).is_ok().then_some(stream)
    }

    #[test]
    fn programs_beyond_the_bound_are_sent_away_until_another_program_goes() {
        let (path, listener) = server("nbd-bound");
        serve_in_background(listener);
        let mut open: Vec<_> = (0..CONNECTIONS).filter_map(|_| greeted(&path)).collect();
        assert_eq!(open.len(), CONNECTIONS);
        assert!(greeted(&path).is_none(), "a connection beyond the bound");
        open.pop();
        let begun = std::time::Instant::now();
        while greeted(&path).is_none() {
            assert!(begun.elapsed() < GREETING, "no place is free again");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn an_attempt_that_fails_is_not_the_last() {
        let (path, listener) = server("nbd-fails");
        // Each attempt fails now as long as no program connects.
        listener.set_nonblocking(true).unwrap();
        serve_in_background(listener);
        std::thread::sleep(2 * PAUSE);
        assert!(greeted(&path).is_some(), "the server has ended");
        std::fs::remove_file(path).unwrap();
    }
}

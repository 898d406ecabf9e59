// SPDX-License-Identifier: GPL-3.0-or-later
//! The server's end of a network block device (`doc/proto.md` of nbd): the fixed newstyle handshake, then reads, writes
//! and flushes, each answered when it is done.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use super::Shared;

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION: u64 = 0x4948_4156_454f_5054;
const REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const SIMPLE_REPLY: u32 = 0x6744_6698;
/// Fixed newstyle, and no zeroes behind the answer to an option that is not used here.
const HANDSHAKE: u16 = 3;
/// The export has flags, takes flushes, and takes writes that go to the medium.
const FLAGS: u16 = 1 | 4 | 8;
const ABORT: u32 = 2;
const GO: u32 = 7;
const ACK: u32 = 1;
const INFORMATION: u32 = 3;
const UNSUPPORTED: u32 = (1 << 31) + 1;
const UNKNOWN: u32 = (1 << 31) + 6;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
/// Flag of a write that is not answered before it is on the medium.
const FORCED: u16 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
/// Longest option, and longest read or write.
const OPTION_ROOM: u32 = 4096;
const DATA_ROOM: u32 = 32 << 20;

/// Serves one connection until its other end closes it.
pub fn serve(mut stream: &UnixStream, shared: &Shared) -> io::Result<()> {
    let Some(name) = agree(stream, shared)? else {
        return Ok(());
    };
    let mut data = Vec::new();
    loop {
        if u32_of(stream)? != REQUEST {
            return Err(ErrorKind::InvalidData.into());
        }
        let (flags, kind) = (u16_of(stream)?, u16_of(stream)?);
        let (cookie, offset, length) = (u64_of(stream)?, u64_of(stream)?, u32_of(stream)?);
        if length > DATA_ROOM {
            return Err(ErrorKind::InvalidData.into());
        }
        data.clear();
        if matches!(kind, READ | WRITE) {
            data.resize(length as usize, 0);
        }
        if kind == WRITE {
            stream.read_exact(&mut data)?;
        }
        if matches!(kind, WRITE | FLUSH) {
            shared.changes();
        }
        let mut drive = shared.drive(&name)?;
        let done = match kind {
            READ => drive.read(offset, &mut data),
            WRITE => drive.write(offset, &data, flags & FORCED != 0),
            FLUSH => {
                drive.flush();
                Ok(())
            }
            DISCONNECT => return Ok(()),
            _ => Err(ErrorKind::InvalidInput.into()),
        };
        drop(drive);
        let error = match &done {
            Ok(()) => 0,
            Err(e) if e.kind() == ErrorKind::InvalidInput => EINVAL,
            Err(_) => EIO,
        };
        let mut answer = Vec::with_capacity(16 + data.len());
        answer.extend(SIMPLE_REPLY.to_be_bytes());
        answer.extend(error.to_be_bytes());
        answer.extend(cookie.to_be_bytes());
        if kind == READ && error == 0 {
            answer.extend(&data);
        }
        stream.write_all(&answer)?;
    }
}

/// The handshake. Returns the name of the disk that is wanted.
fn agree(mut stream: &UnixStream, shared: &Shared) -> io::Result<Option<String>> {
    let mut hello = Vec::new();
    hello.extend(MAGIC.to_be_bytes());
    hello.extend(OPTION.to_be_bytes());
    hello.extend(HANDSHAKE.to_be_bytes());
    stream.write_all(&hello)?;
    u32_of(stream)?;
    loop {
        if u64_of(stream)? != OPTION {
            return Err(ErrorKind::InvalidData.into());
        }
        let (option, length) = (u32_of(stream)?, u32_of(stream)?);
        if length > OPTION_ROOM {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data)?;
        match option {
            GO => match name_of(&data).map(|name| (shared.drive(&name), name)) {
                Some((Ok(drive), name)) => {
                    // The kind of the information (0: the export), the size of the disk, and the flags.
                    let mut told = vec![0; 2];
                    told.extend(drive.size().to_be_bytes());
                    told.extend(FLAGS.to_be_bytes());
                    drop(drive);
                    reply(stream, option, INFORMATION, &told)?;
                    reply(stream, option, ACK, &[])?;
                    return Ok(Some(name));
                }
                _ => reply(stream, option, UNKNOWN, &[])?,
            },
            ABORT => {
                reply(stream, option, ACK, &[])?;
                return Ok(None);
            }
            _ => reply(stream, option, UNSUPPORTED, &[])?,
        }
    }
}

/// The name in the data of the option `GO`: its length, then its characters.
fn name_of(data: &[u8]) -> Option<String> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let name = rest.get(..u32::from_be_bytes(*length) as usize)?;
    String::from_utf8(name.to_vec()).ok()
}

fn reply(mut stream: &UnixStream, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let length = u32::try_from(data.len()).map_err(|_| ErrorKind::InvalidInput)?;
    let mut answer = Vec::new();
    answer.extend(REPLY.to_be_bytes());
    for word in [option, kind, length] {
        answer.extend(word.to_be_bytes());
    }
    answer.extend(data);
    stream.write_all(&answer)
}

fn bytes<const N: usize>(mut stream: &UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).map(|()| bytes)
}

fn u16_of(stream: &UnixStream) -> io::Result<u16> {
    bytes(stream).map(u16::from_be_bytes)
}

fn u32_of(stream: &UnixStream) -> io::Result<u32> {
    bytes(stream).map(u32::from_be_bytes)
}

fn u64_of(stream: &UnixStream) -> io::Result<u64> {
    bytes(stream).map(u64::from_be_bytes)
}

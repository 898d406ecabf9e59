// SPDX-License-Identifier: GPL-3.0-or-later
//! What passed between a cache, its two disks and the file system above it, in one order.
//!
//! A request is logged twice: when the server of the device has got it, and just before the server says that it is
//! done. So a request that ended before another began in the log did so for everybody who could notice.

use std::io::{Error, ErrorKind, Result};

/// Bytes in a sector.
pub const SECTOR: usize = 512;

const MAGIC: &[u8; 8] = b"TDRECD01";

/// Where a request went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// The disk below the cache.
    Disk,
    /// The SSD below the cache.
    Ssd,
    /// The cached device, as the file system sees it.
    Top,
}

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Writes its data.
    Write,
    /// Writes its data, which is durable at its end.
    WriteFua,
    /// Discards or fills with zeroes: the devices make no difference.
    Zero,
    /// The same, durable at its end.
    ZeroFua,
    /// A flush, which makes durable what ended before it began.
    Flush,
}

const DEVICES: [Device; 3] = [Device::Disk, Device::Ssd, Device::Top];
const VERBS: [Verb; 5] = [
    Verb::Write,
    Verb::WriteFua,
    Verb::Zero,
    Verb::ZeroFua,
    Verb::Flush,
];

impl Verb {
    /// Whether the request brings data along.
    pub fn has_data(self) -> bool {
        matches!(self, Self::Write | Self::WriteFua)
    }

    /// Whether what it changes is durable at its end.
    pub fn is_fua(self) -> bool {
        matches!(self, Self::WriteFua | Self::ZeroFua)
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Where it went.
    pub device: Device,
    /// What the request asks for.
    pub verb: Verb,
    /// First sector.
    pub sector: u64,
    /// Sectors.
    pub count: u32,
    /// What is written; empty for other requests.
    pub data: &'a [u8],
}

/// One entry.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A request came.
    Begin(u32, Request<'a>),
    /// The request of this number is done.
    End(u32),
    /// Something that the guest wants to have noted here.
    Mark(&'a str),
}

/// What was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Length of the disk and of the cached device.
    pub disk_sectors: u64,
    /// Length of the SSD.
    pub ssd_sectors: u64,
}

/// A log under way, in memory. What was taken out of it comes before what is in it.
pub struct Writer {
    bytes: Vec<u8>,
    next: u32,
}

impl Writer {
    /// Begins a log.
    pub fn new(head: Head) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(head.disk_sectors.to_le_bytes());
        bytes.extend(head.ssd_sectors.to_le_bytes());
        Self { bytes, next: 0 }
    }

    /// A request came; returns the number that its end is to be logged with.
    pub fn begin(&mut self, request: Request<'_>) -> u32 {
        let number = self.next;
        self.next += 1;
        self.bytes
            .extend([b'B', request.device as u8, request.verb as u8]);
        self.bytes.extend(number.to_le_bytes());
        self.bytes.extend(request.sector.to_le_bytes());
        self.bytes.extend(request.count.to_le_bytes());
        if request.verb.has_data() {
            debug_assert_eq!(request.data.len(), request.count as usize * SECTOR);
            self.bytes.extend(request.data);
        }
        number
    }

    /// A request is done.
    pub fn end(&mut self, number: u32) {
        self.bytes.push(b'E');
        self.bytes.extend(number.to_le_bytes());
    }

    /// Notes a text.
    pub fn mark(&mut self, text: &str) {
        self.bytes.push(b'M');
        self.bytes.extend((text.len() as u32).to_le_bytes());
        self.bytes.extend(text.as_bytes());
    }

    /// The log since the last [`Writer::take`].
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes out the log so far.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// A reader that takes a log apart.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(broken)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.bytes(N)?.try_into().map_err(|_| broken())
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn event(&mut self) -> Result<Event<'a>> {
        match self.bytes(1)? {
            b"B" => {
                let [device, verb] = self.array()?;
                let device = *DEVICES.get(usize::from(device)).ok_or_else(broken)?;
                let verb = *VERBS.get(usize::from(verb)).ok_or_else(broken)?;
                let number = self.u32()?;
                let (sector, count) = (self.u64()?, self.u32()?);
                let length = if verb.has_data() {
                    count as usize * SECTOR
                } else {
                    0
                };
                let data = self.bytes(length)?;
                let request = Request {
                    device,
                    verb,
                    sector,
                    count,
                    data,
                };
                Ok(Event::Begin(number, request))
            }
            b"E" => Ok(Event::End(self.u32()?)),
            b"M" => {
                let length = self.u32()? as usize;
                let text = str::from_utf8(self.bytes(length)?).map_err(|_| broken())?;
                Ok(Event::Mark(text))
            }
            _ => Err(broken()),
        }
    }
}

fn broken() -> Error {
    Error::new(
        ErrorKind::InvalidData,
        "this is no recording, or a part of one",
    )
}

/// What a log says.
///
/// # Errors
/// It is no log.
pub fn read(log: &[u8]) -> Result<(Head, Vec<Event<'_>>)> {
    let mut reader = Reader(log);
    if reader.bytes(MAGIC.len())? != MAGIC {
        return Err(broken());
    }
    let head = Head {
        disk_sectors: reader.u64()?,
        ssd_sectors: reader.u64()?,
    };
    let mut events = Vec::new();
    while !reader.0.is_empty() {
        events.push(reader.event()?);
    }
    Ok((head, events))
}

/// What a sector holds that nobody has written to, so that it is recognised wherever it turns up. The SSD begins with
/// zeroes, as a new cache wants it.
pub fn untouched(device: Device, sector: u64) -> [u8; SECTOR] {
    const SSD_ZEROES: u64 = 2048;
    let mut bytes = [0; SECTOR];
    if device == Device::Ssd && sector < SSD_ZEROES {
        return bytes;
    }
    let name: &[u8; 8] = match device {
        Device::Ssd => b"new SSD ",
        _ => b"old data",
    };
    for piece in bytes.as_chunks_mut::<16>().0 {
        piece[..8].copy_from_slice(name);
        piece[8..].copy_from_slice(&sector.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() -> Result<()> {
        let head = Head {
            disk_sectors: 9,
            ssd_sectors: 4,
        };
        let mut writer = Writer::new(head);
        let data = [7; 2 * SECTOR];
        let write = Request {
            device: Device::Ssd,
            verb: Verb::WriteFua,
            sector: 3,
            count: 2,
            data: &data,
        };
        let number = writer.begin(write);
        let mut log = writer.take();
        writer.mark("here");
        writer.end(number);
        log.extend(writer.bytes());
        let (read_head, events) = read(&log)?;
        assert_eq!(read_head, head);
        let [
            Event::Begin(first, got),
            Event::Mark("here"),
            Event::End(last),
        ] = events[..]
        else {
            panic!("other events: {events:?}");
        };
        assert_eq!((first, last), (number, number));
        assert_eq!((got.device, got.verb), (Device::Ssd, Verb::WriteFua));
        assert_eq!((got.sector, got.count, got.data), (3, 2, &data[..]));
        assert!(read(&log[..log.len() - 1]).is_err());
        Ok(())
    }
}

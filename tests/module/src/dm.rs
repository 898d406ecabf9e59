// SPDX-License-Identifier: GPL-3.0-or-later
//! Device-mapper by its ioctls, so that the suite needs neither dmsetup nor udev.

use std::cell::RefCell;
use std::fs::File;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// `struct dm_ioctl` of linux/dm-ioctl.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

const HEADER: usize = size_of::<Header>();
const ROOM: usize = 16 * 1024;

/// The header with room behind it for specifications and texts.
#[repr(C)]
struct Packet {
    header: Header,
    data: [u8; ROOM],
}

const READ_ONLY: u32 = 1;
const SUSPEND: u32 = 1 << 1;
const TABLE: u32 = 1 << 4;
const SKIP_LOCKFS: u32 = 1 << 10;
const NOFLUSH: u32 = 1 << 11;
const BUFFER_FULL: u32 = 1 << 8;
const INACTIVE: u32 = 1 << 12;

const CREATE: u8 = 3;
const REMOVE: u8 = 4;
const SUSPEND_OR_RESUME: u8 = 6;
const STATUS: u8 = 7;
const LOAD: u8 = 9;
const CLEAR: u8 = 10;
const TABLE_STATUS: u8 = 12;
const MESSAGE: u8 = 14;

const fn code(number: u8) -> Opcode {
    opcode::read_write::<Header>(0xfd, number)
}

fn control() -> Result<File> {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/mapper/control")
        .context("cannot open /dev/mapper/control")
}

/// Runs one ioctl on the named device.
fn call(
    number: u8,
    name: &str,
    flags: u32,
    fill: impl FnOnce(&mut Packet) -> Result<()>,
) -> Result<Box<Packet>> {
    let mut packet = Box::new(Packet {
        header: Header {
            version: [4, 0, 0],
            data_size: u32::try_from(size_of::<Packet>())?,
            data_start: u32::try_from(HEADER)?,
            target_count: 0,
            open_count: 0,
            flags,
            event_nr: 0,
            padding: 0,
            dev: 0,
            name: [0; 128],
            uuid: [0; 129],
            data: [0; 7],
        },
        data: [0; ROOM],
    });
    ensure!(name.len() < 128, "name too long");
    packet.header.name[..name.len()].copy_from_slice(name.as_bytes());
    fill(&mut packet)?;
    let control = control()?;
    // SAFETY: every number of the device-mapper ioctls is encoded with the size of `Header`, and the kernel
    // reads and writes at most `data_size` bytes, which is the size of the packet.
    let result = match number {
        CREATE => unsafe {
            ioctl(
                &control,
                Updater::<{ code(CREATE) }, Packet>::new(&mut packet),
            )
        },
        REMOVE => unsafe {
            ioctl(
                &control,
                Updater::<{ code(REMOVE) }, Packet>::new(&mut packet),
            )
        },
        SUSPEND_OR_RESUME => unsafe {
            ioctl(
                &control,
                Updater::<{ code(SUSPEND_OR_RESUME) }, Packet>::new(&mut packet),
            )
        },
        STATUS => unsafe {
            ioctl(
                &control,
                Updater::<{ code(STATUS) }, Packet>::new(&mut packet),
            )
        },
        LOAD => unsafe {
            ioctl(
                &control,
                Updater::<{ code(LOAD) }, Packet>::new(&mut packet),
            )
        },
        CLEAR => unsafe {
            ioctl(
                &control,
                Updater::<{ code(CLEAR) }, Packet>::new(&mut packet),
            )
        },
        TABLE_STATUS => unsafe {
            ioctl(
                &control,
                Updater::<{ code(TABLE_STATUS) }, Packet>::new(&mut packet),
            )
        },
        MESSAGE => unsafe {
            ioctl(
                &control,
                Updater::<{ code(MESSAGE) }, Packet>::new(&mut packet),
            )
        },
        _ => bail!("unknown ioctl {number}"),
    };
    result.map_err(std::io::Error::from)?;
    Ok(packet)
}

/// One line of a table.
#[derive(Clone, Debug)]
pub struct Line {
    /// First sector of the mapped device that the line describes.
    pub start: u64,
    /// Sectors.
    pub length: u64,
    /// Name of the target.
    pub target: String,
    /// What the target's constructor gets.
    pub args: String,
}

impl Line {
    /// A table of one line from sector 0.
    pub fn new(length: u64, target: &str, args: impl Into<String>) -> Self {
        Self {
            start: 0,
            length,
            target: target.to_owned(),
            args: args.into(),
        }
    }
}

/// A device-mapper device that is removed when it goes out of scope.
pub struct Dm {
    name: String,
    path: PathBuf,
    line: RefCell<Option<Line>>,
}

impl Dm {
    /// A device without a table.
    pub fn create(name: &str) -> Result<Self> {
        let packet =
            call(CREATE, name, 0, |_| Ok(())).with_context(|| format!("cannot create {name}"))?;
        let minor = packet.header.dev & 0xff | (packet.header.dev >> 12) & 0xfff_ff00;
        Ok(Self {
            name: name.to_owned(),
            path: format!("/dev/dm-{minor}").into(),
            line: RefCell::new(None),
        })
    }

    /// A device with a live table of one line.
    pub fn with(name: &str, line: Line) -> Result<Self> {
        let device = Self::create(name)?;
        device.load(line)?;
        device.resume()?;
        Ok(device)
    }

    /// The device's node.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Loads an inactive table: the target's constructor runs.
    pub fn load(&self, line: Line) -> Result<()> {
        self.load_with(line, 0)
    }

    /// The same for a device that can only be read.
    pub fn load_read_only(&self, line: Line) -> Result<()> {
        self.load_with(line, READ_ONLY)
    }

    fn load_with(&self, line: Line, flags: u32) -> Result<()> {
        let text = format!("cannot load {line:?}");
        call(LOAD, &self.name, flags, |packet| {
            packet.header.target_count = 1;
            let data = &mut packet.data;
            data[0..8].copy_from_slice(&line.start.to_ne_bytes());
            data[8..16].copy_from_slice(&line.length.to_ne_bytes());
            let args = line.args.as_bytes();
            let next = u32::try_from((40 + args.len() + 1).next_multiple_of(8))?;
            ensure!(
                line.target.len() < 16 && 40 + args.len() < ROOM,
                "table line too long"
            );
            data[20..24].copy_from_slice(&next.to_ne_bytes());
            data[24..24 + line.target.len()].copy_from_slice(line.target.as_bytes());
            data[40..40 + args.len()].copy_from_slice(args);
            Ok(())
        })
        .context(text)?;
        *self.line.borrow_mut() = Some(line);
        Ok(())
    }

    /// Throws away an inactive table.
    pub fn clear(&self) -> Result<()> {
        call(CLEAR, &self.name, 0, |_| Ok(())).context("cannot clear the inactive table")?;
        Ok(())
    }

    /// Makes the inactive table, or a suspended one, live.
    pub fn resume(&self) -> Result<()> {
        Self::resume_of(&self.name)
    }

    /// The same of a device of this name.
    pub fn resume_of(name: &str) -> Result<()> {
        call(SUSPEND_OR_RESUME, name, 0, |_| Ok(())).context("cannot resume")?;
        Ok(())
    }

    /// Stops requests, and waits for those in flight.
    pub fn suspend(&self) -> Result<()> {
        call(SUSPEND_OR_RESUME, &self.name, SUSPEND, |_| Ok(())).context("cannot suspend")?;
        Ok(())
    }

    /// Stops requests until the guard is dropped, so that a case that fails meanwhile leaves nobody waiting.
    pub fn suspended(&self) -> Result<Suspended<'_>> {
        self.suspend()?;
        Ok(Suspended(self))
    }

    /// Stops requests without syncing a file system above, and requeues what waits.
    pub fn suspend_noflush(&self) -> Result<()> {
        call(
            SUSPEND_OR_RESUME,
            &self.name,
            SUSPEND | NOFLUSH | SKIP_LOCKFS,
            |_| Ok(()),
        )
        .context("cannot suspend")?;
        Ok(())
    }

    /// Swaps the live table for another, as for a failure of the device under test.
    pub fn swap(&self, line: Line) -> Result<()> {
        self.load(line)?;
        self.suspend_noflush()?;
        self.resume()
    }

    /// The status line of the live table's only target, without start, length and name.
    pub fn status(&self) -> Result<String> {
        Self::status_of(&self.name)
    }

    /// The same of a device of this name.
    pub fn status_of(name: &str) -> Result<String> {
        Self::text(name, 0)
    }

    /// The table line of the live table's only target, without start, length and name.
    pub fn table(&self) -> Result<String> {
        Self::text(&self.name, TABLE)
    }

    /// The same of an inactive table.
    pub fn inactive_table(&self) -> Result<String> {
        Self::text(&self.name, TABLE | INACTIVE)
    }

    fn text(name: &str, flags: u32) -> Result<String> {
        // NOFLUSH keeps the kernel from flushing what it has not been asked to.
        let packet =
            call(TABLE_STATUS, name, flags | NOFLUSH, |_| Ok(())).context("cannot read status")?;
        ensure!(
            packet.header.flags & BUFFER_FULL == 0,
            "status does not fit"
        );
        ensure!(
            packet.header.target_count == 1,
            "{} targets in the table",
            packet.header.target_count
        );
        let start = packet.header.data_start as usize - HEADER + 40;
        let text = packet.data[start..]
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Number of the last event.
    pub fn event(&self) -> Result<u32> {
        Ok(call(STATUS, &self.name, 0, |_| Ok(()))
            .context("cannot read the event number")?
            .header
            .event_nr)
    }

    /// Waits for an event after the one of this number.
    pub fn event_after(&self, number: u32) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(60);
        while self.event()? <= number {
            ensure!(Instant::now() < until, "no event after the {number}th");
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Sends a message to the target at sector 0.
    pub fn message(&self, text: &str) -> Result<()> {
        Self::tell(&self.name, text)
    }

    /// The same to a device of this name.
    pub fn tell(name: &str, text: &str) -> Result<()> {
        call(MESSAGE, name, 0, |packet| {
            ensure!(8 + text.len() < ROOM, "message too long");
            packet.data[8..8 + text.len()].copy_from_slice(text.as_bytes());
            Ok(())
        })
        .with_context(|| format!("cannot send the message {text:?}"))?;
        Ok(())
    }

    /// Removes the device; waits a little for a last user, such as a reader of its sysfs files.
    pub fn remove(&self) -> Result<()> {
        for _ in 0..50 {
            match call(REMOVE, &self.name, 0, |_| Ok(())) {
                Ok(_) => return Ok(()),
                Err(error) if is_errno(&error, rustix::io::Errno::BUSY) => {
                    sleep(Duration::from_millis(20))
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot remove {}", self.name));
                }
            }
        }
        bail!("{} stays busy", self.name)
    }
}

/// A suspended device, resumed when this goes out of scope.
pub struct Suspended<'a>(&'a Dm);

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.resume() {
            println!("     {error:#}");
        }
    }
}

impl Drop for Dm {
    fn drop(&mut self) {
        if let Err(error) = self.remove()
            && !is_errno(&error, rustix::io::Errno::NXIO)
        {
            println!("     {error:#}");
        }
    }
}

/// Whether an error is this one of the kernel's.
pub fn is_errno(error: &anyhow::Error, errno: rustix::io::Errno) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.raw_os_error() == Some(errno.raw_os_error()))
}

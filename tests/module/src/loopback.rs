// SPDX-License-Identifier: GPL-3.0-or-later
//! Loop devices over files in memory.
//!
//! null_blk with blocks of 4096 bytes loses data of requests whose pages do not begin at such a block, which real
//! disks take, so disks with large blocks are loop devices.

use std::ffi::c_void;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr;

use anyhow::{Context, Result};
use rustix::ioctl::{Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl};

const GET_FREE: Opcode = 0x4c82;
const CONFIGURE: Opcode = 0x4c0a;
const CLEAR: Opcode = 0x4c01;

/// `struct loop_config` of linux/loop.h; all of the `loop_info64` within stays zero.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: [u64; 29],
    reserved: [u64; 8],
}

struct GetFree;

// SAFETY: the ioctl takes no argument and returns a number.
unsafe impl Ioctl for GetFree {
    type Output = i32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        GET_FREE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        ptr::null_mut()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(out)
    }
}

/// A loop device, detached when it goes out of scope; its file goes with it.
pub struct Loop {
    node: PathBuf,
    file: PathBuf,
}

impl Loop {
    /// A device of `bytes` zeroes with this logical block size.
    pub fn new(name: &str, bytes: u64, block_size: u32) -> Result<Self> {
        let path = Path::new("/mnt").join(name);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        file.set_len(bytes)?;
        drop(file);
        Self::over(&path, block_size)
    }

    /// A device over an existing file.
    pub fn over(path: &Path, block_size: u32) -> Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let control = File::options()
            .read(true)
            .write(true)
            .open("/dev/loop-control")
            .context("cannot open /dev/loop-control")?;
        // SAFETY: see `GetFree`.
        let number = unsafe { ioctl(&control, GetFree) }.context("no free loop device")?;
        let node = PathBuf::from(format!("/dev/loop{number}"));
        let device = Self {
            node,
            file: path.to_owned(),
        };
        let config = Config {
            fd: u32::try_from(file.as_raw_fd())?,
            block_size,
            info: [0; 29],
            reserved: [0; 8],
        };
        // SAFETY: the ioctl reads a `struct loop_config`.
        unsafe { ioctl(device.open()?, Setter::<CONFIGURE, Config>::new(config)) }
            .context("cannot configure a loop device")?;
        Ok(device)
    }

    fn open(&self) -> Result<File> {
        File::options()
            .read(true)
            .write(true)
            .open(&self.node)
            .with_context(|| format!("cannot open {}", self.node.display()))
    }

    /// The node.
    pub fn path(&self) -> &Path {
        &self.node
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let cleared = self.open().and_then(|device| {
            // SAFETY: the ioctl takes no argument.
            unsafe { ioctl(device, NoArg::<CLEAR>::new()) }.context("cannot detach a loop device")
        });
        if let Err(error) = cleared.and_then(|()| Ok(fs::remove_file(&self.file)?)) {
            println!("     {}: {error:#}", self.node.display());
        }
    }
}

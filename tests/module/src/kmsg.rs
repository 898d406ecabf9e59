// SPDX-License-Identifier: GPL-3.0-or-later
//! What the kernel says: the reasons of refusals, and the reports of its own detectors.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Beginnings of reports that no run may contain.
const SPLATS: &[&str] = &[
    "BUG:",
    "WARNING:",
    "UBSAN:",
    "kernel BUG at",
    "Oops",
    "general protection fault",
    "INFO: possible",
    "INFO: suspicious",
    "INFO: task",
    "INFO: trying to register",
    "rcu: INFO:",
    "refcount_t:",
    "list_add corruption",
    "list_del corruption",
    "ODEBUG:",
    "soft lockup",
    "unreferenced object",
    "Object already free",
    "stack segment",
    "Bad page",
];

/// Reads records as they come.
pub struct Kmsg(File);

impl Kmsg {
    /// Starts behind the records that are there already: nothing of ours runs while the kernel boots.
    pub fn open() -> Result<Self> {
        let mut file = File::options()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open("/dev/kmsg")
            .context("cannot open /dev/kmsg")?;
        file.seek(SeekFrom::End(0))
            .context("cannot skip what the kernel said at its start")?;
        Ok(Self(file))
    }

    /// The texts of the records since the last call.
    pub fn new_lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]);
                    let text = text.split_once(';').map_or("", |(_, text)| text);
                    lines.push(text.lines().next().unwrap_or_default().to_owned());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return lines,
                // Records were lost; the console has them.
                Err(error) if error.raw_os_error() == Some(Errno::PIPE.raw_os_error()) => {}
                Err(_) => return lines,
            }
        }
    }
}

/// The first report of a detector among these lines.
pub fn splat(lines: &[String]) -> Option<&String> {
    lines
        .iter()
        .find(|line| SPLATS.iter().any(|splat| line.contains(splat)))
}

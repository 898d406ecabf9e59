// SPDX-License-Identifier: GPL-3.0-or-later
//! Commands that scenarios run in the guest besides clicks: as its user, to read counters, to compare devices.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::image::USER;
use crate::vm::Vm;

/// Longest run of a command in the guest that moves little data.
pub const SHORT: Duration = Duration::from_secs(60);
/// Longest run of a command in the guest that reads or writes a whole disk.
pub const LONG: Duration = Duration::from_secs(300);
/// Mount point of the partition in the guest's fstab.
pub const MOUNT_POINT: &str = "/home/anna/Archive";

/// Sectors of 512 bytes that a disk has read and written, by its own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sectors {
    /// Read from the disk.
    pub read: u64,
    /// Sectors written to the disk.
    pub written: u64,
}

impl std::ops::Sub for Sectors {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            read: self.read - other.read,
            written: self.written - other.written,
        }
    }
}

impl Vm {
    /// Runs a command line as the guest's user, with the user's session around it.
    pub fn as_user(&mut self, line: &str, limit: Duration) -> Result<String> {
        self.agent.sh(&user_line(line), limit)
    }

    /// The device of a disk by its serial number, such as `sda`: names change, serial numbers do not.
    pub fn device(&mut self, serial: &str) -> Result<String> {
        let script = format!(
            "while :; do n=$(lsblk -dno NAME,SERIAL | awk '$2 == \"{serial}\" {{ print $1 }}'); \
             [ -n \"$n\" ] && break; sleep 0.05; done; udevadm settle; echo $n"
        );
        let name = self.agent.sh(&script, SHORT);
        let name = name.with_context(|| format!("the guest has no disk {serial}"))?;
        Ok(name.trim().to_owned())
    }

    /// The counters of a disk, from /sys/block/*/stat.
    pub fn sectors(&mut self, device: &str) -> Result<Sectors> {
        let text = self
            .agent
            .sh(&format!("cat /sys/block/{device}/stat"), SHORT)?;
        let field = |index: usize| -> Result<u64> {
            text.split_whitespace()
                .nth(index)
                .context("a stat line has more fields")?
                .parse()
                .context("a counter is a number")
        };
        Ok(Sectors {
            read: field(2)?,
            written: field(6)?,
        })
    }

    /// Mounts the partition as the guest's fstab says.
    pub fn mount(&mut self) -> Result<()> {
        self.agent
            .sh(
                "udevadm settle; systemctl start home-anna-Archive.mount && chown -R 1000:1000 /home/anna/Archive/*KiB",
                SHORT,
            )
            .map(drop)
    }

    /// A checksum of every file on the partition.
    pub fn checksums(&mut self) -> Result<String> {
        self.as_user(
            &format!(
                "cd {MOUNT_POINT} && find ./*KiB -name '*.bin' -print0 | sort -z | xargs -0 cksum"
            ),
            LONG,
        )
    }

    /// Forgets all file contents that the guest's memory holds, so that the next read goes to the device.
    pub fn drop_page_cache(&mut self) -> Result<()> {
        self.agent
            .sh("sync; echo 3 >/proc/sys/vm/drop_caches", SHORT)
            .map(drop)
    }
}

/// A command line that runs as the guest's user within the user's session.
pub fn user_line(line: &str) -> String {
    let quoted = line.replace('\'', "'\\''");
    format!(
        "setpriv --reuid={USER} --regid={USER} --init-groups env HOME=/home/{USER} XDG_RUNTIME_DIR=/run/user/1000 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus \
         DISPLAY=:0 LANG=C.UTF-8 sh -c '{quoted}'"
    )
}

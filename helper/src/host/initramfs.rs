// SPDX-License-Identifier: GPL-3.0-or-later
//! Has the initial file systems made anew: see [`crate::machine::initramfs`].

use crate::host::systemd;
use std::path::Path;
use std::time::Duration;
use tandem_api::{Failure, Kind};
use zbus::Connection;

/// A tool that makes initial file systems.
struct Tool {
    /// Files that are all there where the tool is in use. dracut may bring an `update-initramfs` of its own, and
    /// `mkinitramfs` may be left over from before dracut was installed.
    programs: &'static [&'static str],
    /// The file of ours that the tool runs to put the cache into an initial file system.
    hook: &'static str,
    /// The unit that has the tool make the initial file systems of all kernels anew. The sandbox of the service does
    /// not allow that.
    unit: &'static str,
    /// How long the service waits for the unit: a minute longer than systemd, so that the answer is the unit's own.
    limit: Duration,
}

/// The tools that are known. Where there are several, the first one makes what the machine starts from: the others
/// are there without their packages' hooks for new kernels.
const TOOLS: [Tool; 2] = [
    Tool {
        programs: &["/usr/sbin/mkinitramfs", "/usr/sbin/update-initramfs"],
        hook: "/usr/share/initramfs-tools/hooks/tandem",
        unit: "tandem-initramfs.service",
        limit: Duration::from_secs(11 * 60),
    },
    Tool {
        programs: &["/usr/bin/dracut"],
        hook: "/usr/lib/dracut/modules.d/90tandem/module-setup.sh",
        unit: "tandem-dracut.service",
        limit: Duration::from_secs(21 * 60),
    },
];

/// The tool that makes this machine's initial file systems, if it puts caches into them.
fn tool() -> Option<&'static Tool> {
    let there = |tool: &&Tool| tool.programs.iter().all(|file| Path::new(file).exists());
    let made_by = TOOLS.iter().find(there);
    made_by.filter(|tool| Path::new(tool.hook).exists())
}

/// Whether this machine has a tool that makes initial file systems which assemble caches.
pub fn can_assemble() -> bool {
    tool().is_some()
}

/// Has the initial file systems of all kernels made anew.
///
/// # Errors
/// `StepFailed` if there is no tool or the tool fails. The initial file systems of before stay then.
pub async fn update(connection: &Connection) -> Result<(), Failure> {
    let failed = |why: String| {
        Failure::new(Kind::StepFailed).detail(format_args!(
            "the initial file systems are as before: {why}"
        ))
    };
    let Tool { unit, limit, .. } =
        tool().ok_or_else(|| failed("no known tool makes them".to_owned()))?;
    let started = systemd::start_within(connection, unit, *limit).await;
    started.map_err(|e| failed(format!("{e}; “journalctl -u {unit}” tells why")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Minutes that a unit may take to start.
    fn minutes(unit: &str) -> u64 {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/systemd");
        let text = fs::read_to_string(file.join(unit)).unwrap();
        let limit = text
            .lines()
            .find_map(|l| l.strip_prefix("TimeoutStartSec="));
        limit.unwrap().strip_suffix("min").unwrap().parse().unwrap()
    }

    #[test]
    fn the_service_waits_longer_for_a_unit_than_systemd_does() {
        for tool in TOOLS {
            let limit = Duration::from_secs(60 * (minutes(tool.unit) + 1));
            assert_eq!(tool.limit, limit, "{}", tool.unit);
        }
        for unit in ["tandem-grub.service", "tandem-names.service"] {
            assert!(systemd::LIMIT > Duration::from_secs(60 * minutes(unit)));
        }
    }
}

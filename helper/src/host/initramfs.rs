// SPDX-License-Identifier: GPL-3.0-or-later
//! Has the initial file systems made anew: see [`crate::machine::initramfs`].

use crate::host::systemd;
use std::path::Path;
use tandem_api::distribution::{INITRAMFS_TOOLS, InitramfsTool};
use tandem_api::{Failure, Kind};
use tokio::sync::Mutex;
use zbus::Connection;

/// Held while the unit runs. systemd takes a start of a unit that is just starting for the same start: what came since would
/// not get into the initial file systems that are made already.
static RUNS: Mutex<()> = Mutex::const_new(());

/// The tool that makes this machine's initial file systems, if it puts caches into them.
fn tool() -> Option<&'static InitramfsTool> {
    let there = |tool: &&InitramfsTool| tool.programs.iter().all(|file| Path::new(file).exists());
    let made_by = INITRAMFS_TOOLS.iter().find(there);
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
    let InitramfsTool { unit, limit, .. } =
        tool().ok_or_else(|| failed("no known tool makes them".to_owned()))?;
    let _runs = RUNS.lock().await;
    let started = systemd::start_within(connection, unit, *limit).await;
    started.map_err(|e| failed(format!("{e}; “journalctl -u {unit}” tells why")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

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
        for tool in INITRAMFS_TOOLS {
            let limit = Duration::from_secs(60 * (minutes(tool.unit) + 1));
            assert_eq!(tool.limit, limit, "{}", tool.unit);
        }
        for unit in ["tandem-grub.service", "tandem-names.service"] {
            assert!(systemd::LIMIT > Duration::from_secs(60 * minutes(unit)));
        }
    }
}

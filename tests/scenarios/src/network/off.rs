// SPDX-License-Identifier: GPL-3.0-or-later
//! The machine is shut down while the network is cut and a program has just written: the cache keeps it on no longer than the disk
//! alone does. Both kinds give up at last here. NBD without a limit of its own never does, and keeps the machine on, with or without
//! a cache.

use anyhow::{Context, Result, ensure};
use std::time::Duration;

use super::{CACHED, Kind, began, machine};
use tandem_guest::guest::LONG;
use tandem_guest::vm::{POWER_OFF, Parts, Vm};
use tandem_harness::layer::Run;

/// Longest shutdown: systemd waits up to 90 s for a program, for an unmount, and at its very end.
const LIMIT: Duration = Duration::from_secs(600);
/// What the cache may add, in seconds: its own steps at the end of a shutdown have 15. NBD gives up after 60, and a request that
/// finds the connection's buffer full begins that time anew: whether one does depends on the order of the writes.
const MORE: f64 = 80.0;
/// The network is cut while data waits to be written. Prints the seconds since the start of the machine.
const CUT: &str = r#"set -e
dd if=/dev/urandom of=/srv/net/late bs=64k count=64 status=none
busybox ip link set lo down
dd if=/dev/urandom of=/srv/net/later bs=64k count=64 status=none
cut -d" " -f1 /proc/uptime"#;
/// What the kernel says last.
const LAST: &str = "] reboot: Power down";

/// Compares the shutdown of the disk alone with that of the disk under its cache.
pub(super) fn is_no_longer(parts: &Parts, kind: &Kind, run: &Run) -> Result<()> {
    let kind = &Kind {
        connect: kind.patient,
        ..*kind
    };
    let (mut plain, _ssd, _scratch) = machine(parts, run)?;
    began(&mut plain, kind, run)?;
    let plain = seconds(plain, run)?;
    let (mut cached, ssd, _scratch) = machine(parts, run)?;
    let disk = began(&mut cached, kind, run)?;
    let create = format!("tandemctl create --yes --erase-ssd {disk} {ssd}");
    cached.agent.sh(&create, LONG)?;
    cached.agent.sh(CACHED, LONG)?;
    let cached = seconds(cached, run)?;
    run.note(&format!(
        "off after {plain:.0} s without a cache, after {cached:.0} s with"
    ));
    ensure!(
        cached <= plain + MORE,
        "the shutdown took {cached:.0} s with the cache, {plain:.0} s without"
    );
    Ok(())
}

/// Seconds of the guest from the order until the machine is off.
fn seconds(mut vm: Vm, run: &Run) -> Result<f64> {
    let begun: f64 = vm.agent.sh(CUT, LONG)?.trim().parse()?;
    let console = vm.off_within(POWER_OFF, LIMIT)?;
    run.note(&console);
    let last = console.lines().rev().find_map(|line| line.split_once(LAST));
    let (time, _) = last.context("the kernel does not say that it powers down")?;
    let (_, time) = time
        .rsplit_once('[')
        .context("the kernel's line has no time")?;
    Ok(time.trim().parse::<f64>()? - begun)
}

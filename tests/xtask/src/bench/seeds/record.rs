// SPDX-License-Identifier: GPL-3.0-or-later
//! Records what the start of a desktop and the scan of a home directory ask of a disk, in a virtual machine.
//!
//! The guest's kernel traces the requests that it hands to the disk. A recording has them in blocks of 4 KiB, without their
//! times: who plays it asks as fast as the disk answers.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use tandem_guest::disks::{self, Scratch};
use tandem_guest::guest::LONG;
use tandem_guest::vm::{Parts, Vm};
use tandem_harness::cx::{Cx, say};

/// Longest start, on a disk that seeks.
const BOOT: Duration = Duration::from_secs(1200);
/// Requests a second of the root disk: with fewer, more requests are in its queue, as on a real one.
const DISK_IOPS: u64 = 120;
/// The kernel's buffer has room for the whole start.
const TRACE: &str = "trace_event=block:block_rq_issue,block:block_rq_complete trace_buf_size=32M";
/// A script that ends when a panel stands on the desktop and the root disk was not read for five seconds.
const DESKTOP: &str = r#"systemctl is-system-running --wait
until pgrep -x openbox >/dev/null; do sleep 0.5; done
PANEL >/dev/null 2>&1 &
was=; while is=$(cut -d' ' -f1-15 /sys/block/vda/stat | awk '{ print $1 }'); [ "$is" != "$was" ]; do was=$is; sleep 5; done"#;
const PANEL: &str = "xfce4-panel";
/// A home directory: 4000 directories in each other, into which 50000 files came in no order over the time. Files are
/// allocated and not written: a scan reads no contents.
const FILL: &str = r#"mkfs.ext4 -q /dev/HOME && mount /dev/HOME /mnt && perl -e '
srand(1); my @d = ("/mnt");
for (1 .. 4000) { my $d = $d[int(rand(@d))] . "/folder$_"; mkdir $d or die; push @d, $d; }
for (1 .. 50000) { open(F, ">", $d[int(rand(@d))] . "/file$_") or die;
	syscall(285, fileno(F), 0, 0, 1 + int(exp(rand(12)))) == 0 or die "fallocate"; }' && umount /mnt"#;
/// The scan, of a disk that nobody has read yet.
const SCAN: &str = "mount -o noatime /dev/HOME /mnt && echo >/sys/kernel/tracing/trace && \
     find /mnt -printf '%s %t %p\\n' | sort | tail -n 1";
const READ: &str = "mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing; \
     grep -E 'block_rq_(issue|complete): MAJOR ' /sys/kernel/tracing/trace";

/// Requests of one disk, in blocks of 4 KiB.
#[derive(Debug, PartialEq)]
struct Recording {
    words: Vec<String>,
    read_kib: u64,
    written_kib: u64,
    /// Requests in the queue when one was added, that one too, in the mean.
    depth: f64,
}

/// Makes both recordings anew.
pub fn command(cx: &Cx) -> Result<()> {
    let mut parts = Parts::get(cx)?;
    parts.append = TRACE;
    let scratch = Scratch::new()?;
    parts.copy_root(scratch.path())?;
    let home = disks::empty(
        scratch.path(),
        "HOME0001",
        0x5000_c500_0000_0009,
        4096,
        false,
    )?;
    let mut vm = Vm::power_on(cx, &parts, scratch.path())?;
    let limit = json!({ "device": "root", "bps": 0, "bps_rd": 0, "bps_wr": 0,
        "iops": DISK_IOPS, "iops_rd": 0, "iops_wr": 0 });
    vm.qmp.run("block_set_io_throttle", limit)?;
    vm.plug(&home)?;
    vm.up(BOOT)?;
    let panel = tandem_guest::guest::user_line(PANEL);
    vm.agent.sh(&DESKTOP.replace("PANEL", &panel), BOOT)?;
    keep(
        cx,
        &mut vm,
        "vda",
        "desktop",
        "start of a desktop until its panel stands",
    )?;
    let name = vm.device(home.serial)?;
    vm.agent.sh(&FILL.replace("HOME", &name), BOOT)?;
    vm.agent.sh(&SCAN.replace("HOME", &name), LONG)?;
    keep(
        cx,
        &mut vm,
        &name,
        "home",
        "scan of a home directory of 4000 folders and 50000 files",
    )
}

fn keep(cx: &Cx, vm: &mut Vm, disk: &str, name: &str, about: &str) -> Result<()> {
    let numbers = vm.agent.sh(&format!("cat /sys/block/{disk}/dev"), LONG)?;
    let numbers = numbers.trim().replace(':', ",");
    let told = vm.agent.sh(&READ.replace("MAJOR", &numbers), LONG)?;
    let recording = Recording::of(&told)?;
    ensure!(
        recording.words.len() > 100,
        "{name}: hardly a request: {told}"
    );
    let path = cx.path("tests/bench/seeds").join(name);
    fs::write(&path, recording.text(about)?)?;
    say(format!("written to {}", path.display()));
    Ok(())
}

impl Recording {
    /// From the lines of the kernel's trace: `... block_rq_issue: 254,0 RA 4096 () 2048 + 8 [comm]`.
    fn of(trace: &str) -> Result<Self> {
        let (mut words, mut in_flight, mut sum) = (Vec::new(), 0_u64, 0);
        let (mut read_kib, mut written_kib) = (0, 0);
        for line in trace.lines() {
            let (_, event) = line.split_once("block_rq_").context(line.to_owned())?;
            let (event, rest) = event.split_once(": ").context(line.to_owned())?;
            let kind = rest.split_whitespace().nth(1).context(line.to_owned())?;
            let verb = if kind.contains('W') { "w" } else { "" };
            let (before, after) = rest.rsplit_once(" + ").context(line.to_owned())?;
            let sector = before.rsplit(' ').next().context(line.to_owned())?;
            let count = after.split(' ').next().context(line.to_owned())?;
            let (sector, count) = (sector.parse::<u64>()?, count.parse::<u64>()?);
            if count == 0 || !(kind.contains('R') || kind.contains('W')) {
                continue; // a flush, or a discard
            }
            if event == "complete" {
                in_flight = in_flight.saturating_sub(1);
                continue;
            }
            in_flight += 1;
            sum += in_flight;
            let (first, end) = (sector / 8, (sector + count).div_ceil(8));
            let kib = if verb.is_empty() {
                &mut read_kib
            } else {
                &mut written_kib
            };
            *kib += (end - first) * 4;
            words.push(format!("{verb}{first}+{}", end - first));
        }
        let depth = sum as f64 / words.len().max(1) as f64;
        Ok(Self {
            words,
            read_kib,
            written_kib,
            depth,
        })
    }

    fn text(&self, about: &str) -> Result<String> {
        let mut text = format!(
            "# SPDX-License-Identifier: GPL-3.0-or-later\n\
             # {about}: {} requests, {} KiB read, {} KiB written, {:.1} at a time in the mean.\n\
             # Recorded by `cargo xtask bench seeds --record`. FIRST+COUNT in blocks of 4 KiB; w: a write.\n",
            self.words.len(),
            self.read_kib,
            self.written_kib,
            self.depth
        );
        for line in self.words.chunks(14) {
            writeln!(text, "{}", line.join(" "))?;
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::Recording;

    #[test]
    fn requests_are_taken_from_the_trace_in_whole_blocks() {
        let trace = "\
 a-1 [000] d.. 1.1: block_rq_issue: 254,0 RA 4096 () 2048 + 8 [systemd]
 a-1 [000] d.. 1.2: block_rq_issue: 254,0 WS 1024 () 4098 + 2 [jbd2/vda-8]
 a-1 [000] d.. 1.3: block_rq_complete: 254,0 RA () 2048 + 8 [0]
 a-1 [000] d.. 1.4: block_rq_issue: 254,0 FF 0 () 0 + 0 [kworker]
 a-1 [000] d.. 1.5: block_rq_issue: 254,0 R 8192 () 4108 + 16 [X]";
        let recording = Recording::of(trace).unwrap();
        assert_eq!(recording.words, ["256+1", "w512+1", "513+3"]);
        assert_eq!((recording.read_kib, recording.written_kib), (16, 4));
        assert!((recording.depth - 5.0 / 3.0).abs() < 1e-9);
    }
}

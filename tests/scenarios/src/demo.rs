// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask demo`: the main job by clicks in the virtual machine, from a slow disk to a fast one and back.
//!
//! All changes of the cache are clicks in the app. The scripts in this file do in the guest what the person does
//! besides the app, mounting the disk and reading files, and they prove that the cache works.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use tandem_guest::agent::Agent;
use tandem_guest::disks;
use tandem_guest::guest::{LONG, MOUNT_POINT, SHORT, Sectors, user_line};
use tandem_guest::image::PASSWORD;
use tandem_guest::vm::{Parts, Screen, Vm};
use tandem_harness::cx::{Cx, say};
use tandem_harness::deps;
use tandem_harness::report::Report;

/// Longest run of the driver. Each of its waits has a limit of its own; this is longer than many of them in a row on a
/// slow machine.
const DRIVER_LIMIT: Duration = Duration::from_secs(900);
/// Reads of all files after the first, at most, until the SSD has all of them. A read that meets a write or a copy of the
/// same place, or finds no memory, leaves no copy there.
const READS: [&str; 5] = ["second", "third", "fourth", "fifth", "sixth"];

/// Arguments of `cargo xtask demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Show the virtual machine in a window, and leave it to you when the demonstration is over.
    #[arg(long)]
    interactive: bool,
}

/// `cargo xtask demo`.
pub fn command(cx: &Cx, args: &Args) -> Result<()> {
    deps::ensure(deps::GUEST)?;
    let screen = if args.interactive {
        Screen::Window
    } else {
        Screen::Hidden
    };
    let display = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    ensure!(
        display || !args.interactive,
        "--interactive shows a window, and there is no display here"
    );
    let vm = once(cx, screen, "demo")?;
    if args.interactive {
        say("the machine is yours; close its window to end");
        vm.until_closed()?;
    }
    Ok(())
}

/// Shows the demonstration once in a fresh machine, which is returned. Report and pictures are in `target/<name>`.
pub fn once(cx: &Cx, screen: Screen, name: &str) -> Result<Vm> {
    let start = Instant::now();
    let parts = Parts::get(cx)?;
    let mut vm = Vm::installed(cx, &parts, screen)?;
    let mut report = Report::new(
        &cx.target.join(name),
        "Tandem, from a slow disk to a fast one and back",
    )?;
    report.step(&format!(
        "a virtual machine with Debian 12, its kernel {} and a desktop, {}",
        parts.kernel.release,
        parts.accelerator()
    ));
    let scratch = disks::Scratch::new()?;
    let shown = Demo {
        vm: &mut vm,
        report: &mut report,
    }
    .run(&scratch);
    if let Err(error) = &shown {
        report.step(&format!("**it failed:** {error:#}"));
        let logs = "journalctl -b --no-pager -o short-monotonic | tail -40; dmsetup table";
        if let Ok(journal) = vm.agent.sh(logs, SHORT) {
            report.output(&journal);
        }
        let _ = report
            .picture("failure")
            .and_then(|file| vm.screenshot(&file));
    }
    let page = report.finish()?;
    say(format!(
        "the report with its pictures: {} ({} s in all; {} s of processor time for the machine)",
        page.display(),
        start.elapsed().as_secs(),
        vm.processor_time()?.as_secs()
    ));
    shown.map(|()| vm)
}

/// Opens the app as the user would.
pub fn start_app(vm: &mut Vm, report: &mut Report) -> Result<()> {
    vm.as_user(
        "systemd-run --user --quiet --collect --unit=tandem-app tandem",
        SHORT,
    )?;
    report.step("the user opens Tandem");
    Ok(())
}

/// Runs the driver: shows its steps, takes the pictures that it asks for, and returns its output.
pub fn drive(vm: &mut Vm, report: &mut Report, command: &str) -> Result<String> {
    let mut failure = None;
    let guest = vm.pid();
    let Vm {
        agent, second, qmp, ..
    } = vm;
    let ended = agent.run(
        &user_line(&format!("tandem-e2e {command}")),
        DRIVER_LIMIT,
        |line| {
            if let Some(step) = line.strip_prefix("STEP ") {
                report.step(
                    step.trim_start()
                        .split_once(' ')
                        .map_or(step, |(_, words)| words),
                );
            } else if let Some(name) = line.strip_prefix("SHOT ") {
                let taken = report.picture(name).and_then(|file| {
                    qmp.screenshot(&file)?;
                    let mut second = Agent::connect(second, guest)?;
                    // An empty redirection starts no program in the guest.
                    second.sh(&format!(": >/run/user/1000/shot-{name}"), SHORT)
                });
                failure = failure.take().or(taken.err());
            }
        },
    )?;
    if let Some(error) = failure {
        return Err(error);
    }
    if ended.code != 0 {
        bail!("the app does not show what it should: {}", ended.text);
    }
    Ok(ended.text)
}

/// Writes down that a test has failed, with a picture of the screen, and returns the end of the journal and the mappings.
pub fn show_failure(vm: &mut Vm, report: &mut Report, error: &anyhow::Error) -> String {
    report.step(&format!("**it failed:** {error:#}"));
    let _ = report
        .picture("failure")
        .and_then(|file| vm.screenshot(&file));
    let logs =
        "journalctl -b --no-pager -o short-monotonic | tail -60; dmsetup table; dmsetup status";
    vm.agent.sh(logs, SHORT).unwrap_or_default()
}

/// A demonstration under way.
struct Demo<'a> {
    vm: &'a mut Vm,
    report: &'a mut Report,
}

impl Demo<'_> {
    fn run(&mut self, scratch: &disks::Scratch) -> Result<()> {
        self.report
            .chapter("A hard disk full of files, and a spare SSD");
        let pair = disks::small_pair(scratch)?;
        self.vm.plug(&pair.origin)?;
        self.vm.plug(&pair.ssd)?;
        let disk = self.vm.device(pair.origin.serial)?;
        let ssd = self.vm.device(pair.ssd.serial)?;
        self.vm.mount()?;
        let listing = self.vm.agent.sh(
            "lsblk -o NAME,ROTA,SIZE,FSTYPE,LABEL,MODEL,MOUNTPOINTS /dev/sd?",
            SHORT,
        )?;
        self.report.output(&listing);
        let before = self.vm.checksums()?;
        let bytes = self.bytes()?;
        self.report.step(&format!(
            "{} files on the disk, {} bytes",
            before.lines().count(),
            bytes
        ));

        self.report.chapter("The wizard");
        start_app(self.vm, self.report)?;
        self.drive(&format!(
            "create --disk 'Archive*' --ssd '*{}*' --password {PASSWORD}",
            pair.ssd.product
        ))?;
        let (name, table) = self.assert_ours()?;

        self.report.chapter("The files, read twice");
        let first = self.read_files(&disk, &ssd)?;
        self.told("first read", first);
        let mut last = first;
        for number in READS {
            self.until_quiet(&name)?;
            last = self.read_files(&disk, &ssd)?;
            self.told(&format!("{number} read"), last);
            ensure!(
                last.0.read * 512 < bytes / 10,
                "the {number} read took {} sectors from the disk",
                last.0.read
            );
            if last.0.read == 0 {
                break;
            }
        }
        ensure!(
            last.0.read == 0,
            "the last read took {} sectors from the disk",
            last.0.read
        );
        ensure!(
            last.1.read * 512 >= bytes,
            "the last read took only {} sectors from the SSD",
            last.1.read
        );
        self.drive("show --shot 10-chart")?;

        self.report.chapter("Files changed through the cache");
        self.change_files()?;
        let after = self.vm.checksums()?;
        ensure!(
            before != after,
            "the changed files have the checksums of before"
        );
        self.same_bytes(&format!("/dev/{disk}1"), &format!("/dev/mapper/{name}"))?;
        self.report.output(&table);

        self.report.chapter("Flush and remove");
        self.drive(&format!("remove --password {PASSWORD}"))?;
        self.assert_plain(&disk, &ssd)?;
        self.vm.drop_page_cache()?;
        let last = self.vm.checksums()?;
        ensure!(
            last == after,
            "after the removal the files differ:\nbefore\n{after}\nnow\n{last}"
        );
        self.report
            .step("every file on the plain disk has the checksum that it had through the cache");
        Ok(())
    }

    fn drive(&mut self, command: &str) -> Result<()> {
        drive(self.vm, self.report, command).map(drop)
    }

    /// Proof that the kernel does what the app says: our module, our table.
    fn assert_ours(&mut self) -> Result<(String, String)> {
        let module = self
            .vm
            .agent
            .sh("grep '^dm_tandem ' /proc/modules", SHORT)?;
        let table = self.vm.agent.sh("dmsetup table --target tandem", SHORT)?;
        let name = table.split(':').next().unwrap_or_default().to_owned();
        ensure!(
            name.starts_with("tandem-"),
            "no device-mapper table is ours: {table}"
        );
        self.report
            .step(&format!("the module is loaded: {}", module.trim()));
        self.report.step(&format!(
            "the device-mapper table is ours: {}",
            table.trim()
        ));
        let mounted = self.vm.agent.sh(
            &format!("findmnt --noheadings --output SOURCE,TARGET {MOUNT_POINT}"),
            SHORT,
        )?;
        ensure!(
            mounted.contains(&name),
            "the file system is not mounted through the cache: {mounted}"
        );
        Ok((name, table))
    }

    /// Reads all files from the device, and returns the sectors that the disk and the SSD transferred.
    fn read_files(&mut self, disk: &str, ssd: &str) -> Result<(Sectors, Sectors)> {
        self.vm.drop_page_cache()?;
        let before = (self.vm.sectors(disk)?, self.vm.sectors(ssd)?);
        self.vm.as_user(
            &format!("find {MOUNT_POINT}/*KiB -name '*.bin' -exec cat {{}} + >/dev/null"),
            LONG,
        )?;
        Ok((
            self.vm.sectors(disk)? - before.0,
            self.vm.sectors(ssd)? - before.1,
        ))
    }

    fn told(&mut self, what: &str, (disk, ssd): (Sectors, Sectors)) {
        self.report.step(&format!(
            "{what}, after dropping the page cache: {} sectors from the disk, {} from the SSD",
            disk.read, ssd.read
        ));
    }

    /// Waits until the cache has stored what was read: until its counters stand still.
    fn until_quiet(&mut self, name: &str) -> Result<()> {
        let script = format!(
            "for _ in $(seq 100); do a=$(dmsetup status {name}); sleep 0.3; [ \"$a\" = \"$(dmsetup status {name})\" ] && exit 0; done; exit 1"
        );
        self.vm.agent.sh(&script, SHORT)?;
        let status = self.vm.agent.sh(&format!("dmsetup status {name}"), SHORT)?;
        self.report.output(&status);
        Ok(())
    }

    fn change_files(&mut self) -> Result<()> {
        let script = format!(
            "set -e; cd '{MOUNT_POINT}/1024 KiB'; for f in 00[0-3].bin; do \
             dd if=/dev/urandom of=$f bs=4k seek=7 count=33 conv=notrunc status=none; done; \
             dd if=/dev/urandom of=new.bin bs=1M count=3 status=none; rm 005.bin; sync"
        );
        self.vm.as_user(&script, SHORT)?;
        self.report
            .step("four files changed in part, one written anew, one deleted");
        Ok(())
    }

    /// While the file system is frozen, the plain partition and the mapped device must have the same bytes. Both are
    /// read past the page cache, because ext4 keeps bitmaps there that it has created and not written.
    fn same_bytes(&mut self, plain: &str, mapped: &str) -> Result<()> {
        let script = format!(
            "fsfreeze --freeze {MOUNT_POINT}; echo 3 >/proc/sys/vm/drop_caches; \
             tandem-same {plain} {mapped}; \
             code=$?; fsfreeze --unfreeze {MOUNT_POINT}; exit $code"
        );
        let same = self.vm.agent.sh(&script, LONG)?;
        self.report.step(&format!(
            "the partition equals the mapped device byte for byte, while the cache is full: {}",
            same.trim()
        ));
        Ok(())
    }

    /// Proof that the plain disk is back and the SSD free.
    fn assert_plain(&mut self, disk: &str, ssd: &str) -> Result<()> {
        let table = self.vm.agent.sh("dmsetup table", SHORT)?;
        ensure!(!table.contains("tandem"), "a mapping is left: {table}");
        let mounted = self.vm.agent.sh(
            &format!("findmnt --noheadings --output SOURCE,TARGET {MOUNT_POINT}"),
            SHORT,
        )?;
        ensure!(
            mounted.contains(&format!("/dev/{disk}1")),
            "the plain disk is not mounted: {mounted}"
        );
        let left = self.vm.agent.sh(
            &format!("head -c 1048576 /dev/{ssd} | tr -d '\\0' | wc -c"),
            SHORT,
        )?;
        ensure!(
            left.trim() == "0",
            "the SSD is not empty at its start: {left} bytes"
        );
        self.report
            .step("no mapping is left, the plain disk is mounted at its place, the SSD is free");
        Ok(())
    }

    /// Bytes in all files.
    fn bytes(&mut self) -> Result<u64> {
        let line = format!(
            "find {MOUNT_POINT}/*KiB -name '*.bin' -exec stat --format %s {{}} + | paste -sd+ | sed 's/^/echo $((/; s/$/))/' | sh"
        );
        let text = self.vm.as_user(&line, SHORT)?;
        text.trim()
            .parse()
            .with_context(|| format!("no number: {text}"))
    }
}

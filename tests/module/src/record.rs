// SPDX-License-Identifier: GPL-3.0-or-later
//! Records what the module does to its disks while file systems are written to above it, or boots what a cut left of
//! such a recording.
//!
//! `SUITE_RECORD` is `FILESYSTEM:MODE:SEED:DIRECTORY:NAME`, where the recording goes to `DIRECTORY/NAME.log` of the host;
//! the file system `raw` is none. `SUITE_RECORD_FROM` names a file with what the disks hold at first and the marks
//! until then, made by tests/record/check: nothing is written but what a start, a check and a stop write.

mod above;
mod below;
mod log;
mod nbd;
mod writers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tandem_record_log::{Device, Event, Head};

use crate::dm::{Dm, Line};
use crate::io::{self, SECTOR};
use crate::rig::Status;
use above::Above;
use below::{Below, Content};
use log::Log;
use writers::Promised;

const HEAD: Head = Head {
    disk_sectors: 128 << 11,
    ssd_sectors: 10 << 11,
};
/// The identity that the checker's build of core has in its superblocks.
const UUID: &str = "01000000000000000000000000000000";
const AT: &str = "/mnt/recorded";
const HOST: &str = "/mnt/host";
/// Operations of each writer in each of the two lives of a recording.
const OPERATIONS: usize = 120;

/// The mode of recordings in which it changes all the time.
const CHANGING: &str = "changing";
const MESSAGES: [&str; 6] = [
    "mode writethrough",
    "mode writearound",
    "mode writeback",
    "flush start",
    "flush stop",
    "drop",
];

struct Recording {
    filesystem: String,
    mode: String,
    seed: u64,
    log: Log,
    disk: PathBuf,
    ssd: PathBuf,
    promised: Promised,
}

/// Does what the variables ask for.
pub fn run(words: &str, from: &str) -> Result<()> {
    let words: Vec<&str> = words.split(':').collect();
    let [filesystem, mode, seed, directory, name] = words[..] else {
        bail!("SUITE_RECORD has {} words", words.len());
    };
    fs::create_dir_all(HOST)?;
    let options = std::ffi::CString::new(directory)?;
    mount(
        "none",
        HOST,
        "hostfs",
        MountFlags::empty(),
        options.as_c_str(),
    )
    .context("cannot mount the host's directory")?;
    let start = Instant::now();
    let log = Log::new(HEAD, &Path::new(HOST).join(format!("{name}.log")))?;
    let recording = Recording::begin(filesystem, mode, seed.parse()?, log, from)?;
    let told = match from {
        "" => recording.record(),
        _ => recording.boot(),
    };
    let saved = recording.log.finish();
    let seconds = start.elapsed().as_secs_f32();
    match told.and_then(|told| saved.map(|()| told)) {
        Ok(told) => println!("     {told}\nok   {name} ({seconds:.2} s)"),
        Err(error) => {
            println!("FAIL {name} ({seconds:.2} s): {error:#}");
            bail!("{name} failed");
        }
    }
    Ok(())
}

impl Recording {
    /// Makes the disks and serves them.
    fn begin(filesystem: &str, mode: &str, seed: u64, log: Log, from: &str) -> Result<Self> {
        let mut content = [
            Content::new(Device::Disk, HEAD.disk_sectors),
            Content::new(Device::Ssd, HEAD.ssd_sectors),
        ];
        let mut promised = Promised::default();
        if !from.is_empty() {
            give(Path::new(from), &mut content, &mut promised, &log)?;
        }
        let (disk, disk_requests) = nbd::attach(0, HEAD.disk_sectors, true)?;
        let (ssd, ssd_requests) = nbd::attach(1, HEAD.ssd_sectors, false)?;
        let below = Below::new(content, [disk_requests, ssd_requests], log.clone(), seed);
        thread::spawn(move || println!("FAIL the disks: {:?}", below.serve()));
        Ok(Self {
            filesystem: filesystem.to_owned(),
            mode: mode.to_owned(),
            seed,
            log,
            disk,
            ssd,
            promised,
        })
    }

    /// Two lives with a clean stop between them and at the end.
    fn record(&self) -> Result<String> {
        let mut told = Vec::new();
        for life in 0..2 {
            let cached = self.start(life == 0)?;
            if self.filesystem != "raw" && life == 0 {
                make(&self.filesystem, &cached.node)?;
            }
            thread::scope(|scope| {
                let node = &cached.node;
                let writers = scope.spawn(move || self.write(node, life));
                let mut rng = Rng::with_seed(self.seed + life);
                while self.mode == CHANGING && !writers.is_finished() {
                    let message = *rng.choice(&MESSAGES).unwrap_or(&MESSAGES[0]);
                    // Not every one is possible at any time.
                    if cached.mapped.message(message).is_ok() {
                        self.log.mark(message);
                    }
                    thread::sleep(Duration::from_millis(rng.u64(..400)));
                }
                writers.join().ok().context("the writers panicked")?
            })?;
            if self.mode == CHANGING {
                drain(&cached.mapped)?;
            }
            let status = self.stop(cached)?;
            for name in [
                "evictions",
                "drained",
                "groups",
                "checkpoints",
                "marks_cleared",
            ] {
                told.push(format!("{name} {}", status.get(name)?));
            }
        }
        Ok(told.join(", "))
    }

    fn write(&self, node: &Path, life: u64) -> Result<()> {
        if self.filesystem == "raw" {
            let seed = self.seed + life;
            writers::raw(node, HEAD.disk_sectors, OPERATIONS * 4, seed)?;
            return Ok(io::direct(node)?.sync_all()?);
        }
        let mounted = Mount::new(&self.filesystem, node)?;
        writers::files(Path::new(AT), &self.log, life, OPERATIONS, self.seed)?;
        mounted.end()
    }

    /// Recovers, looks whether all is there, and checks the file system.
    fn boot(&self) -> Result<String> {
        let cached = self.start(false)?;
        let mounted = Mount::new(&self.filesystem, &cached.node)?;
        let kept = self.promised.kept(Path::new(AT))?;
        // Something new can be written.
        fs::write(Path::new(AT).join("after the cut"), [1; 10_000])?;
        mounted.end()?;
        check(&self.filesystem, &cached.node)?;
        self.stop(cached)?;
        Ok(format!("{kept} fsync'd files and blocks are there"))
    }

    /// Maps the cache and serves the device above it.
    fn start(&self, format: bool) -> Result<Cached> {
        let words = match format {
            true => format!("6 uuid {UUID} origin_id 01 format new"),
            false => format!("4 uuid {UUID} origin_id 01"),
        };
        let mode = match self.mode.as_str() {
            CHANGING => "writeback",
            mode => mode,
        };
        let (disk, ssd) = (self.disk.display(), self.ssd.display());
        let args = format!("{disk} {ssd} {mode} {words}");
        let mapped = Dm::with("recorded", Line::new(HEAD.disk_sectors, "tandem", args))?;
        self.log.mark(&format!("started {mode}"));
        let number = if format { 2 } else { 3 };
        let (node, requests) = nbd::attach(number, HEAD.disk_sectors, true)?;
        let above = Above::new(io::direct(mapped.path())?, requests, self.log.clone())?;
        Ok(Cached {
            mapped,
            node,
            server: thread::spawn(move || above.serve()),
        })
    }

    /// Stops the cache, and notes what must be warm at the next start.
    fn stop(&self, cached: Cached) -> Result<Status> {
        nbd::detach(&cached.node)?;
        cached.server.join().ok().context("the server panicked")??;
        self.log.mark("stopping");
        cached.mapped.suspend()?;
        let status = Status::parse(&cached.mapped.status()?)?;
        cached.mapped.remove()?;
        let Status {
            used, dirty, mode, ..
        } = &status;
        self.log.mark(&format!("stopped {used} {dirty} {mode}"));
        Ok(status)
    }
}

/// Goes on in write-through until nothing is dirty, so that the stop makes the superblock say clean.
fn drain(mapped: &Dm) -> Result<()> {
    mapped.message("mode writethrough")?;
    mapped.message("flush start")?;
    let until = Instant::now() + Duration::from_secs(60);
    while Status::parse(&mapped.status()?)?.dirty > 0 {
        ensure!(Instant::now() < until, "the cache does not drain");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// A cache that is served under a name of its own.
struct Cached {
    mapped: Dm,
    node: PathBuf,
    server: thread::JoinHandle<Result<()>>,
}

/// Puts what was there before onto the disks and into the log.
fn give(from: &Path, content: &mut [Content; 2], promised: &mut Promised, log: &Log) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    let (head, events) = tandem_record_log::read(&bytes)?;
    ensure!(head == HEAD, "{} is of other disks", from.display());
    for event in events {
        match event {
            Event::Begin(_, request) => {
                let disk = usize::from(request.device == Device::Ssd);
                let offset = request.sector * SECTOR as u64;
                content[disk].write(offset, request.data.len(), request.data);
                log.given(request)?;
            }
            Event::End(_) => {}
            Event::Mark(mark) => promised.add(mark)?,
        }
    }
    log.mark("given");
    Ok(())
}

fn tool(program: &str, arguments: &[&str], node: &Path) -> Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .arg(node)
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    ensure!(
        output.status.success(),
        "{program}: {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn make(filesystem: &str, node: &Path) -> Result<()> {
    match filesystem {
        "ext4" => tool(
            "/sbin/mke2fs",
            &["-q", "-F", "-t", "ext4", "-E", "nodiscard"],
            node,
        ),
        // Small ones are not supported for everyday use.
        "xfs" => tool("/sbin/mkfs.xfs", &["-q", "-f", "-K", "--unsupported"], node),
        _ => tool("/sbin/mkfs.btrfs", &["-q", "-f", "-K"], node),
    }
}

fn check(filesystem: &str, node: &Path) -> Result<()> {
    match filesystem {
        "ext4" => tool("/sbin/e2fsck", &["-f", "-n"], node),
        "xfs" => tool("/sbin/xfs_repair", &["-n"], node),
        _ => tool(
            "/bin/btrfs",
            &["check", "--readonly", "--check-data-csum"],
            node,
        ),
    }
}

/// A mounted file system.
struct Mount;

impl Mount {
    fn new(filesystem: &str, node: &Path) -> Result<Self> {
        fs::create_dir_all(AT)?;
        let options = if filesystem == "ext4" {
            c"discard"
        } else {
            c""
        };
        mount(node, AT, filesystem, MountFlags::empty(), options)
            .with_context(|| format!("cannot mount {}", node.display()))?;
        Ok(Self)
    }

    fn end(self) -> Result<()> {
        unmount(AT, UnmountFlags::empty()).context("cannot unmount")
    }
}

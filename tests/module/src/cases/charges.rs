// SPDX-License-Identifier: GPL-3.0-or-later
//! Which cgroup pays for a request to a device, and which priority the request has: the user's, if the user waits for
//! the request; no user's, if the cache makes the request by itself and all users may wait for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::Entry;
use super::time::config as slow;
use super::writeback::config;
use crate::aio;
use crate::disk::Disk;
use crate::io::{self, MIB, SECTOR};
use crate::module;
use crate::rig::Rig;
use crate::skipped::Skipped;

// promise 33: uml-plain/charges: a cgroup pays for what its processes wait for, and for nothing else
pub const CASES: &[Entry] = &[(
    "charges: a cgroup pays for what its processes wait for, and for nothing else",
    paid,
)];

pub const TIMED: &[Entry] = &[(
    "time: a request that a worker submits has its user's priority",
    priority,
)];

const AT: &str = "/mnt/cgroup";

/// A cgroup whose requests are counted; gone, with this process back in the root, when it goes out of scope.
struct Group(PathBuf);

impl Group {
    fn new() -> Result<Self> {
        fs::create_dir_all(AT)?;
        mount("cgroup2", AT, "cgroup2", MountFlags::empty(), None)
            .map_err(|_| Skipped::because("this kernel has no cgroup2"))?;
        let group = Self(Path::new(AT).join("user"));
        fs::write(Path::new(AT).join("cgroup.subtree_control"), "+io")
            .map_err(|_| Skipped::because("this kernel counts no requests of cgroups"))?;
        fs::create_dir(&group.0)?;
        Ok(group)
    }

    /// Runs `act` with this process in the group.
    fn run(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        fs::write(self.0.join("cgroup.procs"), "0").context("cannot enter a cgroup")?;
        let result = act();
        fs::write(Path::new(AT).join("cgroup.procs"), "0").context("cannot leave a cgroup")?;
        result
    }

    /// Bytes that the group has read from a disk, and written to it.
    fn paid(&self, disk: &Disk) -> Result<(u64, u64)> {
        let name = disk.path().file_name().context("a node without a name")?;
        let number = fs::read_to_string(Path::new("/sys/block").join(name).join("dev"))?;
        let text = fs::read_to_string(self.0.join("io.stat"))?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{} ", number.trim())))
            .unwrap_or_default();
        let value = |name: &str| {
            let mut words = line.split(' ').filter_map(|word| word.split_once('='));
            let found = words.find(|(found, _)| *found == name);
            found.map_or(Ok(0), |(_, value)| value.parse())
        };
        Ok((value("rbytes")?, value("wbytes")?))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
        let _ = unmount(AT, UnmountFlags::empty());
    }
}

fn paid() -> Result<()> {
    const FRAME: usize = 16384;
    const EACH: usize = 8;
    let all = (FRAME * EACH) as u64;
    let group = Group::new()?;
    let (rig, mut model) = Rig::new(config())?;
    let file = io::direct(&rig.path()?)?;
    let check = |what: &str, disk: (u64, u64), ssd: (u64, u64)| {
        rig.quiet()?;
        let paid = (group.paid(&rig.origin)?, group.paid(&rig.ssd)?);
        ensure!(
            paid == (disk, ssd),
            "{what}: {paid:?} bytes of the disk and of the SSD, not {:?}",
            (disk, ssd)
        );
        anyhow::Ok(())
    };
    // What is read is stored on the SSD when the user has been answered.
    group.run(|| {
        (0..EACH).try_for_each(|number| {
            io::read(&file, (number * FRAME) as u64, FRAME)?;
            Ok(())
        })
    })?;
    check("reads of the disk", (all, 0), (0, 0))?;
    group.run(|| io::read(&file, 0, FRAME * EACH).map(drop))?;
    check("reads of the SSD", (all, 0), (all, 0))?;
    // A flush makes a record of the index, for everybody.
    group.run(|| {
        for start in (EACH..2 * EACH).map(|number| number * FRAME) {
            model[start..start + FRAME].fill(5);
            io::write(&file, start as u64, &model[start..start + FRAME])?;
        }
        Ok(file.sync_all()?)
    })?;
    check("writes to the SSD", (all, 0), (all, all))?;
    // The user waits for both rests of each quarter, of which a worker reads the second. Then a worker writes the SSD, for
    // nobody.
    let begin = |region| region * MIB;
    group.run(|| {
        for start in (1..=EACH).map(|region| begin(region) + 3 * SECTOR) {
            model[start..start + SECTOR].fill(8);
            io::write(&file, start as u64, &model[start..start + SECTOR])?;
        }
        Ok(())
    })?;
    let sectors = (SECTOR * EACH) as u64;
    let read = all + 7 * sectors;
    check("rests of quarters", (read, 0), (all, all))?;
    // Without promotion they go to the disk. Each waits for an intent mark, and a worker submits it. The first has a copy,
    // since its frame has a slot.
    rig.mapped()?.message("promotion off")?;
    group.run(|| {
        for start in (1..=EACH)
            .map(begin)
            .flat_map(|start| [start + 4096, start + 65536])
        {
            model[start..start + SECTOR].fill(6);
            io::write(&file, start as u64, &model[start..start + SECTOR])?;
        }
        Ok(())
    })?;
    check("writes to the disk", (read, 2 * sectors), (all, all))?;
    rig.mapped()?.message("promotion on")?;
    // The disk is what the user waits for; the SSD gets a copy.
    rig.mapped()?.message("mode writethrough")?;
    rig.wait_clean()?;
    group.run(|| {
        for start in (2 * EACH..3 * EACH).map(|number| number * FRAME) {
            model[start..start + FRAME].fill(7);
            io::write(&file, start as u64, &model[start..start + FRAME])?;
        }
        Ok(())
    })?;
    check(
        "writes to the disk, copied to the SSD",
        (read, 2 * sectors + all),
        (all, all),
    )?;
    drop(file);
    rig.equals(&model)
}

/// Classes of priority, as `ioprio_set` knows them.
const REAL_TIME: libc::c_int = 1;
const IDLE: libc::c_int = 3;

/// Gives this thread's requests a class of priority.
fn set_priority(class: libc::c_int) -> Result<()> {
    const PROCESS: libc::c_int = 1;
    // SAFETY: it takes no pointer.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, PROCESS, 0, class << 13) };
    ensure!(result == 0, "cannot set the priority of requests");
    Ok(())
}

fn priority() -> Result<()> {
    let result = in_order();
    // A loaded scheduler would be that of every disk that is made later.
    module::unload("mq_deadline")?;
    result
}

/// Writes of both classes wait for the intent marks of their regions, all at the same time; then the disk, which takes one
/// request at a time, has to choose.
fn in_order() -> Result<()> {
    const EACH: usize = 8;
    let mut config = slow(500);
    config.origin.single = true;
    config.ssd.delay_ns = 100_000_000;
    let (rig, mut model) = Rig::new(config)?;
    module::load(Path::new(&crate::variable("SUITE_SCHEDULER")), "")?;
    io::set_queue(rig.origin.path(), "scheduler", "mq-deadline")?;
    io::set_queue(rig.origin.path(), "nr_requests", "64")?;
    // Of writes it takes no more than there was room for before.
    io::set_queue(rig.origin.path(), "iosched/async_depth", "64")?;
    let file = io::direct(&rig.path()?)?;
    // A copy of each write is made for the slot, and goes to the disk, in write-back, too.
    for start in (0..2 * EACH).map(|region| region * MIB) {
        model[start..start + 4096].fill(6);
        io::write(&file, start as u64, &model[start..start + 4096])?;
    }
    rig.mapped()?.message("promotion off")?;
    let mut writes = Vec::new();
    for (class, first) in [(IDLE, 0), (REAL_TIME, EACH)] {
        set_priority(class)?;
        for start in (first..first + EACH).map(|region| region * MIB + 4096) {
            model[start..start + SECTOR].fill(7);
            let write = aio::Request::write(&file, start as u64, &model[start..start + SECTOR])?;
            writes.push((class, write));
        }
    }
    set_priority(0)?;
    let (sender, ended) = channel();
    let waiters = writes.into_iter().map(|(class, write)| {
        let sender = sender.clone();
        thread::spawn(move || {
            write.end()?;
            sender.send(class)?;
            anyhow::Ok(())
        })
    });
    for waiter in waiters.collect::<Vec<_>>() {
        waiter
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    drop(sender);
    let order: Vec<_> = ended.iter().collect();
    // The scheduler had to give the disk something before it knew all of them.
    ensure!(
        order[order.len() - EACH + 3..]
            .iter()
            .all(|class| *class == IDLE),
        "the classes of the writes in the order in which they ended: {order:?}"
    );
    drop(file);
    rig.equals(&model)
}

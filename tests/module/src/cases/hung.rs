// SPDX-License-Identifier: GPL-3.0-or-later
//! An SSD that does not answer at all holds up its own cache and no other cache.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::Entry;
use super::failures::{break_ssd, config};
use super::writeback::write_quarters;
use crate::beside::Blocked;
use crate::dm::Dm;
use crate::io;
use crate::rig::Rig;

pub const CASES: &[Entry] = &[(
    "hung: an SSD that does not answer holds up no other cache",
    others_go_on,
)];

/// Longer than anything that the other caches do; shorter than 60 s, after which the kernel reports a waiting thread.
const PATIENCE: Duration = Duration::from_secs(30);

/// Everything that concerns more than one cache: the caches' status, messages, a new cache, another table, a lost SSD.
fn life(mut other: Rig, mut model: Vec<u8>, hung: &str, step: &Sender<&'static str>) -> Result<()> {
    step.send("the status of the other cache")?;
    other.status()?;
    step.send("the status of the cache itself")?;
    Dm::status_of(hung)?;
    step.send("reads")?;
    let file = io::direct(&other.path()?)?;
    for _ in 0..2 {
        ensure!(
            io::read(&file, 0, io::MIB)?[..] == model[..io::MIB],
            "wrong data"
        );
    }
    step.send("a change to write-back")?;
    other.mapped()?.message("mode writeback")?;
    step.send("writes and a flush")?;
    write_quarters(&other, &mut model, 40, 1)?;
    file.sync_all()?;
    drop(file);
    step.send("a change to write-through")?;
    other.mapped()?.message("mode writethrough")?;
    other.wait_clean()?;
    step.send("the message drop")?;
    other.mapped()?.message("drop")?;
    step.send("another table")?;
    let device = other.mapped()?;
    device.load(other.good_line(false))?;
    device.suspend()?;
    device.resume()?;
    step.send("a stop and a start")?;
    other.detach()?;
    other.attach(false)?;
    step.send("a new cache")?;
    let (mut third, bytes) = Rig::new(config("writeback"))?;
    third.shows(&bytes)?;
    third.detach()?;
    step.send("writes past a lost SSD")?;
    break_ssd(&other)?;
    write_quarters(&other, &mut model, 40, 2)?;
    let status = other.quiet()?;
    ensure!(status.state == "bypass", "{status:?}");
    other.equals(&model)
}

/// Returns the last step when no more steps come; an error if a step takes too long.
fn last_of(steps: &Receiver<&'static str>) -> Result<&'static str> {
    let mut step = "nothing";
    loop {
        match steps.recv_timeout(PATIENCE) {
            Ok(next) => step = next,
            Err(RecvTimeoutError::Disconnected) => return Ok(step),
            Err(RecvTimeoutError::Timeout) => bail!("{step}: kept waiting by another's SSD"),
        }
    }
}

fn others_go_on() -> Result<()> {
    let (hung, bytes) = Rig::new(config("writethrough"))?;
    let (other, model) = Rig::new(config("writethrough"))?;
    let silent = hung.ssd_target()?.suspended()?;
    let name = hung.name.clone();
    // The change writes the superblocks.
    let change = Blocked::new(move || Dm::tell(&name, "mode writeback"))?;
    let (sender, steps) = channel();
    let name = hung.name.clone();
    let life = thread::spawn(move || life(other, model, &name, &sender));
    let last = last_of(&steps);
    let hanging = !change.is_over();
    // All threads that wait go on now, also when their waiting is the failure.
    drop(silent);
    let changed = change.join();
    let lived = life.join().map_err(|_| anyhow!("a panic"))?;
    lived.context(last?)?;
    changed?;
    ensure!(hanging, "the mode changed without the SSD");
    hung.equals(&bytes)
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! A real disk is watched through the kernel's tracepoint, within the sandbox of the service. Then the disk gets a cache,
//! and the same reads are made again: what was predicted is compared with what the module counts.

mod window;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::kept::{BOOT, STARTED};
use super::scene::Scene;
use tandem_guest::guest::{LONG, SHORT};
use tandem_harness::layer::Run;

/// A file on the watched disk, made before the watch begins, so that only reads are watched.
const PREPARE: &str = "cd /home/anna/Archive && dd if=/dev/urandom of=watched.bin bs=1M count=24 conv=fsync status=none && sync";
/// Reads of 64 KiB past the memory, at places of which some come again and again: 240 reads of 96 places at most.
const READS: &str = "cd /home/anna/Archive && for n in $(seq 240); do dd if=watched.bin of=/dev/null bs=64k count=1 \
    skip=$((n * n * 7 % 191 * 2)) iflag=direct status=none || exit 1; done";
/// How many reads that is.
const COUNT: u64 = 240;
/// The service reads few requests only every five seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longest difference between prediction and measurement, in thousandths of the bytes read: the file system reads a little
/// of its own besides.
const TOLERANCE: u64 = 40;

type Test = fn(&mut Scene, &Run) -> Result<()>;

/// The layer's tests. Each test starts from the machine in the state that the test before it has left.
pub const CASES: [(&str, Test); 6] = [
    (
        "a disk is watched by clicks, through a refusal and the end of the services",
        window::by_clicks,
    ),
    ("the service sees the reads of a watched disk", seen),
    ("the service goes on after its end, without a call", goes_on),
    ("the same reads through a cache hit as predicted", measured),
    ("a disk with a cache is not watched", refused),
    (
        "a watch goes on after a restart of the machine, with what it has seen",
        goes_on_after_restart,
    ),
];

/// Runs the layer. For one case it also runs the tests before that case.
pub fn run(run: &mut Run) -> Result<()> {
    let mut scene = Scene::new(run)?;
    scene.vm.agent.sh(PREPARE, LONG)?;
    run.in_turn(&mut scene, CASES);
    Ok(())
}

/// Prints what `tandemctl advice` says as soon as the service has counted so many reads.
fn wait_for(reads: u64) -> String {
    format!(
        "for _ in $(seq 60); do told=$(tandemctl --json advice) || exit 1; \
         reads=$(echo \"$told\" | sed 's/.*\"reads\":\\([0-9]*\\).*/\\1/'); \
         [ \"$reads\" -ge {reads} ] 2>/dev/null && break; sleep 1; done; echo \"$told\""
    )
}

/// The only watch.
fn watch(scene: &mut Scene, reads: u64) -> Result<Value> {
    let told = scene.vm.agent.sh(&wait_for(reads), PATIENCE)?;
    let told: Value = serde_json::from_str(told.trim()).context(told)?;
    let all = told["advice"].as_array().context("a list of watches")?;
    ensure!(all.len() == 1, "{told}");
    Ok(all[0].clone())
}

fn number(value: &Value, name: &str) -> Result<u64> {
    value[name]
        .as_u64()
        .with_context(|| format!("{name}: {value}"))
}

fn seen(scene: &mut Scene, run: &Run) -> Result<()> {
    let begin = format!("tandemctl watch-disk {}", scene.disk);
    scene.vm.agent.sh(&begin, SHORT)?;
    scene.vm.agent.sh(READS, LONG)?;
    let watch = watch(scene, COUNT)?;
    run.note(&watch.to_string());
    let reads = number(&watch, "reads")?;
    ensure!(watch["state"] == "watching", "{watch}");
    ensure!(reads < COUNT * 5 / 4, "more reads than were made: {watch}");
    ensure!(number(&watch, "lost")? == 0, "{watch}");
    let words = scene.vm.agent.sh("tandemctl advice", SHORT)?;
    run.note(&words);
    ensure!(words.contains("Too Early"), "{words}");
    Ok(())
}

fn goes_on(scene: &mut Scene, run: &Run) -> Result<()> {
    let before = watch(scene, COUNT)?;
    // What starts the service at a start of the machine starts it now.
    let line = "systemctl stop tandem && ! ls -d /sys/kernel/tracing/instances/tandem-* 2>/dev/null && \
        systemctl start tandem-watch && for _ in $(seq 100); do systemctl is-active --quiet tandem && break; sleep 0.3; done; \
        systemctl is-active tandem && ls -d /sys/kernel/tracing/instances/tandem-*";
    let told = scene.vm.agent.sh(line, SHORT)?;
    run.note(&told);
    let after = watch(scene, COUNT)?;
    ensure!(
        after["id"] == before["id"] && after["state"] == "watching",
        "{after}"
    );
    ensure!(
        number(&after, "reads")? >= number(&before, "reads")?,
        "{before} {after}"
    );
    // A killed service leaves its instance, and the next one makes it anew.
    let killed = "systemctl kill --signal=KILL tandem; sleep 3; systemctl is-active tandem; tandemctl --json advice";
    let told = scene.vm.agent.sh(killed, SHORT)?;
    ensure!(told.contains("\"state\":\"watching\""), "{told}");
    Ok(())
}

/// Sectors that were read from the cache, and all that were read, as the module counts them.
fn counted(scene: &mut Scene) -> Result<(u64, u64)> {
    let told = scene.vm.agent.sh("tandemctl --json status", SHORT)?;
    let told: Value = serde_json::from_str(told.trim())?;
    let read = &told["caches"][0]["latest"]["read"];
    Ok((number(read, "hit")?, number(read, "requested")?))
}

fn measured(scene: &mut Scene, run: &Run) -> Result<()> {
    let predicted = watch(scene, COUNT)?["points"][0].clone();
    let predicted = number(&predicted, "bytes_permille")?;
    ensure!(
        (200..900).contains(&predicted),
        "the reads do not tell a good prediction from a bad one: {predicted}"
    );
    scene.create()?;
    let gone = scene.vm.agent.sh("tandemctl --json advice", SHORT)?;
    ensure!(gone.contains("\"advice\":[]"), "the watch goes on: {gone}");
    scene.vm.drop_page_cache()?;
    let (hit, requested) = counted(scene)?;
    scene.vm.agent.sh(READS, LONG)?;
    let (hit, requested) = {
        let after = counted(scene)?;
        (after.0 - hit, after.1 - requested)
    };
    let measured = hit * 1000 / requested.max(1);
    run.note(&format!(
        "predicted {predicted} thousandths of the bytes read, measured {measured} of {requested} sectors\n"
    ));
    ensure!(
        measured.abs_diff(predicted) <= TOLERANCE,
        "predicted {predicted}, measured {measured} thousandths"
    );
    Ok(())
}

fn refused(scene: &mut Scene, _: &Run) -> Result<()> {
    let line = format!("tandemctl watch-disk {}; [ $? = 3 ]", scene.disk);
    scene.vm.agent.sh(&line, SHORT)?;
    scene.remove()
}

/// Thousandths of the read bytes that the largest cache of the curve would have had.
fn best(watch: &Value) -> Result<u64> {
    let points = watch["points"].as_array().context("a curve")?;
    let shares = points.iter().map(|point| number(point, "bytes_permille"));
    let shares: Vec<_> = shares.collect::<Result<_>>()?;
    shares.into_iter().max().context("no point")
}

/// The same reads before and after the restart: those after it are predicted as hits only by what was seen before it.
fn goes_on_after_restart(scene: &mut Scene, run: &Run) -> Result<()> {
    let begin = format!("tandemctl watch-disk {}", scene.disk);
    scene.vm.agent.sh(&begin, SHORT)?;
    scene.vm.agent.sh(READS, LONG)?;
    let before = watch(scene, COUNT)?;
    scene.vm.restart("systemctl --no-block reboot", BOOT)?;
    scene.vm.agent.sh(STARTED, BOOT)?;
    // Without a call: the start of the machine has started the service, which has found the disk.
    let line = "for _ in $(seq 300); do ls -d /sys/kernel/tracing/instances/tandem-* 2>/dev/null && break; sleep 0.2; done; \
        ls -d /sys/kernel/tracing/instances/tandem-* || { systemctl status tandem tandem-watch; lsblk; exit 1; }; \
        for _ in $(seq 100); do tandemctl --json advice | grep -q '\"state\":\"watching\"' && exit 0; sleep 0.2; done; exit 1";
    scene.vm.agent.sh(line, LONG)?;
    let after = watch(scene, COUNT)?;
    run.note(&format!("before {before}\nafter {after}"));
    ensure!(
        after["id"] == before["id"] && after["state"] == "watching",
        "{after}"
    );
    for seen in ["reads", "read_bytes"] {
        let (was, is) = (number(&before, seen)?, number(&after, seen)?);
        ensure!(is >= was, "{seen} was {was} and is {is}");
    }
    scene.vm.mount()?;
    scene.vm.agent.sh(READS, LONG)?;
    let twice = watch(scene, COUNT * 2)?;
    run.note(&twice.to_string());
    // Without memory the second half would be predicted as the first.
    let (first, both) = (best(&before)?, best(&twice)?);
    let least = (first + 1000) / 2 - TOLERANCE;
    ensure!(
        both >= least,
        "predicted {first} thousandths before the restart and {both} with the reads after it, at least {least} is right"
    );
    Ok(())
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Write-back by clicks in the real app: chosen with its warning, seen in the chart, written to the disk, left, and
//! removed. Also what the app says and allows when the SSD is pulled while it has the only copy of data.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::scene::Scene;
use crate::demo::{drive, show_failure, start_app};
use tandem_guest::guest::{LONG, MOUNT_POINT, SHORT};
use tandem_guest::image::PASSWORD;
use tandem_harness::layer::Run;
use tandem_harness::report::Report;

/// Bytes a second that the hard disk accepts while a drain is watched.
const SLOW: u64 = 150_000;
/// Bytes a second that the hard disk accepts while a drain must outlast many clicks: 24 MiB take 14 minutes.
const CRAWL: u64 = 30_000;
/// Longest wait for something that ends by itself, under emulation.
const LIMIT: Duration = Duration::from_secs(120);
/// Time without a change of the amount of dirty data after which no write to the disk is under way.
const QUIET: Duration = Duration::from_secs(15);
/// Writes a file and syncs it, which is the time that a person waits.
const WRITE: &str = "dd if=/dev/urandom of=/home/anna/Archive/'1024 KiB'/NAME.bin bs=1M count=MIB conv=fsync status=none";
/// Reads a part of an old file through the mapping and from the disk; debugfs says where it is on the disk.
const READ_CLEAN: &str = r#"set -e
block=$(debugfs -R 'bmap "/1024 KiB/010.bin" 5' /dev/DISK 2>/dev/null)
size=$(dumpe2fs -h /dev/DISK 2>/dev/null | awk '/^Block size/ { print $3 }')
test "$block" -gt 0 && test "$size" -gt 0
# Past the page cache, which says once more that ext4 could not write, the direct way does not go.
echo 3 >/proc/sys/vm/drop_caches
read_from() { dd if=$1 bs=$size skip=$block count=1 status=none | cksum; }
test "$(read_from /dev/mapper/$(dmsetup ls --target tandem | cut -f1))" = "$(read_from /dev/DISK)""#;
/// What the driver says when the button that removes the cache got its other label before the press.
const BUTTON_CHANGED: [&str; 2] = [
    "“Remove Cache…” did not come as expected",
    "“Write Back and Remove…” did not come as expected",
];
/// Size in MiB of a file whose write-back to the slow disk takes longer than all clicks of its test.
const LARGE: u32 = 24;
/// Size in MiB of a file that is within the least amount that may be on the SSD only.
const SMALL: u32 = 6;

/// The layer's tests, each in a machine of its own.
pub const PARTS: [(&str, Part); 2] = [
    // promise 23: vm-writeback/write-back by clicks, from the wizard to the plain disk
    (
        "write-back by clicks, from the wizard to the plain disk",
        by_clicks,
    ),
    // promise 18: vm-writeback/an SSD that is pulled while it alone has data
    ("an SSD that is pulled while it alone has data", pulled),
];

/// Runs the layer.
pub fn run(run: &mut Run) -> Result<()> {
    for (name, part) in PARTS {
        if !run.wants(name) {
            continue;
        }
        let mut scene = Scene::new(run)?;
        let directory = name.split_whitespace().next_back().unwrap_or(name);
        let page = run.cx.target.join("vm-writeback").join(directory);
        let mut report = Report::new(&page, name)?;
        let result = part(&mut scene, &mut report);
        if let Err(error) = &result {
            run.note(&show_failure(&mut scene.vm, &mut report, error));
        }
        report.finish()?;
        run.check(name, result);
    }
    Ok(())
}

type Part = fn(&mut Scene, &mut Report) -> Result<()>;

fn by_clicks(scene: &mut Scene, report: &mut Report) -> Result<()> {
    report.chapter("The wizard");
    start_app(&mut scene.vm, report)?;
    let click =
        |scene: &mut Scene, report: &mut Report, what: &str| drive(&mut scene.vm, report, what);
    let wizard = format!(
        "create --disk 'Archive*' --ssd '*{}*' --mode 'Fast Saving*' --password {PASSWORD}",
        scene.pair.ssd.product
    );
    click(scene, report, &wizard)?;
    ensure!(scene.mode()? == "writeback", "the table has another mode");

    report.chapter("Something is saved");
    scene.slow(SLOW)?;
    let seconds = scene.write("one", LARGE)?;
    let dirty = scene.dirty()?;
    report.step(&format!(
        "{LARGE} MiB saved in {seconds:.1} s over a disk that takes {SLOW} bytes a second; {dirty} sectors are on the SSD only"
    ));
    ensure!(dirty > 0, "nothing is on the SSD only");
    scene.slow(CRAWL)?;
    click(scene, report, "wait '*waiting to be written*'")?;
    click(scene, report, "wait 'If the SSD dies now, you lose *'")?;
    // A bar of the chart has some seconds.
    scene.until("the chart shows what waits", |scene| {
        Ok(scene.chart(report)? > 0.0)
    })?;
    click(scene, report, "show --shot 10-unwritten")?;
    let told = scene.vm.agent.sh("tandemctl status", SHORT)?;
    report.output(&told);
    ensure!(
        told.contains("waiting to be written"),
        "tandemctl says nothing of it: {told}"
    );

    report.chapter("Everything is written to the hard disk");
    click(
        scene,
        report,
        "press 'Write Everything to the Hard Disk Now'",
    )?;
    click(
        scene,
        report,
        &format!("authenticate 'Authenticate to change*' {PASSWORD} --shot 11-tune"),
    )?;
    click(scene, report, "press Pause")?;
    click(scene, report, "wait Resume")?;
    scene.until("the drain waits", |scene| Ok(scene.state()? == "paused"))?;
    // Writes that were under way when the drain was paused still end; nothing else is written to the disk, which is fast
    // now.
    scene.slow(0)?;
    let mut before = (0, Instant::now());
    scene.until("no write is under way", |scene| {
        let now = scene.dirty()?;
        if now != before.0 {
            before = (now, Instant::now());
        }
        Ok(before.1.elapsed() > QUIET)
    })?;
    let before = before.0;
    click(scene, report, "show --shot 12-paused")?;
    let waits = scene.dirty()?;
    ensure!(
        waits == before && waits > 0,
        "paused, but {before} became {waits}"
    );
    click(scene, report, "press Resume")?;
    scene.until_allowed(report, "all on the disk", |scene| Ok(scene.dirty()? == 0))?;
    click(scene, report, "wait 'Everything is on the hard disk'")?;
    scene.until("the mode holds again", |scene| {
        Ok(scene.state()? == "active")
    })?;
    scene.until("the chart shows that nothing waits", |scene| {
        Ok(scene.chart(report)? == 0.0)
    })?;
    click(scene, report, "show --shot 13-written")?;

    report.chapter("A pause");
    click(scene, report, "press 'Cache Menu'")?;
    click(scene, report, "press Pause")?;
    scene.until_allowed(report, "the module stores nothing new", |scene| {
        Ok(scene.promotion()? == "0")
    })?;
    click(scene, report, "wait '*Nothing else is stored there*'")?;
    click(scene, report, "show --shot 14-paused")?;
    scene.write("paused", SMALL)?;
    let stored = scene.dirty()?;
    ensure!(
        stored < u64::from(SMALL) * 2048 / 2,
        "{stored} sectors of a new file are on the SSD only, in a pause"
    );
    click(scene, report, "press Resume")?;
    scene.until_allowed(report, "the cache goes on", |scene| {
        Ok(scene.promotion()? == "1")
    })?;

    report.chapter("Another mode, while something is on the SSD only");
    scene.slow(SLOW)?;
    scene.write("two", SMALL)?;
    ensure!(scene.dirty()? > 0, "nothing is on the SSD only");
    click(scene, report, "enter 'Hard disk' 'Mode'")?;
    click(scene, report, "choose 'Standard*'")?;
    click(scene, report, "press Change")?;
    scene.until_allowed(report, "the mode", |scene| {
        Ok(scene.mode()? == "writethrough")
    })?;
    scene.slow(0)?;
    scene.until("all on the disk", |scene| Ok(scene.dirty()? == 0))?;
    click(scene, report, "enter 'Hard disk' 'Mode'")?;
    click(scene, report, "choose 'Fast Saving*'")?;
    click(scene, report, "wait '*beyond repair*'")?;
    click(scene, report, "press Change")?;
    click(
        scene,
        report,
        &format!("authenticate '*beyond repair*' {PASSWORD} --shot 15-write-back"),
    )?;
    scene.until("the mode", |scene| Ok(scene.mode()? == "writeback"))?;

    report.chapter("How much may wait");
    // Last of what is done with the keyboard: the focus stays in the list of choices.
    click(
        scene,
        report,
        "enter 'Hard disk' 'Limit for Unwritten Data'",
    )?;
    click(scene, report, "wait '5 seconds'")?;
    click(scene, report, "above")?;
    scene.until_allowed(report, "the module has the limit", |scene| {
        let table = scene.vm.agent.sh("dmsetup table --target tandem", SHORT)?;
        Ok(table.contains(" dirty_seconds 5"))
    })?;

    report.chapter("Flush and remove");
    scene.write("three", SMALL)?;
    let files = scene.vm.checksums()?;
    let lines = |text: &str| text.lines().count();
    ensure!(
        lines(&files) == lines(&scene.files) + 4,
        "not four files more: {files}"
    );
    remove(scene, report)?;
    let table = scene.vm.agent.sh("dmsetup table", SHORT)?;
    ensure!(!table.contains("tandem"), "a mapping is left: {table}");
    scene.vm.drop_page_cache()?;
    ensure!(scene.vm.checksums()? == files, "the files have changed");
    scene.vm.agent.sh(
        &format!("umount {MOUNT_POINT} && e2fsck -fn /dev/{}", scene.disk),
        LIMIT,
    )?;
    report.step("every file on the plain disk has the checksum that it had through the cache");
    Ok(())
}

/// Removes the cache by clicks. The button says whether something is on the SSD only. That may change between the look
/// at the button and the press, and then the driver looks again.
fn remove(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let line = format!("remove --password {PASSWORD}");
    let first = drive(&mut scene.vm, report, &line);
    let changed = |error: &anyhow::Error| {
        let said = error.to_string();
        BUTTON_CHANGED.iter().any(|words| said.contains(words))
    };
    match first {
        Err(error) if changed(&error) => drive(&mut scene.vm, report, &line).map(drop),
        ended => ended.map(drop),
    }
}

fn pulled(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let create = format!(
        "tandemctl create --yes --erase-ssd --mode writeback {} {}",
        scene.disk, scene.ssd
    );
    scene.vm.agent.sh(&create, LIMIT)?;
    start_app(&mut scene.vm, report)?;
    drive(&mut scene.vm, report, "wait Caches")?;
    drive(&mut scene.vm, report, "enter Archive Archive")?;
    scene.slow(SLOW)?;
    scene.write("one", LARGE)?;
    let files = scene.vm.checksums()?;
    let dirty = scene.dirty()?;
    ensure!(dirty > 0, "nothing is on the SSD only");
    scene.vm.unplug(&scene.pair.ssd)?;
    report.step(&format!(
        "the SSD is pulled with {dirty} sectors only on it"
    ));
    // The kernel tells a mapping nothing when its device is gone: the next write meets the error.
    let write = "dd if=/dev/zero of=/home/anna/Archive/refused bs=64k count=1 conv=fsync";
    let ended = scene.vm.agent.run(write, LIMIT, |_| ())?;
    report.output(&ended.text);
    ensure!(
        ended.code != 0,
        "a write was taken although the SSD is gone"
    );
    scene.until("the state", |scene| Ok(scene.state()? == "stranded"))?;
    drive(
        &mut scene.vm,
        report,
        "wait 'SSD Missing, It Holds Unwritten Data'",
    )?;
    drive(
        &mut scene.vm,
        report,
        "wait 'Nothing is lost if you reconnect the SSD unchanged.'",
    )?;
    drive(&mut scene.vm, report, "show --shot 10-pulled")?;
    let told = scene.vm.agent.sh("tandemctl status", SHORT)?;
    report.output(&told);
    ensure!(
        told.contains("not yet on the hard disk") && told.contains("reconnect the SSD"),
        "tandemctl does not say it: {told}"
    );
    scene.slow(0)?;
    let refused = scene
        .vm
        .agent
        .run("tandemctl remove --yes", LIMIT, |_| ())?;
    report.output(&refused.text);
    ensure!(refused.code == 3, "it was removed: {}", refused.text);
    // Data that is not on the SSD only can be read, and is the same as on the disk.
    scene
        .vm
        .agent
        .sh(&READ_CLEAN.replace("DISK", &scene.disk), SHORT)?;

    report.chapter("The SSD is back");
    scene.vm.plug_again(&scene.pair.ssd)?;
    scene.ssd = scene.vm.device(scene.pair.ssd.serial)?;
    // Under the file system that has met the errors the SSD is not used again; after that file system is unmounted, it
    // is.
    ensure!(
        scene.state()? == "stranded",
        "a file system goes on that would miss something"
    );
    scene.vm.agent.sh(&format!("umount {MOUNT_POINT}"), SHORT)?;
    scene.until("the cache", |scene| {
        Ok(scene.state().is_ok_and(|state| state == "active") && scene.dirty()? == 0)
    })?;
    // The status is read before the file system is mounted again, because mounting ext4 writes.
    let told = scene.vm.agent.sh("tandemctl status", SHORT)?;
    report.output(&told);
    ensure!(
        told.contains("Working") && told.contains("Everything is on the hard disk"),
        "it is not as it was: {told}"
    );
    scene.vm.mount()?;
    ensure!(
        scene.vm.checksums()? == files,
        "the files on the plain disk have changed"
    );
    report.step("every file that was saved before the SSD was pulled is on the plain disk");
    Ok(())
}

impl Scene {
    /// Limits the hard disk to so many bytes a second for writes; 0: no limit.
    fn slow(&mut self, bytes: u64) -> Result<()> {
        let limits = json!({ "id": self.pair.origin.serial, "bps": 0, "bps_rd": 0, "bps_wr": bytes, "iops": 0, "iops_rd": 0, "iops_wr": 0 });
        self.vm.qmp.run("block_set_io_throttle", limits).map(drop)
    }

    /// Saves a file and returns how many seconds that took.
    fn write(&mut self, name: &str, mib: u32) -> Result<f32> {
        let start = Instant::now();
        let line = WRITE.replace("NAME", name).replace("MIB", &mib.to_string());
        self.vm.as_user(&line, LONG)?;
        Ok(start.elapsed().as_secs_f32())
    }

    fn status(&mut self, word: usize) -> Result<String> {
        let line = self.vm.agent.sh("dmsetup status --target tandem", SHORT)?;
        let found = line.split_whitespace().nth(word);
        found
            .map(str::to_owned)
            .with_context(|| format!("no status: {line}"))
    }

    /// The state from the status line; kmod/TARGET.rst counts it after name, start, length and target.
    fn state(&mut self) -> Result<String> {
        self.status(4)
    }

    fn mode(&mut self) -> Result<String> {
        self.status(6)
    }

    /// Whether frames that have no slot may get one: `1` or `0`.
    fn promotion(&mut self) -> Result<String> {
        let line = self.vm.agent.sh("dmsetup status --target tandem", SHORT)?;
        let mut words = line.split_whitespace();
        words.find(|word| *word == "promotion");
        let value = words.next().map(str::to_owned);
        value.with_context(|| format!("no word of promotion: {line}"))
    }

    /// Dirty sectors.
    fn dirty(&mut self) -> Result<u64> {
        self.status(9)?.parse().context("dirty is a number")
    }

    /// How much is not on the hard disk yet, as the newest bar of the chart shows it, without its unit.
    fn chart(&mut self, report: &mut Report) -> Result<f64> {
        let said = drive(&mut self.vm, report, "wait 'Chart, Last 5 Minutes*'")?;
        let amount = said
            .rsplit_once("Waiting to be written: ")
            .context("the chart does not say it")?
            .1;
        let number = amount.split(['\u{a0}', ' ']).next().unwrap_or_default();
        number
            .replace(',', ".")
            .parse()
            .with_context(|| format!("no number: {amount}"))
    }

    /// Waits for a change of the cache, and gives the password anew if it is asked for. The right to change the cache
    /// holds for five minutes, which are over after some steps on a slow machine.
    fn until_allowed(
        &mut self,
        report: &mut Report,
        what: &str,
        mut holds: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        if self.until(what, &mut holds).is_ok() {
            return Ok(());
        }
        let authenticate =
            format!("authenticate 'Authenticate to change*' {PASSWORD} --shot 16-tune-again");
        drive(&mut self.vm, report, &authenticate)?;
        self.until(what, holds)
    }

    fn until(
        &mut self,
        what: &str,
        mut holds: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        let mut patience = self.vm.agent.patience(LIMIT);
        while !holds(self)? {
            ensure!(!patience.is_over(), "waited in vain: {what}");
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }
}

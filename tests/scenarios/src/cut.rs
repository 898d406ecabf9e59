// SPDX-License-Identifier: GPL-3.0-or-later
//! The power is cut at every step of a job of the service: the machine and all of its disks are off at once, and the
//! disks lose what no flush covers. After the next start everything must be as before the job, or as the job was to leave
//! it. At the beginning of a step the service is frozen first, so that a test knows how far the job is, and can write
//! meanwhile. Further cuts come at once, wherever the job is.

mod outcome;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

use self::outcome::{Job, Outcome, Seen};
use super::kept::{DIRTY, KeptMachine, LEFT, SLOW};
use super::kill::RECOVERY;
use super::moments::{SHARES, instants, steps};
use tandem_guest::guest::{LONG, MOUNT_POINT};
use tandem_harness::layer::Bench;
use tandem_harness::sample;
use tandem_harness::{hash, seed};

/// How many cuts run without `--all`.
const ORDINARY: usize = 3;
/// The file that is written before the job and changed during the job, so that old copies of it on the SSD show.
const CHANGED: &str = "changed-during-the-job";

/// A moment at which a slow disk has not got all data back: the job has begun even on a busy machine.
const DRAINING: &str = "--after 5000";

/// Keeps in memory what no program has synced: ext4 would write it to the root disk after five seconds.
const LAZY: &str = "mount -o remount,commit=600 /; echo 60000 >/proc/sys/vm/dirty_expire_centisecs; echo 0 >/proc/sys/vm/dirty_writeback_centisecs";
/// Prints the UUID of each cache whose superblock is on a partition of the SSD. What the kernel remembers of a partition
/// may be old.
const FORMATS: &str = r#"
for part in /dev/SSD?*; do
	[ -b "$part" ] && dd if="$part" of=/run/head bs=1M count=1 iflag=direct status=none && /usr/libexec/tandem-probe /run/head
done
dmsetup table >&2; sfdisk --dump /dev/SSD >&2; exit 0"#;
/// Changes a part of the file, and prints the checksum. While a mapping is suspended, nobody can write: then it prints
/// nothing, and the write may still be under way.
const CHANGE: &str = r#"
mountpoint -q POINT || { echo unmounted; exit 0; }
(dd if=/dev/urandom of=POINT/FILE bs=64k count=4 seek=100 conv=notrunc,fsync && cd POINT && cksum FILE >/run/sum) >/dev/null 2>&1 &
for _ in $(seq 100); do [ -s /run/sum ] && break; sleep 0.1; done
cat /run/sum 2>/dev/null; rm -f /run/sum; exit 0"#;
/// Tells what the service says of a failure.
const JOURNAL: &str =
    "journalctl -b --no-pager -o short-monotonic -u tandem -u tandem-assemble -n 25";
/// Tells what else is known of a failure.
const EVIDENCE: &str = r#"
systemctl list-units --failed --no-legend; lsblk; findmnt /home/anna/Archive; dmsetup table
timeout 20 tandemctl list; tail -n +1 /var/lib/tandem/*/*.json
journalctl -b --no-pager -o short-monotonic -u tandem -u tandem-assemble -u udisks2 -n 80
dmesg | grep -v ' ata[0-9]\| sd [0-9]' | tail -30; exit 0"#;

/// One test: a job, and the moment at which the power is cut.
struct Case {
    job: Job,
    moment: String,
    /// The disk is slow, so that the cut comes while data is being written back.
    slow: bool,
}

impl Case {
    fn name(&self) -> String {
        let slow = if self.slow { " on a slow disk" } else { "" };
        format!("{} cut {}{slow}", self.job.word(), self.moment)
    }

    /// Whether the service is at the beginning of a step, not somewhere within.
    fn is_step(&self) -> bool {
        self.moment.starts_with("--step")
    }
}

// promise 32: vm-cut/resize cut --step 3
// promise 32: vm-cut/remove cut --after 5000 on a slow disk
/// All tests, those of a job one after another.
fn all() -> Vec<Case> {
    let of = |job: Job| {
        let drains = job != Job::Create;
        let slow = drains.then(|| (DRAINING.to_owned(), true));
        let moments = steps(job.steps()).chain(instants(job.instants()));
        let moments = slow.into_iter().chain(moments.map(|m| (m, false)));
        moments.map(move |(moment, slow)| Case { job, moment, slow })
    };
    Job::ALL.into_iter().flat_map(of).collect()
}

/// Runs the layer. The tests share one machine, until one fails.
pub fn run(bench: &mut Bench) -> Result<()> {
    let seed = seed::of_this_run()?;
    let mut kept = None;
    for case in sample::of(bench, "cuts", all(), ORDINARY)? {
        let name = case.name();
        if !bench.wants(&name) {
            continue;
        }
        let ready = kept.take().map_or_else(|| Cutter::new(bench), Ok);
        let result = ready.and_then(|mut cutter| {
            cutter.test(bench, &case, seed)?;
            kept = Some(cutter);
            Ok(())
        });
        bench.check(&name, result);
    }
    Ok(())
}

/// A machine, and the state in which the last test has left it.
struct Cutter {
    machine: KeptMachine,
    /// Bytes of the SSD that the cache has; none without a cache.
    share: Option<u64>,
}

impl Cutter {
    fn new(bench: &Bench) -> Result<Self> {
        Ok(Self {
            machine: KeptMachine::supplied(bench)?,
            share: None,
        })
    }

    /// Runs one test. A failure comes with what the machine tells about it.
    fn test(&mut self, bench: &Bench, case: &Case, seed: u64) -> Result<()> {
        bench.note(&format!("--- {}", case.name()));
        let result = self.cut(bench, case, seed);
        result.map_err(|error| {
            let mut told = |script| match self.machine.sh(script) {
                Ok(told) => told,
                Err(e) => format!("the machine tells nothing: {e:#}"),
            };
            bench.note(&told(EVIDENCE));
            anyhow!("{error:#}\nthe service:\n{}", told(JOURNAL))
        })
    }

    fn cut(&mut self, bench: &Bench, case: &Case, seed: u64) -> Result<()> {
        self.prepare(case.job)?;
        self.machine.sh(LAZY)?;
        if case.slow {
            self.machine.throttle(SLOW)?;
        }
        self.machine.save(CHANGED)?;
        let old = self.share;
        let new = match old {
            Some(share) if share == SHARES[0] => SHARES[1],
            _ => SHARES[0],
        };
        let (disk, ssd) = self.devices()?;
        let job = match case.job {
            Job::Resize => format!("resize {new}"),
            Job::Create => format!("create --partition {new} {disk}1 {ssd}"),
            Job::Remove => "remove".to_owned(),
        };
        let line = format!("tandem-kill --freeze {} {job}", case.moment);
        let told = self.machine.vm()?.agent.sh(&line, LONG)?;
        bench.note(told.trim());
        let planned = format!("of {} steps", case.job.steps());
        ensure!(told.contains(&planned), "the plan has other steps: {told}");
        let known = case.slow || case.is_step();
        let seen = known.then(|| self.look(bench, case, &ssd, new));
        let seen = seen.transpose()?;
        let name = format!("{}{seed}", case.name());
        let chance = u64::from_str_radix(hash::key([&name]).get(..15).unwrap_or_default(), 16)?;
        self.machine.cut_power(bench, chance)?;
        self.machine.power_on(bench, true)?;
        self.check(bench, case, seen.as_ref(), [old, Some(new)])
    }

    /// Comes to the state in which the job can begin: a cache in write-back, or none.
    fn prepare(&mut self, job: Job) -> Result<()> {
        match (job, self.share) {
            (Job::Create, Some(_)) => {
                self.machine.sh("tandemctl remove --yes")?;
                self.share = None;
            }
            // As after a removal, the SSD has content that is erased.
            (Job::Create, None) => {
                let (_, ssd) = self.devices()?;
                let fill = format!(
                    "dd if=/dev/urandom of=/dev/{ssd} bs=1M count=1 seek=2 conv=fsync status=none; udevadm settle"
                );
                self.machine.sh(&fill)?;
            }
            (Job::Resize | Job::Remove, None) => self.create()?,
            (Job::Resize | Job::Remove, Some(_)) => {
                self.machine.sh("tandemctl mode --yes writeback")?;
            }
        }
        Ok(())
    }

    fn create(&mut self) -> Result<()> {
        let (disk, ssd) = self.devices()?;
        let create = format!(
            "tandemctl create --yes --erase-ssd --mode writeback --partition {} {disk}1 {ssd}",
            SHARES[0]
        );
        self.machine.sh(&create)?;
        self.share = Some(SHARES[0]);
        Ok(())
    }

    fn devices(&mut self) -> Result<(String, String)> {
        let machine = &mut self.machine;
        let (origin, ssd) = (machine.pair.origin.serial, machine.pair.ssd.serial);
        let vm = machine.vm()?;
        Ok((vm.device(origin)?, vm.device(ssd)?))
    }

    /// How far the frozen job is, by the records and by what is on the SSD. At the beginning of a step, data is changed
    /// too.
    fn look(&mut self, bench: &Bench, case: &Case, ssd: &str, new: u64) -> Result<Seen> {
        let machine = &mut self.machine;
        let job = machine.sh("cat /var/lib/tandem/jobs/*.json 2>/dev/null || true")?;
        let record = machine.sh("cat /var/lib/tandem/caches/*.json 2>/dev/null || true")?;
        let formats = machine.sh(&FORMATS.replace("SSD", ssd))?;
        let seen = Seen::new(case.job, new, &job, &record, &formats)?;
        bench.note(&format!("{seen:?}\n{formats}"));
        if case.slow {
            ensure!(seen.drains(), "the job does not write back: {seen:?}");
            let dirty: u64 = machine.sh(DIRTY)?.parse()?;
            bench.note(&format!("{dirty} sectors are on the SSD only"));
            ensure!(dirty >= LEFT, "only {dirty} sectors are on the SSD only");
        } else {
            let sum = machine.sh(&CHANGE
                .replace("POINT", MOUNT_POINT)
                .replace("FILE", CHANGED))?;
            bench.note(&format!("changed meanwhile: {sum}"));
            match sum.as_str() {
                "unmounted" => {}
                "" => machine.written.retain(|(name, _)| name != CHANGED),
                _ => machine.note_written(CHANGED, sum),
            }
        }
        Ok(seen)
    }

    /// Checks the state after the start. `shares`: of the cache before the job, and after the job.
    fn check(
        &mut self,
        bench: &Bench,
        case: &Case,
        seen: Option<&Seen>,
        shares: [Option<u64>; 2],
    ) -> Result<()> {
        let machine = &mut self.machine;
        // A unit may have failed, and work by now.
        let failed = machine.sh("systemctl list-units --failed --no-legend --plain; journalctl -b --no-pager -o cat --grep 'Failed with result|^Failed to start' || true")?;
        ensure!(failed.is_empty(), "failed units: {failed}");
        let started = machine.sh("journalctl -b --no-pager -o cat -u tandem-assemble")?;
        let assembled = started.contains("works with its cache");
        if let Some(expected) = seen.and_then(|seen| seen.assembled(case.job)) {
            ensure!(
                assembled == expected,
                "the start has assembled a cache: {assembled}, expected: {expected}"
            );
        }
        let recovered = include_str!("../../guest/machine/recovered.sh");
        let state = machine.vm()?.agent.sh(recovered, RECOVERY)?;
        let state = state.trim();
        let share = self.share_on_ssd(state)?;
        let outcome = Outcome::of(state, share, shares)?;
        bench.note(&format!(
            "assembled by the start: {assembled}; recovered to {state}: {outcome:?}"
        ));
        let allowed = seen.map_or(case.job.outcomes(), |seen| seen.allowed(case.job));
        ensure!(
            allowed.contains(&outcome),
            "the cache is {outcome:?}, expected {allowed:?} after {seen:?}"
        );
        self.share = share;
        self.machine.all_there()?;
        if outcome == Outcome::Detached {
            self.machine.power_off(bench)?;
            self.machine.power_on(bench, true)?;
            let state = self.machine.vm()?.agent.sh(recovered, RECOVERY)?;
            ensure!(
                state.trim() == "plain",
                "a removed cache is {state} after a start"
            );
            self.machine.all_there()?;
        }
        self.goes_on()
    }

    /// The size of our partition on the SSD, of which the service's list must tell the same.
    fn share_on_ssd(&mut self, state: &str) -> Result<Option<u64>> {
        let (_, ssd) = self.devices()?;
        let table = format!("sfdisk --json /dev/{ssd} 2>/dev/null || echo '{{}}'");
        let text = self.machine.sh(&table)?;
        let table: Value = serde_json::from_str(&text).context(text)?;
        let parts = table["partitiontable"]["partitions"].as_array();
        let sizes: Vec<_> = parts
            .into_iter()
            .flatten()
            .map(|part| part["size"].as_u64().unwrap_or_default() * 512)
            .collect();
        let list = self.machine.sh("tandemctl --json list")?;
        let list: Value = serde_json::from_str(&list)?;
        let listed = list["caches"].as_array().map_or(0, Vec::len);
        match (state, sizes.as_slice()) {
            ("cached", &[size]) if listed == 1 => {
                let told = &list["caches"][0]["ssd"]["size"];
                ensure!(
                    told.as_u64() == Some(size),
                    "the partition has {size} bytes, the service tells {told}"
                );
                Ok(Some(size))
            }
            ("plain", []) if listed == 0 => Ok(None),
            ("detached", []) => Ok(None),
            _ => bail!("{state}, {listed} caches listed, partitions {sizes:?}: {table}"),
        }
    }

    /// A cache can be created, or goes on: data that is written now is there.
    fn goes_on(&mut self) -> Result<()> {
        if self.share.is_none() {
            self.create()?;
        }
        self.machine.save("written-afterwards")?;
        self.machine.all_there()
    }
}

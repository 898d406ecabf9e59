// SPDX-License-Identifier: GPL-3.0-or-later
//! The power is cut at every step of a job of the service: the machine and all of its disks are off at once, and the
//! disks lose what no flush covers. After the next start everything must be as before the job, or as the job was to leave
//! it. A job runs once for many cuts: at each moment a copy of the disks is taken, and the machine then starts from each copy.
//! At the beginning of a step the service is frozen first, so that a test knows how far the job is, and can write meanwhile.
//! Further cuts come at once, wherever the job is.

mod job;
mod outcome;

use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

use self::job::Moment;
use self::outcome::{Job, Outcome, Seen};
use super::kept::KeptMachine;
use super::kill::RECOVERY;
use super::moments::SHARES;
use tandem_harness::layer::Run;
use tandem_harness::sample;
use tandem_harness::{hash, seed};

/// How many cuts run without `--all`.
const ORDINARY: usize = 3;
/// Script that tells what the service says of a failure.
const JOURNAL: &str =
    "journalctl -b --no-pager -o short-monotonic -u tandem -u tandem-assemble -n 25";
/// Script that tells what else is known of a failure.
const EVIDENCE: &str = r#"
systemctl list-units --failed --no-legend; lsblk; findmnt /home/anna/Archive; dmsetup table
timeout 20 tandemctl list; tail -n +1 /var/lib/tandem/*/*.json
journalctl -b --no-pager -o short-monotonic -u tandem -u tandem-assemble -u udisks2 -n 80
dmesg | grep -v ' ata[0-9]\| sd [0-9]' | tail -30; exit 0"#;

/// The moment of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// While a slow disk gets back what the SSD alone has.
    Draining,
    /// At the beginning of this step; the number of steps means when all are done.
    Step(u64),
    /// At the write or flush that comes so many parts of all into the job.
    Instant(u64),
}

/// One test: a job, and the moment at which the power is cut.
#[derive(Clone, Copy)]
struct Case {
    job: Job,
    at: At,
}

impl Case {
    fn name(&self) -> String {
        let job = self.job.word();
        match self.at {
            At::Draining => format!("{job} cut while a slow disk gets its data back"),
            At::Step(step) => format!("{job} cut --step {step}"),
            At::Instant(number) => {
                let all = self.job.instants();
                format!("{job} cut within, {} of {all}", number + 1)
            }
        }
    }
}

// promise 32: vm-cut/resize cut --step 3
// promise 32: vm-cut/remove cut while a slow disk gets its data back
/// All tests, those of a job one after another.
fn all() -> Vec<Case> {
    let of = |job: Job| {
        let slow = (job != Job::Create).then_some(At::Draining);
        let steps = (0..=job.steps()).map(At::Step);
        let moments = slow.into_iter().chain(steps);
        let moments = moments.chain((0..job.instants()).map(At::Instant));
        moments.map(move |at| Case { job, at })
    };
    Job::ALL.into_iter().flat_map(of).collect()
}

/// Runs the layer.
pub fn run(run: &mut Run) -> Result<()> {
    let seed = seed::of_this_run()?;
    let cases = sample::of(run, "cuts", all(), ORDINARY)?;
    for job in Job::ALL {
        let wanted = |case: &&Case| case.job == job && run.wants(&case.name());
        let cases: Vec<_> = cases.iter().filter(wanted).copied().collect();
        if cases.is_empty() {
            continue;
        }
        let begun = Instant::now();
        let mut cutter = Cutter::new(run)?;
        let moments = cutter.moments(run, job, &cases, seed);
        let moments = moments.map_err(|error| cutter.explained(run, error))?;
        let spent = cutter.machine.vm()?.processor_time()?.as_secs();
        run.note(&format!(
            "--- {} cuts of {} after {} s, with {spent} s of processor time",
            moments.len(),
            job.word(),
            begun.elapsed().as_secs()
        ));
        for moment in moments {
            let name = moment.case.name();
            run.note(&format!("--- {name}"));
            let result = cutter.after(run, moment, seed);
            let result = result.map_err(|error| cutter.explained(run, error));
            run.check(&name, result);
        }
    }
    Ok(())
}

/// A machine, and the state in which the last job has left it.
struct Cutter {
    machine: KeptMachine,
    /// Bytes of the SSD that the cache has; none without a cache.
    share: Option<u64>,
}

impl Cutter {
    fn new(run: &Run) -> Result<Self> {
        Ok(Self {
            machine: KeptMachine::supplied(run)?,
            share: None,
        })
    }

    /// A failure with what the machine tells about it.
    fn explained(&mut self, run: &Run, error: anyhow::Error) -> anyhow::Error {
        let mut told = |script| match self.machine.sh(script) {
            Ok(told) => told,
            Err(e) => format!("the machine tells nothing: {e:#}"),
        };
        run.note(&told(EVIDENCE));
        anyhow!("{error:#}\nthe service:\n{}", told(JOURNAL))
    }

    /// Starts the machine as after a cut at a moment, and checks what is there.
    fn after(&mut self, run: &Run, moment: Moment, seed: u64) -> Result<()> {
        let Moment {
            case,
            disks,
            seen,
            shares,
            written,
        } = moment;
        self.machine.written = written;
        let chance = chance(&case.name(), seed)?;
        self.machine.cut_power(run, disks, chance)?;
        self.machine.power_on(run, true)?;
        self.check(run, case.job, seen.as_ref(), shares)?;
        let spent = self.machine.vm()?.processor_time()?.as_secs();
        run.note(&format!("checked with {spent} s of processor time"));
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

    /// Checks the state after the start. `shares`: of the cache before the job, and after the job.
    fn check(
        &mut self,
        run: &Run,
        job: Job,
        seen: Option<&Seen>,
        shares: [Option<u64>; 2],
    ) -> Result<()> {
        let machine = &mut self.machine;
        // A unit may have failed, and work by now.
        let failed = machine.sh("systemctl list-units --failed --no-legend --plain; journalctl -b --no-pager -o cat --grep 'Failed with result|^Failed to start' || true")?;
        ensure!(failed.is_empty(), "failed units: {failed}");
        let started = machine.sh("journalctl -b --no-pager -o cat -u tandem-assemble")?;
        let assembled = started.contains("works with its cache");
        if let Some(expected) = seen.and_then(|seen| seen.assembled(job)) {
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
        run.note(&format!(
            "assembled by the start: {assembled}; recovered to {state}: {outcome:?}"
        ));
        let allowed = seen.map_or(job.outcomes(), |seen| seen.allowed(job));
        ensure!(
            allowed.contains(&outcome),
            "the cache is {outcome:?}, expected {allowed:?} after {seen:?}"
        );
        self.share = share;
        self.machine.all_there()?;
        if outcome == Outcome::Detached {
            self.machine.power_off(run)?;
            self.machine.power_on(run, true)?;
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
        self.machine.written_there()
    }
}

/// A number that depends on the seed and on the test.
fn chance(name: &str, seed: u64) -> Result<u64> {
    let key = hash::key([&format!("{name}{seed}")]);
    Ok(u64::from_str_radix(key.get(..15).unwrap_or_default(), 16)?)
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs a job that is to be cut, and takes copies of the disks at its moments.

use anyhow::{Context, Result, ensure};

use super::outcome::{Job, Seen};
use super::{At, Case, Cutter, chance};
use crate::kept::{DIRTY, LEFT, SLOW};
use crate::moments::SHARES;
use tandem_guest::guest::MOUNT_POINT;
use tandem_guest::power::Snapshot;
use tandem_harness::layer::Run;

/// The file that is written before the job and changed during the job, so that old copies of it on the SSD show.
const CHANGED: &str = "changed-during-the-job";
/// Script that keeps in memory what no program has synced: ext4 would write it to the root disk after five seconds.
const LAZY: &str = "mount -o remount,commit=600 /; echo 60000 >/proc/sys/vm/dirty_expire_centisecs; echo 0 >/proc/sys/vm/dirty_writeback_centisecs";
/// Script that changes a part of the file, and prints the checksum. While a mapping is suspended, nobody can write. It
/// prints nothing if the write takes long: then it may still be under way at a later step.
const CHANGE: &str = r#"
mountpoint -q POINT || { echo unmounted; exit 0; }
case $(dmsetup info --columns --noheadings -o suspended) in *Suspended*) echo suspended; exit 0;; esac
pgrep -x dd >/dev/null && exit 0
rm -f /run/sum
(dd if=/dev/urandom of=POINT/FILE bs=64k count=4 seek=100 conv=notrunc,fsync && cd POINT && cksum FILE >/run/sum) >/dev/null 2>&1 &
for _ in $(seq 100); do [ -s /run/sum ] && break; sleep 0.1; done
cat /run/sum 2>/dev/null; exit 0"#;
/// Script that begins a job that stops at each step.
const BEGIN: &str =
    "rm -f /run/stopped /run/told; tandem-kill --each /run/stopped JOB >/run/told 2>&1 &";
/// Script that waits until the job has stopped, and tells at which step.
const STOPPED: &str = r#"
until [ -e /run/stopped ]; do pgrep -x tandem-kill >/dev/null || { cat /run/told; exit 1; }; sleep 0.05; done
cat /run/stopped"#;
/// Script that waits until that job is over.
const OVER: &str = r#"
while pgrep -x tandem-kill >/dev/null; do sleep 0.05; done
until [ -z "$(ls /var/lib/tandem/jobs 2>/dev/null)" ]; do sleep 0.1; done"#;
/// Script that waits until a slow disk has got some of the data back: until fewer sectors are on the SSD only than
/// these.
const DRAINING: &str = r#"until [ -n "$(ls /var/lib/tandem/jobs 2>/dev/null)" ] && [ "$(DIRTY)" -lt SECTORS ]; do sleep 0.1; done"#;

/// A moment of a job, at which the power is cut.
pub struct Moment {
    pub case: Case,
    pub disks: Snapshot,
    /// How far the job was, if that is known.
    pub seen: Option<Seen>,
    /// Bytes of the SSD that the cache has before the job and after it; none without a cache.
    pub shares: [Option<u64>; 2],
    /// The files that were written until then, with their checksums.
    pub written: Vec<(String, String)>,
}

/// A job at its beginning.
struct Begun {
    /// The job as `tandem-kill` takes it, and as `tandemctl` does.
    line: String,
    of_user: String,
    /// The share before the job and after it.
    old: Option<u64>,
    new: u64,
}

impl Begun {
    /// The share when the job has ended.
    fn after(&self, job: Job) -> Option<u64> {
        (job != Job::Remove).then_some(self.new)
    }
}

impl Cutter {
    /// Runs a job as often as these cuts need, and takes their moments.
    pub fn moments(
        &mut self,
        run: &Run,
        job: Job,
        cases: &[Case],
        seed: u64,
    ) -> Result<Vec<Moment>> {
        let mut moments = Vec::new();
        let of = |wanted: fn(&At) -> bool| -> Vec<Case> {
            cases.iter().filter(|c| wanted(&c.at)).copied().collect()
        };
        let steps = of(|at| matches!(at, At::Step(_)));
        if !steps.is_empty() {
            self.stepped(run, job, &steps, &mut moments)?;
        }
        let instants = of(|at| matches!(at, At::Instant(_)));
        if !instants.is_empty() {
            self.unstopped(run, job, &instants, seed, &mut moments)?;
        }
        // The job does not end.
        for case in of(|at| *at == At::Draining) {
            self.draining(run, case, &mut moments)?;
        }
        Ok(moments)
    }

    /// Comes to the beginning of a job. Returns the job as `tandem-kill` and `tandemctl` take it, the SSD, and the shares.
    /// `slow`: the disk is slow from now on.
    fn begin(&mut self, job: Job, slow: bool) -> Result<Begun> {
        self.prepare(job)?;
        self.machine.sh(LAZY)?;
        if slow {
            self.machine.throttle(SLOW)?;
        }
        self.machine.save(CHANGED)?;
        let old = self.share;
        let new = match old {
            Some(share) if share == SHARES[0] => SHARES[1],
            _ => SHARES[0],
        };
        let (disk, ssd) = self.devices()?;
        let [line, of_user] = match job {
            Job::Resize => [
                format!("resize {new}"),
                format!(
                    "resize --yes $(basename -s .cache.json /var/lib/tandem/caches/*.cache.json) {new}"
                ),
            ],
            Job::Create => {
                let on = format!("--partition {new} {disk}1 {ssd}");
                [
                    format!("create {on}"),
                    format!("create --yes --erase-ssd {on}"),
                ]
            }
            Job::Remove => ["remove".to_owned(), "remove --yes".to_owned()],
        };
        Ok(Begun {
            line,
            of_user,
            old,
            new,
        })
    }

    /// Runs the job to its end and stops it at each step, where it takes the moments.
    fn stepped(
        &mut self,
        run: &Run,
        job: Job,
        cases: &[Case],
        moments: &mut Vec<Moment>,
    ) -> Result<()> {
        let begun = self.begin(job, false)?;
        self.machine.sh(&BEGIN.replace("JOB", &begun.line))?;
        let mut next = 0;
        while next <= job.steps() {
            let told = self.machine.sh(STOPPED)?;
            let planned = format!(" of {} steps", job.steps());
            let at = told.strip_prefix("step ");
            let at = at.and_then(|told| told.strip_suffix(&planned)?.parse().ok());
            let at: u64 = at.with_context(|| format!("the plan has other steps: {told}"))?;
            ensure!(at >= next, "{told} after step {next}");
            // A step that was over at once is not seen; the moment after it counts for both.
            let here = |case: &&Case| matches!(case.at, At::Step(n) if (next..=at).contains(&n));
            let here: Vec<_> = cases.iter().filter(here).copied().collect();
            if !here.is_empty() {
                run.note(&format!("--- {} stopped at {told}", job.word()));
                let seen = self.look(run, job, &begun)?;
                self.change(run)?;
                for case in here {
                    moments.push(self.moment(case, &begun, Some(seen.clone()))?);
                }
            }
            self.machine.sh("rm /run/stopped")?;
            next = at + 1;
        }
        self.machine.sh(OVER)?;
        self.share = begun.after(job);
        Ok(())
    }

    /// Runs the job to its end, and takes moments within.
    fn unstopped(
        &mut self,
        run: &Run,
        job: Job,
        cases: &[Case],
        seed: u64,
        moments: &mut Vec<Moment>,
    ) -> Result<()> {
        let begun = self.begin(job, false)?;
        let number = job.instants();
        self.machine.supply()?.record(usize::try_from(number)?);
        self.machine.sh(&format!("tandemctl {}", begun.of_user))?;
        let taken = self.machine.supply()?.recorded();
        run.note(&format!("{} moments of {}", taken.len(), job.word()));
        for case in cases {
            let At::Instant(place) = case.at else {
                continue;
            };
            // One of those in its part of the job.
            let all = taken.len() as u64;
            let (from, to) = (place * all / number, (place + 1) * all / number);
            ensure!(from < to, "only {all} moments in {}", job.word());
            let place = from + chance(&case.name(), seed)? % (to - from);
            let disks = taken.get(usize::try_from(place)?).cloned();
            let disks = disks.context("a moment that was taken")?;
            let moment = self.moment(*case, &begun, None)?;
            moments.push(Moment { disks, ..moment });
        }
        self.share = begun.after(job);
        Ok(())
    }

    /// Begins the job on a disk that is so slow that the job gets no further than to write back.
    fn draining(&mut self, run: &Run, case: Case, moments: &mut Vec<Moment>) -> Result<()> {
        let begun = self.begin(case.job, true)?;
        let before: u64 = self.machine.sh(DIRTY)?.parse()?;
        let line = format!("tandemctl {} >/run/told 2>&1 </dev/null &", begun.of_user);
        self.machine.sh(&line)?;
        let wait = DRAINING.replace("SECTORS", &before.to_string());
        self.machine.sh(&wait.replace("DIRTY", DIRTY))?;
        let seen = self.look(run, case.job, &begun)?;
        ensure!(seen.drains(), "the job does not write back: {seen:?}");
        let dirty: u64 = self.machine.sh(DIRTY)?.parse()?;
        run.note(&format!("{dirty} of {before} sectors are on the SSD only"));
        ensure!(dirty >= LEFT, "only {dirty} sectors are on the SSD only");
        moments.push(self.moment(case, &begun, Some(seen))?);
        Ok(())
    }

    /// The present moment.
    fn moment(&self, case: Case, begun: &Begun, seen: Option<Seen>) -> Result<Moment> {
        Ok(Moment {
            case,
            disks: self.machine.supply()?.snapshot(),
            seen,
            shares: [begun.old, Some(begun.new)],
            written: self.machine.written.clone(),
        })
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

    /// How far the job is, by the records and by what is on the SSD.
    fn look(&mut self, run: &Run, job: Job, begun: &Begun) -> Result<Seen> {
        let machine = &mut self.machine;
        let intent = machine.sh("cat /var/lib/tandem/jobs/*.json 2>/dev/null || true")?;
        let record = machine.sh("cat /var/lib/tandem/caches/*.json 2>/dev/null || true")?;
        let seen = Seen::new(job, begun.new, &intent, &record)?;
        run.note(&format!("{seen:?}"));
        Ok(seen)
    }

    /// Changes data while the job stands still.
    fn change(&mut self, run: &Run) -> Result<()> {
        let machine = &mut self.machine;
        let change = CHANGE.replace("POINT", MOUNT_POINT);
        let sum = machine.sh(&change.replace("FILE", CHANGED))?;
        run.note(&format!("changed meanwhile: {sum}"));
        match sum.as_str() {
            "unmounted" | "suspended" => {}
            "" => machine.written.retain(|(name, _)| name != CHANGED),
            _ => machine.note_written(CHANGED, sum),
        }
        Ok(())
    }
}

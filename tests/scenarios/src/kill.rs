// SPDX-License-Identifier: GPL-3.0-or-later
//! The service is killed in the middle of its jobs. After its next start everything must be as before the job, or as
//! the job was to leave it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::moments::{SHARES, instants, steps};
use tandem_guest::disks::{self, Scratch};
use tandem_guest::guest::{LONG, SHORT};
use tandem_guest::moment::Moment;
use tandem_guest::vm::{Parts, Vm};
use tandem_harness::layer::Run;
use tandem_harness::sample;

/// Instants at which the service is killed, besides every step.
const INSTANTS: u64 = 16;
/// How many of a job's moments are tested without `--all`.
const ORDINARY: usize = 3;
/// Steps of a change of the share of a cache with nothing dirty: the partition gets larger, then the cache.
const RESIZING: u64 = 2;
/// Longest time for the service to recover.
pub(crate) const RECOVERY: Duration = Duration::from_secs(300);

/// The test of the wait for UDisks2, which shows a deleted partition table late on a busy machine.
const LATE: &str = "a removal waits until UDisks2 shows no partition table";
/// Script that removes the cache, while udev, and so UDisks2, does not see that the SSD has no partition table. Two
/// seconds after the table is gone, the removal must not be beyond the step that deletes it.
const REMOVE_LATE: &str = r#"mkdir -p /run/udev/rules.d; touch /run/late
cat >/run/udev/rules.d/99-late.rules <<'END'
ACTION=="change", KERNEL=="SSD", ENV{ID_PART_TABLE_TYPE}=="", PROGRAM="/bin/sh -c 'while [ -e /run/late ]; do sleep 0.1; done'"
END
udevadm control --reload
tandemctl remove --yes >/run/told 2>&1 &
while [ -n "$(blkid --probe --match-tag PTTYPE --output value /dev/SSD)" ]; do sleep 0.1; done
sleep 2; last=$(grep '^\[step' /run/told | tail -1)
rm /run/late /run/udev/rules.d/99-late.rules; wait; udevadm control --reload
cat /run/told; echo "two seconds later: $last"
case $last in *"Delete the partition"*) exit 0;; esac; exit 1"#;

// promise 32: vm-kill/create killed --step 2
// promise 32: vm-kill/remove killed --step 1
/// Runs the layer. Each test goes on from the moment before its job, in a machine of its own.
pub fn run(run: &mut Run) -> Result<()> {
    let plain = Before::new(run)?;
    let (creating, removing) = plain.steps;
    let create = format!("create {} {}", plain.disk, plain.ssd);
    let jobs = [
        ("create", create, creating),
        ("remove", "remove".to_owned(), removing),
        ("resize", format!("resize {}", SHARES[1]), RESIZING),
    ];
    for (job, line, number) in jobs {
        let all = steps(number).chain(instants(INSTANTS));
        let moments = sample::of(run, "moments of a job", all, ORDINARY)?;
        let wanted = |moment: &String| run.wants(&format!("{job} killed {moment}"));
        let moments: Vec<_> = moments.into_iter().filter(wanted).collect();
        let late = job == "resize" && run.wants(LATE);
        if moments.is_empty() && !late {
            continue;
        }
        let before = plain.before(run, job)?;
        let before = before.as_ref().unwrap_or(&plain.moment);
        for moment in moments {
            let result = plain.killed(run, before, job, &moment, &line);
            run.check(&format!("{job} killed {moment}"), result);
        }
        if late {
            let result = plain.removed_late(run, before);
            run.check(LATE, result);
        }
    }
    Ok(())
}

/// A machine without a cache, before any job, and what is known of it.
struct Before {
    parts: Parts,
    moment: Moment,
    /// The partition with the files, and the SSD.
    disk: String,
    ssd: String,
    /// Checksums of the files.
    files: String,
    /// Number of steps of creating a cache, and of removing it.
    steps: (u64, u64),
}

impl Before {
    fn new(run: &Run) -> Result<Self> {
        let parts = Parts::get(run.cx)?;
        let scratch = Scratch::new()?;
        let pair = disks::pair(&scratch)?;
        let (mut disk, mut ssd, mut files) = Default::default();
        let mut steps = (0, 0);
        let both = [&pair.origin, &pair.ssd];
        let moment = Moment::new(run.cx, &parts, &both, |vm| {
            disk = format!("{}1", vm.device(pair.origin.serial)?);
            ssd = vm.device(pair.ssd.serial)?;
            vm.mount()?;
            files = vm.checksums()?;
            steps = number_of_steps(vm, &disk, &ssd)?;
            Ok(())
        })?;
        Ok(Self {
            parts,
            moment,
            disk,
            ssd,
            files,
            steps,
        })
    }

    /// The moment before a job, if the job needs a cache.
    fn before(&self, run: &Run, job: &str) -> Result<Option<Moment>> {
        let line = match job {
            "remove" => self.create(),
            "resize" => self.share(),
            _ => return Ok(None),
        };
        self.moment
            .later(run.cx, &self.parts, |vm| vm.agent.sh(&line, LONG).map(drop))
            .map(Some)
    }

    /// The command that creates a cache.
    fn create(&self) -> String {
        format!(
            "tandemctl create --yes --erase-ssd {} {}",
            self.disk, self.ssd
        )
    }

    /// The command that creates a cache on a share of the SSD.
    fn share(&self) -> String {
        let (share, disk, ssd) = (SHARES[0], &self.disk, &self.ssd);
        format!("tandemctl create --yes --erase-ssd --partition {share} {disk} {ssd}")
    }

    /// Another share can be made at once then.
    fn removed_late(&self, run: &Run, before: &Moment) -> Result<()> {
        let mut vm = before.go_on(run.cx, &self.parts)?;
        let script = REMOVE_LATE.replace("SSD", &self.ssd);
        run.note(&vm.agent.sh(&script, LONG)?);
        vm.agent.sh(&self.share(), LONG)?;
        vm.agent.sh("tandemctl remove --yes", LONG)?;
        self.same_files(&mut vm)
    }

    /// Begins a job, kills the service during the job, and checks the state after the recovery.
    fn killed(
        &self,
        run: &Run,
        before: &Moment,
        job: &str,
        moment: &str,
        line: &str,
    ) -> Result<()> {
        let mut vm = before.go_on(run.cx, &self.parts)?;
        let told = vm
            .agent
            .sh(&format!("tandem-kill {moment} {line}"), RECOVERY)?;
        let start = Instant::now();
        let recovered = include_str!("../../guest/machine/recovered.sh");
        let state = vm.agent.sh(recovered, RECOVERY)?.trim().to_owned();
        let seconds = start.elapsed().as_secs_f32();
        run.note(&format!("{}: {state} after {seconds:.1} s", told.trim()));
        // A mapping without a cache is left only by a start of the machine in the middle of a removal.
        ensure!(state != "detached", "the mapping leads to the disk alone");
        // The file system is in use all the time, so this job is always finished.
        ensure!(
            job != "resize" || state == "cached",
            "the cache is gone: {state}"
        );
        self.same_files(&mut vm)?;
        // What comes next works as well.
        let next = match state.as_str() {
            "cached" => "tandemctl remove --yes".to_owned(),
            _ => self.create(),
        };
        vm.agent.sh(&next, LONG)?;
        let spent = vm.processor_time()?.as_secs();
        run.note(&format!("{spent} s of processor time"));
        Ok(())
    }

    /// The files are as before the job; they are read from the devices.
    fn same_files(&self, vm: &mut Vm) -> Result<()> {
        vm.drop_page_cache()?;
        ensure!(vm.checksums()? == self.files, "the files have changed");
        Ok(())
    }
}

/// Number of steps of creating a cache, and of removing it.
fn number_of_steps(vm: &mut Vm, disk: &str, ssd: &str) -> Result<(u64, u64)> {
    let line = format!("tandemctl --json plan --erase-ssd {disk} {ssd}");
    let plan: serde_json::Value = serde_json::from_str(vm.agent.sh(&line, SHORT)?.trim())?;
    let create = plan["plan"]["steps"]
        .as_array()
        .context("a plan has steps")?
        .len();
    // Removing undoes each step except loading the module. Before that it detaches the cache and frees the SSD.
    Ok((create as u64, create as u64 + 1))
}

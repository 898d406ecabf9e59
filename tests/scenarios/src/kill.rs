// SPDX-License-Identifier: GPL-3.0-or-later
//! The service is killed in the middle of its jobs. After its next start everything must be as before the job, or as
//! the job was to leave it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::moments::{SHARES, instants, steps};
use super::scene::Scene;
use tandem_guest::guest::{LONG, SHORT};
use tandem_harness::layer::Bench;
use tandem_harness::sample;

/// Instants at which the service is killed, besides every step.
const INSTANTS: u64 = 16;
/// How many of a job's moments are tested without `--all`.
const ORDINARY: usize = 3;
/// Steps of a change of the share of a cache with nothing dirty: detach, free, delete, create, map.
const RESIZING: u64 = 5;
/// Longest time for the service to recover; tests/guest/machine/recovered.sh tells after 180 seconds why the service has not.
pub(crate) const RECOVERY: Duration = Duration::from_secs(300);

/// The test of the wait for UDisks2, which shows a deleted partition table late on a busy machine.
const LATE: &str = "a removal waits until UDisks2 shows no partition table";
/// Removes the cache, while udev, and so UDisks2, does not see that the SSD has no partition table. Two seconds after the
/// table is gone, the removal must not be beyond the step that deletes it.
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
/// Runs the layer.
pub fn run(bench: &mut Bench) -> Result<()> {
    let mut scene = Scene::new(bench)?;
    let (creating, removing) = scene.steps()?;
    let moments = |bench: &Bench, number| {
        sample::of(
            bench,
            "moments of a job",
            steps(number).chain(instants(INSTANTS)),
            ORDINARY,
        )
    };
    let create = format!("create {} {}", scene.disk, scene.ssd);
    for moment in moments(bench, creating)? {
        if !bench.wants(&format!("create killed {moment}")) {
            continue;
        }
        let result = scene.killed(bench, &moment, &create).and_then(|state| {
            // A creation that was killed after its last step stays.
            if state == "cached" {
                scene.remove()
            } else {
                Ok(())
            }
        });
        let failed = result.is_err();
        bench.check(&format!("create killed {moment}"), result);
        if failed {
            scene = Scene::new(bench)?;
        }
    }
    for moment in moments(bench, removing)? {
        if !bench.wants(&format!("remove killed {moment}")) {
            continue;
        }
        let result = scene
            .create()
            .and_then(|()| scene.killed(bench, &moment, "remove"))
            .and_then(|state| {
                if state == "cached" {
                    scene.remove()
                } else {
                    Ok(())
                }
            });
        let failed = result.is_err();
        bench.check(&format!("remove killed {moment}"), result);
        if failed {
            scene = Scene::new(bench)?;
        }
    }
    for moment in moments(bench, RESIZING)? {
        if !bench.wants(&format!("resize killed {moment}")) {
            continue;
        }
        let result = scene
            .share()
            .and_then(|()| scene.killed(bench, &moment, &format!("resize {}", SHARES[1])))
            .and_then(|state| {
                // The file system is in use all the time, so the job is always finished.
                ensure!(state == "cached", "the cache is gone");
                scene.remove()
            });
        let failed = result.is_err();
        bench.check(&format!("resize killed {moment}"), result);
        if failed {
            scene = Scene::new(bench)?;
        }
    }
    if bench.wants(LATE) {
        let result = scene.removed_late(bench);
        bench.check(LATE, result);
    }
    Ok(())
}

impl Scene {
    /// Creates a cache on a share of the SSD.
    fn share(&mut self) -> Result<()> {
        let line = format!(
            "tandemctl create --yes --erase-ssd --partition {} {} {}",
            SHARES[0], self.disk, self.ssd
        );
        self.vm.agent.sh(&line, LONG).map(drop)
    }

    /// Another share can be made at once then.
    fn removed_late(&mut self, bench: &Bench) -> Result<()> {
        self.share()?;
        let script = REMOVE_LATE.replace("SSD", &self.ssd);
        bench.note(&self.vm.agent.sh(&script, LONG)?);
        self.share()?;
        self.remove()?;
        self.vm.drop_page_cache()?;
        ensure!(self.vm.checksums()? == self.files, "the files have changed");
        Ok(())
    }

    /// Begins a job, kills the service during the job, and returns the state after the recovery, `plain` or `cached`.
    fn killed(&mut self, bench: &Bench, moment: &str, job: &str) -> Result<String> {
        let told = self
            .vm
            .agent
            .sh(&format!("tandem-kill {moment} {job}"), RECOVERY)?;
        let start = Instant::now();
        let state = self
            .vm
            .agent
            .sh(include_str!("../../guest/machine/recovered.sh"), RECOVERY)?
            .trim()
            .to_owned();
        let seconds = start.elapsed().as_secs_f32();
        bench.note(&format!("{}: {state} after {seconds:.1} s", told.trim()));
        // Only a start of the machine in the middle of a removal leaves a mapping without a cache.
        ensure!(state != "detached", "the mapping leads to the disk alone");
        self.vm.drop_page_cache()?;
        ensure!(self.vm.checksums()? == self.files, "the files have changed");
        Ok(state)
    }

    /// Number of steps of creating a cache, and of removing it.
    fn steps(&mut self) -> Result<(u64, u64)> {
        let line = format!(
            "tandemctl --json plan --erase-ssd {} {}",
            self.disk, self.ssd
        );
        let plan: serde_json::Value = serde_json::from_str(self.vm.agent.sh(&line, SHORT)?.trim())?;
        let create = plan["plan"]["steps"]
            .as_array()
            .context("a plan has steps")?
            .len();
        // Removing undoes each step except loading the module. Before that it detaches the cache and frees the SSD.
        Ok((create as u64, create as u64 + 1))
    }
}

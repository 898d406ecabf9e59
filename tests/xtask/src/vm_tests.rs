// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests in the virtual machine: the main job by clicks, and what must hold when things go wrong.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::demo;
use crate::disks::{self, Pair, Scratch};
use crate::guest::{LONG, MOUNT_POINT, SHORT};
use crate::layer::{Bench, Layer};
use crate::stage;
use crate::vm::{Parts, Screen, Vm};

/// Random instants at which the service is killed, besides every step.
const INSTANTS: u64 = 6;
/// The same with `--all`.
const ALL_INSTANTS: u64 = 40;
/// A job takes about this long under emulation, in milliseconds; instants are spread over it.
const SPREAD: u64 = 4000;
/// The service is given this long to put things right.
const RECOVERY: Duration = Duration::from_secs(120);

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        Layer {
            name: "vm-refusals",
            about: "what is refused in a real system, and who may not",
            run: refusals,
        },
        Layer {
            name: "vm-kill",
            about: "kill -9 of the service at every step of create and remove",
            run: kill,
        },
        Layer {
            name: "vm-main",
            about: "the main job by clicks in the real app",
            run: main_job,
        },
    ]
}

fn main_job(bench: &mut Bench) -> Result<()> {
    let result = demo::once(bench.cx, Screen::Hidden, "main").map(drop);
    bench.check("wizard, cache, figures, removal, same bytes", result);
    Ok(())
}

/// A machine with the project installed and both disks plugged in, the partition mounted.
struct Scene {
    vm: Vm,
    disk: String,
    ssd: String,
    files: String,
    _scratch: Scratch,
}

impl Scene {
    fn new(bench: &Bench) -> Result<Self> {
        let parts = Parts::get(bench.cx)?;
        let stage = stage::build(bench.cx, &parts)?;
        let mut vm = Vm::start(bench.cx, &parts, Screen::Hidden)?;
        stage::install(&mut vm, &stage)?;
        let scratch = Scratch::new()?;
        let Pair { origin, ssd } = disks::pair(&scratch)?;
        vm.plug(&origin)?;
        vm.plug(&ssd)?;
        let (disk, ssd) = (vm.device(origin.serial)?, vm.device(ssd.serial)?);
        vm.mount()?;
        let files = vm.checksums()?;
        Ok(Self {
            vm,
            disk: format!("{disk}1"),
            ssd,
            files,
            _scratch: scratch,
        })
    }

    /// Begins a job, kills the service in it, and returns the state that it came to by itself, `plain` or `cached`.
    fn killed(&mut self, bench: &Bench, moment: &str, job: &str) -> Result<String> {
        let told = self
            .vm
            .agent
            .sh(&format!("tandem-kill {moment} {job}"), RECOVERY)?;
        let state = self
            .vm
            .agent
            .sh(include_str!("../../vm/recovered.sh"), RECOVERY)?
            .trim()
            .to_owned();
        bench.note(&format!("{}: {state}", told.trim()));
        self.vm.drop_page_cache()?;
        ensure!(self.vm.checksums()? == self.files, "the files have changed");
        Ok(state)
    }

    fn create(&mut self) -> Result<()> {
        let line = format!(
            "tandemctl create --yes --erase-ssd {} {}",
            self.disk, self.ssd
        );
        self.vm.agent.sh(&line, LONG).map(drop)
    }

    fn remove(&mut self) -> Result<()> {
        self.vm.agent.sh("tandemctl remove --yes", LONG).map(drop)
    }

    /// Steps of creating, and of removing.
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
        // What is left of removing after creating: as many, without loading the module, or one more.
        Ok((create as u64, create as u64))
    }
}

fn kill(bench: &mut Bench) -> Result<()> {
    let mut scene = Scene::new(bench)?;
    let (creating, removing) = scene.steps()?;
    let instants = if bench.all { ALL_INSTANTS } else { INSTANTS };
    let after = |n: u64| format!("--after {}", n * SPREAD / instants);
    let moments = |steps: u64| {
        (0..=steps)
            .map(|n| format!("--step {n}"))
            .chain((0..instants).map(after))
            .collect::<Vec<_>>()
    };
    let create = format!("create {} {}", scene.disk, scene.ssd);
    for moment in moments(creating) {
        let result = scene.killed(bench, &moment, &create).and_then(|state| {
            // A creation that was killed after its end stands.
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
    for moment in moments(removing) {
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
    Ok(())
}

/// One refusal: what is asked, the exit code of `tandemctl`, and what it is about.
const REFUSALS: &[(&str, i32, &str)] = &[
    ("the same device twice", 3, "tandemctl plan DISK DISK"),
    (
        "the disk of the running system",
        3,
        "tandemctl plan vda SSD",
    ),
    ("a mounted SSD", 3, "tandemctl plan --erase-ssd SSD DISK"),
    ("a disk with partitions", 3, "tandemctl plan WHOLE SSD"),
    (
        "an SSD that holds data, without a word about erasing",
        3,
        "mke2fs -q -F /dev/SSD && udevadm settle && tandemctl plan DISK SSD",
    ),
    (
        "an SSD with unknown content",
        3,
        "wipefs -qa /dev/SSD; dd if=/dev/urandom of=/dev/SSD bs=1M count=4 status=none; udevadm settle; tandemctl plan DISK SSD",
    ),
    (
        "a swap partition",
        3,
        "wipefs -qa /dev/SSD; mkswap -q /dev/SSD; udevadm settle; tandemctl plan SSD WHOLE",
    ),
    (
        "a user who may not",
        4,
        "blkdiscard --zeroout /dev/SSD; udevadm settle; runuser -u nobody -- tandemctl create --yes DISK SSD",
    ),
    (
        "a disk that is in use",
        3,
        "cd /home/anna/Archive; tandemctl create --yes DISK SSD",
    ),
];

fn refusals(bench: &mut Bench) -> Result<()> {
    let mut scene = Scene::new(bench)?;
    for (what, code, line) in REFUSALS {
        let whole = scene.disk.trim_end_matches('1').to_owned();
        let line = line
            .replace("DISK", &scene.disk)
            .replace("SSD", &scene.ssd)
            .replace("WHOLE", &whole);
        let result = refused(&mut scene, bench, &line, *code);
        bench.check(what, result);
    }
    Ok(())
}

fn refused(scene: &mut Scene, bench: &Bench, line: &str, code: i32) -> Result<()> {
    let ended = scene.vm.agent.run(line, SHORT, |_| ())?;
    bench.note(&format!("{line}: {}\n{}", ended.code, ended.text));
    ensure!(
        ended.code == code,
        "exit code {} instead of {code}: {}",
        ended.code,
        ended.text
    );
    let table = scene.vm.agent.sh("dmsetup table", SHORT)?;
    ensure!(!table.contains("tandem"), "there is a mapping: {table}");
    let mounted = scene.vm.agent.sh(
        &format!("findmnt --noheadings --output SOURCE {MOUNT_POINT}"),
        SHORT,
    )?;
    ensure!(
        mounted.trim() == format!("/dev/{}", scene.disk),
        "the disk is not mounted as before: {mounted}"
    );
    ensure!(
        scene.vm.checksums()? == scene.files,
        "the files have changed"
    );
    Ok(())
}

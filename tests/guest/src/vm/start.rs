// SPDX-License-Identifier: GPL-3.0-or-later
//! Waits for the start of a machine, after power on and after a restart.

use std::fs::{self, File};
use std::mem;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Guard, Vm};
use crate::agent::Agent;
use crate::patience::LOOK;
use crate::qmp::Qmp;
use tandem_harness::cx::say;
use tandem_harness::run;

/// Script whose end shows that the guest answers.
const TRUE: &str = "true";
/// The words of the guest's kernel about a processor that has slept past its timer. Only the emulator can cause this: it
/// has lost the timer. On a busy computer this happens in about one of 200 starts. A kernel that has lost the timers of all
/// processors says nothing.
const LOST_TIMER: &str = "kthread timer wakeup didn't happen";
/// The words with which QEMU ends by an assertion of its own, which has nothing to do with the guest: a processor of the
/// emulator uses the map of the memory while another changes that map. On a busy computer this happens in about one of
/// 400 starts.
const ABORTED: &str = "iotlb_to_section: Assertion";
/// How often a start is begun anew because of either.
const ANEW: usize = 2;
/// After so many looks at a machine that does nothing at all, its timers are lost.
const ASLEEP: u32 = 15;
/// Longest time from the end of QEMU's connections to the end of QEMU.
const ENDING: Duration = Duration::from_secs(10);
/// Time in which the guest's kernel writes its tasks to the console.
const TELLING: Duration = Duration::from_secs(10);
/// What the kernel writes before it lists the tasks that wait for a device.
const BLOCKED: &str = "sysrq: Show Blocked State";

impl Vm {
    /// Waits until the guest answers. If the guest does not, the error tells the processors' registers, the end of the
    /// console, and the tasks of the guest's kernel. If the emulator loses a timer during the start or ends by its own
    /// assertion, the start begins anew.
    pub fn up(&mut self, limit: Duration) -> Result<()> {
        let Err(error) = self.answered(limit) else {
            return Ok(());
        };
        let console = self.console();
        if let Some(status) = self.child.try_wait()? {
            return Err(error.context(format!(
                "QEMU has ended with {status}; it says: {}\nits machine's console:\n{}",
                run::tail(&said(&self.dir)),
                run::tail(&console)
            )));
        }
        let registers = json!({ "command-line": "info registers -a" });
        // Two readings show whether the processors move.
        let mut seen = || match self.qmp.run("human-monitor-command", registers.clone()) {
            Ok(text) => picked(text.as_str().unwrap_or_default()),
            Err(error) => format!("{error:#}"),
        };
        let (first, second) = (seen(), seen());
        let tasks = self.tasks().unwrap_or_else(|error| format!("{error:#}"));
        Err(error.context(format!(
            "the machine does not come up; its processors:\n{first}\n{second}\nits console:\n{}\nits tasks:\n{tasks}",
            run::tail(&console)
        )))
    }

    /// Asks the guest's kernel by keys, which it reads without any process, for the tasks of users and for the stacks of
    /// tasks that wait for a device. Without an answer the kernel itself does not run.
    fn tasks(&mut self) -> Result<String> {
        let before = self.console().len();
        // The console gets all messages; then all tasks are listed, then those that wait.
        for key in ["8", "t", "w"] {
            let keys = ["alt", "sysrq", key].map(|key| json!({ "type": "qcode", "data": key }));
            self.qmp.run("send-key", json!({ "keys": keys }))?;
            std::thread::sleep(TELLING);
        }
        let console = self.console();
        let told = console.get(before..).unwrap_or(&console);
        let (all, blocked) = told
            .split_once(BLOCKED)
            .with_context(|| format!("the kernel does not answer to keys: {told}"))?;
        let of_users = |line: &&str| line.contains("task:") && !line.contains("ppid:2 ");
        let lines = all.lines().filter(of_users).chain(blocked.lines());
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    /// Waits until the guest answers, and begins the start anew if the emulator fails.
    fn answered(&mut self, limit: Duration) -> Result<()> {
        let mut console = self.console().len();
        let (mut beats, mut quiet) = (0, 0);
        let mut anew = 0;
        let mut patience = self.agent.patience(limit);
        self.agent.begin(TRUE)?;
        loop {
            let answered = self.agent.is_answered(LOOK);
            if answered.is_err() && anew < ANEW && self.has_aborted()? {
                say("QEMU has ended by an assertion of its own: the start begins anew");
                self.launch_again()?;
                console = 0;
            } else if answered? || patience.is_over() {
                break;
            } else {
                let told = self.console();
                let before = mem::replace(&mut beats, self.beats().unwrap_or_default());
                quiet = if beats == before { quiet + 1 } else { 0 };
                let has_lost_one = told.get(console..).unwrap_or(&told).contains(LOST_TIMER);
                if anew == ANEW || (!has_lost_one && quiet < ASLEEP) {
                    continue;
                }
                say("the emulator has lost a timer of the machine: the start begins anew");
                self.qmp.run("system_reset", json!({}))?;
                console = told.len();
                self.connect_again()?;
            }
            quiet = 0;
            anew += 1;
            patience = self.agent.patience(limit);
            self.agent.begin(TRUE)?;
        }
        self.agent.finish(TRUE, patience, |_| ()).map(drop)
    }

    /// How often the emulator's processors have gone to sleep so far. An idle processor sleeps for some tenths of a second
    /// at most, since that is the longest time of its timer: while no processor has done so and none runs, the emulator
    /// has lost the timers of all.
    fn beats(&self) -> Result<u64> {
        let mut sum = self.processor_time()?.as_millis() as u64 / 100;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let status = fs::read_to_string(task?.path().join("status")).unwrap_or_default();
            let is_processor = status.starts_with("Name:\tCPU ");
            let mut lines = status.lines().filter(|_| is_processor);
            let slept = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sum += slept.map_or(Ok(0), |slept| slept.trim().parse())?;
        }
        Ok(sum)
    }

    /// Whether QEMU has ended by the assertion that [`ABORTED`] names.
    fn has_aborted(&mut self) -> Result<bool> {
        let end = Instant::now() + ENDING;
        let status = loop {
            match self.child.try_wait()? {
                Some(status) => break status,
                None if Instant::now() >= end => return Ok(false),
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        // SIGABRT
        Ok(status.signal() == Some(6) && said(&self.dir).contains(ABORTED))
    }

    /// Starts QEMU again, with the disks that are plugged in.
    fn launch_again(&mut self) -> Result<()> {
        let command = self.command.as_mut();
        let command = command.context("QEMU has lost the saved memory of this machine")?;
        (self.child, self.qmp, self.agent) = launch(command, &self.dir)?;
        for (command, arguments) in &self.plugged {
            self.qmp.run(command, arguments.clone())?;
        }
        Ok(())
    }

    /// Plugs a disk in or out by a command of QEMU.
    pub(super) fn change_disks(&mut self, command: &'static str, arguments: Value) -> Result<()> {
        self.qmp.run(command, arguments.clone())?;
        self.plugged.push((command, arguments));
        Ok(())
    }

    /// Runs a script that restarts the machine, with or without warning, and returns when the guest answers again.
    /// QEMU goes on: the machine has the same disks as before, and what the guest had in its memory is gone.
    pub fn restart(&mut self, script: &str, limit: Duration) -> Result<()> {
        // QEMU tells first of all events before this command.
        self.qmp.run("query-status", json!({}))?;
        let patience = self.agent.patience(limit);
        self.agent.begin(script)?;
        self.qmp.event("RESET", patience)?;
        self.connect_again()?;
        self.up(limit)
    }

    /// Connects to the agent anew: what the ended guest has left in the connection goes with the connection.
    fn connect_again(&mut self) -> Result<()> {
        self.agent = Agent::connect(&self.dir.join("agent0"), self.pid())?.asking(&self.second);
        Ok(())
    }
}

/// What QEMU has printed.
pub(super) fn said(dir: &Path) -> String {
    fs::read_to_string(dir.join("qemu.log")).unwrap_or_default()
}

/// Starts QEMU, whose sockets are in `dir`, and connects to them. If that fails, `dir` is removed.
pub(super) fn launch(command: &mut Command, dir: &Path) -> Result<(Child, Qmp, Agent)> {
    let errors = dir.join("qemu.log");
    let child = command
        .stdin(Stdio::null())
        .stdout(File::create(&errors)?)
        .stderr(File::options().append(true).open(&errors)?)
        .spawn()
        .context("cannot start QEMU")?;
    let guest = child.id();
    let mut guard = Guard(Some(child), dir.to_owned());
    let connect = || -> Result<_> {
        let qmp = Qmp::connect(&dir.join("qmp"), Duration::from_secs(30))?;
        Ok((
            qmp,
            Agent::connect(&dir.join("agent0"), guest)?.asking(&dir.join("agent1")),
        ))
    };
    let (qmp, agent) =
        connect().with_context(|| format!("QEMU says: {}", run::tail(&said(dir))))?;
    let child = guard.0.take().context("QEMU was started")?;
    Ok((child, qmp, agent))
}

/// The lines of QEMU's register dump that name the processors and where they are executing.
fn picked(registers: &str) -> String {
    let lines = registers.lines();
    let lines = lines.filter(|l| l.starts_with("CPU#") || l.starts_with("RIP="));
    lines.collect::<Vec<_>>().join("\n")
}

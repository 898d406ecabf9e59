// SPDX-License-Identifier: GPL-3.0-or-later
//! Waits for the start of a machine, after power on and after a restart.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use super::Vm;
use crate::agent::Agent;
use crate::cx::say;
use crate::run;

/// Script whose end shows that the guest answers.
const TRUE: &str = "true";
/// The words of the guest's kernel about a processor that has slept past its timer. Only the emulator can cause this: it
/// has lost the timer. On a busy computer this happens in about one of 200 starts.
const LOST_TIMER: &str = "kthread timer wakeup didn't happen";
/// How often a start is begun anew because of that.
const RESETS: usize = 2;
/// Time between two looks at the console.
const LOOK: Duration = Duration::from_secs(2);

impl Vm {
    /// Waits until the guest answers. If the guest does not, the error tells the processors' registers and the console. If
    /// the emulator loses a timer during the start, the machine is reset.
    pub fn up(&mut self, limit: Duration) -> Result<()> {
        let Err(error) = self.answered(limit) else {
            return Ok(());
        };
        let console = self.console();
        let registers = json!({ "command-line": "info registers -a" });
        // Two readings show whether the processors move.
        let mut seen = || match self.qmp.run("human-monitor-command", registers.clone()) {
            Ok(text) => picked(text.as_str().unwrap_or_default()),
            Err(error) => format!("{error:#}"),
        };
        let (first, second) = (seen(), seen());
        Err(error.context(format!(
            "the machine does not come up; its processors:\n{first}\n{second}\nits console:\n{}",
            run::tail(&console)
        )))
    }

    /// Waits until the guest answers, and resets the machine if the emulator loses a timer.
    fn answered(&mut self, limit: Duration) -> Result<()> {
        let mut console = self.console().len();
        let mut resets = 0;
        let mut end = Instant::now() + limit;
        self.agent.begin(TRUE)?;
        while !self.agent.is_answered(LOOK)? && Instant::now() < end {
            let told = self.console();
            if resets < RESETS && told.get(console..).unwrap_or(&told).contains(LOST_TIMER) {
                resets += 1;
                say("the emulator has lost a timer of the machine: the start begins anew");
                self.qmp.run("system_reset", json!({}))?;
                console = told.len();
                end = Instant::now() + limit;
                self.connect_again()?;
                self.agent.begin(TRUE)?;
            }
        }
        self.agent.finish(TRUE, end, |_| ()).map(drop)
    }

    /// Runs a script that restarts the machine, with or without warning, and returns when the guest answers again.
    /// QEMU goes on: the machine has the same disks as before, and what the guest had in its memory is gone.
    pub fn restart(&mut self, script: &str, limit: Duration) -> Result<()> {
        // QEMU tells first of all events before this command.
        self.qmp.run("query-status", json!({}))?;
        self.agent.begin(script)?;
        self.qmp.event("RESET", limit)?;
        self.connect_again()?;
        self.up(limit)
    }

    /// Connects to the agent anew: what the ended guest has left in the connection goes with the connection.
    fn connect_again(&mut self) -> Result<()> {
        self.agent = Agent::connect(&self.dir.join("agent0"))?.asking(&self.second);
        Ok(())
    }
}

/// The lines of QEMU's register dump that name the processors and where they are executing.
fn picked(registers: &str) -> String {
    let lines = registers.lines();
    let lines = lines.filter(|l| l.starts_with("CPU#") || l.starts_with("RIP="));
    lines.collect::<Vec<_>>().join("\n")
}

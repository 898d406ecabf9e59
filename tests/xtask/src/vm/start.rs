// SPDX-License-Identifier: GPL-3.0-or-later
//! Waits for the start of a machine, after power on and after a restart.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::Vm;
use crate::agent::Agent;
use crate::run;

impl Vm {
    /// Waits until the guest answers. If the guest does not, the error tells the processors' registers and the console.
    pub fn up(&mut self, limit: Duration) -> Result<()> {
        let Err(error) = self.agent.sh("true", limit) else {
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

    /// Runs a script that restarts the machine, with or without warning, and returns when the guest answers again.
    /// QEMU goes on: the machine has the same disks as before, and what the guest had in its memory is gone.
    pub fn restart(&mut self, script: &str, limit: Duration) -> Result<()> {
        // QEMU tells first of all events before this command.
        self.qmp.run("query-status", json!({}))?;
        self.agent.begin(script)?;
        self.qmp.event("RESET", limit)?;
        // What the ended guest has left in the connection goes with the connection.
        self.agent = Agent::connect(&self.dir.join("agent0"))?.asking(&self.second);
        self.up(limit)
    }
}

/// The lines of QEMU's register dump that name the processors and where they are executing.
fn picked(registers: &str) -> String {
    let lines = registers.lines();
    let lines = lines.filter(|l| l.starts_with("CPU#") || l.starts_with("RIP="));
    lines.collect::<Vec<_>>().join("\n")
}

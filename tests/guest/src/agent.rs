// SPDX-License-Identifier: GPL-3.0-or-later
//! The host's end of the guest's agent (tests/guest/machine/agent.c): runs shell scripts in the guest as root.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::patience::{LOOK, Patience};

/// Script that shows what the guest is doing, for when another script does not end in time.
const BUSY: &str = include_str!("../machine/busy.sh");
/// Longest run of that script.
const BUSY_LIMIT: Duration = Duration::from_secs(30);

/// One port of the guest's agent; it runs one script at a time.
pub struct Agent {
    reader: BufReader<UnixStream>,
    /// QEMU's process, which measures the time of the guest.
    guest: u32,
    /// Socket of another port, on which [`BUSY`] runs while a script hangs on the first.
    second: Option<PathBuf>,
}

/// How a script ended and what it printed on both outputs.
pub struct Ended {
    /// Exit code, or 128 plus the signal.
    pub code: i32,
    /// Both outputs, in the order in which they came.
    pub text: String,
}

impl Agent {
    /// Connects to the port's socket, which the process `guest` of QEMU opens before it answers on its control socket.
    pub fn connect(socket: &Path, guest: u32) -> Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("cannot connect to {}", socket.display()))?;
        Ok(Self {
            reader: BufReader::new(stream),
            guest,
            second: None,
        })
    }

    /// When a script does not end in time, [`BUSY`] runs on another port. No other connection may use that port then.
    pub fn asking(mut self, second: &Path) -> Self {
        self.second = Some(second.to_owned());
        self
    }

    /// Runs a script; calls `line` with each whole line of its output at once. The limit is in the guest's own time, as
    /// are all limits here.
    pub fn run(&mut self, script: &str, limit: Duration, line: impl FnMut(&str)) -> Result<Ended> {
        let patience = self.patience(limit);
        self.begin(script)?;
        self.finish(script, patience, line)
    }

    /// A wait for the guest that begins now.
    pub fn patience(&self, limit: Duration) -> Patience {
        Patience::new(self.guest, limit)
    }

    /// Waits for the answer to a script that was begun.
    pub fn finish(
        &mut self,
        script: &str,
        mut patience: Patience,
        mut line: impl FnMut(&str),
    ) -> Result<Ended> {
        let (mut bytes, mut told) = (Vec::new(), 0);
        loop {
            let head = match self.head(&mut patience) {
                Ok(head) => head,
                Err(error) => {
                    let printed = String::from_utf8_lossy(&bytes).into_owned();
                    let script = first_line(script);
                    bail!(
                        "in the guest: {script}: {error:#}\n{printed}{}",
                        self.doing()
                    );
                }
            };
            let (kind, number) = head
                .trim()
                .split_once(' ')
                .context("the agent speaks no sense")?;
            if kind == "X" {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if told < bytes.len() {
                    line(&String::from_utf8_lossy(&bytes[told..]));
                }
                return Ok(Ended {
                    code: number.parse()?,
                    text,
                });
            }
            let start = bytes.len();
            bytes.resize(start + number.parse::<usize>()?, 0);
            self.reader.read_exact(&mut bytes[start..])?;
            while let Some(length) = bytes[told..].iter().position(|byte| *byte == b'\n') {
                line(&String::from_utf8_lossy(&bytes[told..told + length]));
                told += length + 1;
            }
        }
    }

    /// Begins a script. A script that restarts the machine gives no answer.
    pub fn begin(&mut self, script: &str) -> Result<()> {
        let message = format!("{}\n{script}", script.len());
        let port = self.reader.get_mut();
        port.write_all(message.as_bytes())
            .context("the guest has gone")
    }

    /// Whether the answer to a script that was begun comes within this time; [`Self::finish`] reads the answer.
    pub fn is_answered(&mut self, within: Duration) -> Result<bool> {
        self.reader.get_ref().set_read_timeout(Some(within))?;
        match self.reader.fill_buf() {
            Ok([]) => bail!("the guest has gone"),
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                // The kernel ends the wait early when this process is stopped and goes on.
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(false),
                _ => Err(error.into()),
            },
        }
    }

    /// Runs a script that has to succeed, and returns its output.
    pub fn sh(&mut self, script: &str, limit: Duration) -> Result<String> {
        let ended = self.run(script, limit, |_| ())?;
        if ended.code != 0 {
            bail!(
                "in the guest: {} ended with {}:\n{}",
                first_line(script),
                ended.code,
                ended.text
            );
        }
        Ok(ended.text)
    }

    /// What the guest is doing, for a person who asks why a script did not end.
    fn doing(&self) -> String {
        let ask = |second: &Path| Self::connect(second, self.guest)?.run(BUSY, BUSY_LIMIT, |_| ());
        match self.second.as_deref().map(ask) {
            None => String::new(),
            Some(Ok(ended)) => ended.text,
            Some(Err(error)) => format!("the guest does not tell what it is doing: {error:#}"),
        }
    }

    fn head(&mut self, patience: &mut Patience) -> Result<String> {
        while !self.is_answered(LOOK)? {
            if patience.is_over() {
                bail!("it does not end in time");
            }
        }
        // The rest of a message comes from QEMU, which has begun to send it.
        self.reader.get_ref().set_read_timeout(None)?;
        let mut head = String::new();
        match self.reader.read_line(&mut head) {
            Ok(0) => bail!("the guest has gone"),
            Ok(_) => Ok(head),
            Err(error) => Err(error.into()),
        }
    }
}

fn first_line(script: &str) -> &str {
    let comment = |line: &&str| !line.is_empty() && !line.starts_with('#');
    script.lines().map(str::trim).find(comment).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_wait_goes_on_after_this_process_was_stopped() {
        let (_guest, host) = UnixStream::pair().unwrap();
        let mut agent = Agent {
            reader: BufReader::new(host),
            guest: std::process::id(),
            second: None,
        };
        let stops = "for i in 1 2 3 4; do sleep 0.1; kill -STOP $0; sleep 0.1; kill -CONT $0; done";
        let mut stops = Command::new("sh")
            .args(["-c", stops, &std::process::id().to_string()])
            .spawn()
            .unwrap();
        while stops.try_wait().unwrap().is_none() {
            assert!(!agent.is_answered(Duration::from_millis(500)).unwrap());
        }
    }
}

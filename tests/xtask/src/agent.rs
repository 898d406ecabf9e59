// SPDX-License-Identifier: GPL-3.0-or-later
//! The host's end of the guest's agent (tests/vm/agent.c): runs shell scripts in the guest as root.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// One port of the guest's agent; it runs one script at a time.
pub struct Agent {
    reader: BufReader<UnixStream>,
}

/// How a script ended and what it printed on both outputs.
pub struct Ended {
    /// Exit code, or 128 plus the signal.
    pub code: i32,
    /// Both outputs, in the order in which they came.
    pub text: String,
}

impl Agent {
    /// Connects to the port's socket, which QEMU opens before it answers on its control socket.
    pub fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("cannot connect to {}", socket.display()))?;
        Ok(Self {
            reader: BufReader::new(stream),
        })
    }

    /// Runs a script; each whole line that it prints goes to `line` as it comes.
    pub fn run(
        &mut self,
        script: &str,
        limit: Duration,
        mut line: impl FnMut(&str),
    ) -> Result<Ended> {
        let end = Instant::now() + limit;
        let message = format!("{}\n{script}", script.len());
        self.reader
            .get_mut()
            .write_all(message.as_bytes())
            .context("the guest has gone")?;
        let (mut bytes, mut told) = (Vec::new(), 0);
        loop {
            let head = self.head(end).with_context(|| {
                format!(
                    "in the guest, {limit:?} at most: {}\n{}",
                    first_line(script),
                    String::from_utf8_lossy(&bytes)
                )
            })?;
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

    /// Runs a script that has to succeed, and returns what it printed.
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

    fn head(&mut self, end: Instant) -> Result<String> {
        let left = end
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero());
        let left = left.context("time is up")?;
        self.reader.get_ref().set_read_timeout(Some(left))?;
        let mut head = String::new();
        if self.reader.read_line(&mut head)? == 0 {
            bail!("the guest has gone");
        }
        Ok(head)
    }
}

fn first_line(script: &str) -> &str {
    script.trim().lines().next().unwrap_or("")
}

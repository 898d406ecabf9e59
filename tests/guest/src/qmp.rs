// SPDX-License-Identifier: GPL-3.0-or-later
//! QEMU's control socket.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::patience::{LOOK, Patience};

/// Longest wait for an answer, and longest time of [`Qmp::until`]. Saving a machine takes less.
const LIMIT: Duration = Duration::from_secs(120);

/// A connection on which QEMU accepts commands.
pub struct Qmp {
    reader: BufReader<UnixStream>,
}

impl Qmp {
    /// Connects as soon as QEMU has made its socket.
    pub fn connect(socket: &Path, limit: Duration) -> Result<Self> {
        let end = Instant::now() + limit;
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > end => {
                    return Err(error).context("QEMU does not open its control socket");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        stream.set_read_timeout(Some(LIMIT))?;
        let mut qmp = Self {
            reader: BufReader::new(stream),
        };
        // QEMU sends a greeting first. Then `qmp_capabilities` makes QEMU accept other commands.
        qmp.read_message()?;
        qmp.run("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Runs one command and returns its answer. Events before the answer are skipped.
    pub fn run(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let mut text = json!({ "execute": command, "arguments": arguments }).to_string();
        text.push('\n');
        self.reader
            .get_mut()
            .write_all(text.as_bytes())
            .with_context(|| format!("QEMU has gone before {command}"))?;
        loop {
            let mut answer = self
                .read_message()
                .with_context(|| format!("no answer to {command}"))?;
            if let Some(error) = answer.get("error") {
                bail!(
                    "QEMU refuses {command}: {}",
                    error["desc"].as_str().unwrap_or("no reason given")
                );
            }
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    /// Runs the command again and again until `done` accepts its answer.
    pub fn until(
        &mut self,
        command: &str,
        mut done: impl FnMut(&Value) -> Result<bool>,
    ) -> Result<()> {
        let end = Instant::now() + LIMIT;
        loop {
            let answer = self.run(command, json!({}))?;
            if done(&answer)? {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("{command} says after {} s: {answer}", LIMIT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until QEMU tells of an event, as long as the guest has time.
    pub fn event(&mut self, name: &str, mut patience: Patience) -> Result<()> {
        self.reader.get_ref().set_read_timeout(Some(LOOK))?;
        loop {
            match self.reader.fill_buf() {
                Ok(_) => {
                    let message = self.read_message()?;
                    if message["event"] == name {
                        break;
                    }
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
                {
                    ensure!(!patience.is_over(), "waited in vain for {name}");
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.reader.get_ref().set_read_timeout(Some(LIMIT))?;
        Ok(())
    }

    /// Takes a picture of the guest's screen.
    pub fn screenshot(&mut self, png: &Path) -> Result<()> {
        self.run("screendump", json!({ "filename": png, "format": "png" }))
            .map(drop)
    }

    fn read_message(&mut self) -> Result<Value> {
        let mut text = String::new();
        if self.reader.read_line(&mut text)? == 0 {
            bail!("QEMU has closed its control socket");
        }
        Ok(serde_json::from_str(&text)?)
    }
}

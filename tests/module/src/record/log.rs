// SPDX-License-Identifier: GPL-3.0-or-later
//! The one log of all that is served, shared by the threads that serve.
//!
//! The log goes to its file piece by piece: a program in User-mode Linux has room for some 250 MB, and the disks are
//! in the same memory.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use tandem_record_log as format;
use tandem_record_log::{Device, Head, Writer};

use super::nbd::{Request, Verb};
use crate::io::SECTOR;

/// Bytes of the log that stay in memory.
const KEPT: usize = 1 << 20;

/// The log with its file.
struct Saved {
    writer: Writer,
    file: File,
}

impl Saved {
    /// Logs a request, and saves if enough came together.
    fn begin(&mut self, request: format::Request<'_>) -> Result<u32> {
        let number = self.writer.begin(request);
        if self.writer.bytes().len() > KEPT {
            self.save()?;
        }
        Ok(number)
    }

    /// Puts what is in memory into the file.
    fn save(&mut self) -> Result<()> {
        let bytes = self.writer.take();
        self.file.write_all(&bytes).context("cannot write the log")
    }
}

/// A handle of the log.
#[derive(Clone)]
pub struct Log(Arc<Mutex<Saved>>);

impl Log {
    /// Begins it in a new file.
    pub fn new(head: Head, path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        let writer = Writer::new(head);
        Ok(Self(Arc::new(Mutex::new(Saved { writer, file }))))
    }

    fn saved(&self) -> MutexGuard<'_, Saved> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request came. Reads are not logged.
    pub fn begin(&self, device: Device, request: &Request) -> Result<Option<u32>> {
        let verb = match (request.verb, request.fua) {
            (Verb::Read | Verb::Disconnect, _) => return Ok(None),
            (Verb::Write, false) => format::Verb::Write,
            (Verb::Write, true) => format::Verb::WriteFua,
            (Verb::Zero, false) => format::Verb::Zero,
            (Verb::Zero, true) => format::Verb::ZeroFua,
            (Verb::Flush, _) => format::Verb::Flush,
        };
        let number = self.saved().begin(format::Request {
            device,
            verb,
            sector: request.offset / SECTOR as u64,
            count: u32::try_from(request.length / SECTOR)?,
            data: &request.data,
        })?;
        Ok(Some(number))
    }

    /// A request is done, and the next thing is to say so.
    pub fn end(&self, number: Option<u32>) {
        if let Some(number) = number {
            self.saved().writer.end(number);
        }
    }

    /// Content that was there before the recording, as a write that is durable before anything else happens.
    pub fn given(&self, request: format::Request<'_>) -> Result<()> {
        let mut saved = self.saved();
        let number = saved.begin(request)?;
        saved.writer.end(number);
        Ok(())
    }

    /// Notes what the guest knows now.
    pub fn mark(&self, text: &str) {
        self.saved().writer.mark(text);
    }

    /// Puts the rest of the log into its file.
    pub fn finish(&self) -> Result<()> {
        self.saved().save()
    }
}

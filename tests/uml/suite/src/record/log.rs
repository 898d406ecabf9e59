// SPDX-License-Identifier: GPL-3.0-or-later
//! The one log of all that is served, shared by the threads that serve.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use tandem_record_log as format;
use tandem_record_log::{Device, Head, Writer};

use super::nbd::{Request, Verb};
use crate::io::SECTOR;

/// A handle of the log.
#[derive(Clone)]
pub struct Log(Arc<Mutex<Writer>>);

impl Log {
    /// Begins it.
    pub fn new(head: Head) -> Self {
        Self(Arc::new(Mutex::new(Writer::new(head))))
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
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
        Ok(Some(self.writer().begin(format::Request {
            device,
            verb,
            sector: request.offset / SECTOR as u64,
            count: u32::try_from(request.length / SECTOR)?,
            data: &request.data,
        })))
    }

    /// It is done, and the next thing is to say so.
    pub fn end(&self, number: Option<u32>) {
        if let Some(number) = number {
            self.writer().end(number);
        }
    }

    /// Content that was there before the recording, as a write that is durable before anything else happens.
    pub fn given(&self, request: format::Request<'_>) {
        let mut writer = self.writer();
        let number = writer.begin(request);
        writer.end(number);
    }

    /// Notes what the guest knows now.
    pub fn mark(&self, text: &str) {
        self.writer().mark(text);
    }

    /// Puts the log into a file.
    pub fn save(&self, path: &std::path::Path) -> Result<()> {
        std::fs::write(path, self.writer().bytes())
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! What a mapping tells, and what it is told.

use super::{Control, DmResult, failed, other};
use crate::machine::block_traffic;
use crate::machine::dm::dm_cache;
use crate::machine::dm::message::Message;
use crate::machine::dm::status::StatusLine;
use crate::machine::dm::table::{DM_CACHE, TARGET};
use devicemapper::{DmFlags, DmOptions};
use std::path::Path;
use tandem_api::SECTOR_BYTES;

impl Control {
    /// Sends a message to an attached mapping.
    ///
    /// # Errors
    /// If there is no such mapping, or the target refuses the message.
    pub fn send_message(&self, uuid: &str, message: Message) -> DmResult<()> {
        self.with(uuid, |id| {
            let is_dm_cache = self
                .table(id)?
                .iter()
                .any(|(.., target, _)| target == DM_CACHE);
            if is_dm_cache {
                return dm_cache::takes(message).map_err(|e| other("tell the mapping", e));
            }
            self.dm
                .target_msg(id, None, &message.to_string())
                .map(drop)
                .map_err(failed("tell the mapping"))
        })
    }

    /// Status line of an attached mapping.
    ///
    /// # Errors
    /// If there is no such mapping, or its line is not of the documented form.
    pub fn status(&self, uuid: &str) -> DmResult<StatusLine> {
        self.line(uuid).map(|(line, _)| line)
    }

    /// As [`Self::status`], with the sectors that were read and written through a mapping of dm-cache since it was made.
    ///
    /// # Errors
    /// As for [`Self::status`], or if the kernel does not tell the sectors.
    pub fn status_and_sectors(&self, uuid: &str) -> DmResult<(StatusLine, Option<[u64; 2]>)> {
        let (line, of_dm_cache) = self.line(uuid)?;
        let sectors = of_dm_cache.map(|name| {
            let traffic = block_traffic::traffic(Path::new("/sys"), &name);
            let traffic = traffic.ok_or_else(|| other("read the traffic", "no such device"))?;
            Ok([traffic.read, traffic.written].map(|bytes| bytes / SECTOR_BYTES))
        });
        Ok((line, sectors.transpose()?))
    }

    /// The status line, and the kernel name of the mapping if dm-cache serves it.
    fn line(&self, uuid: &str) -> DmResult<(StatusLine, Option<String>)> {
        self.with(uuid, |id| {
            let options = DmOptions::default().set_flags(DmFlags::DM_NOFLUSH);
            let (info, lines) = self
                .dm
                .table_status(id, options)
                .map_err(failed("read the status"))?;
            let ours = |(.., target, _): &&(u64, u64, String, String)| {
                [TARGET, DM_CACHE].contains(&target.as_str())
            };
            let line = lines.iter().find(ours);
            let (.., target, text) =
                line.ok_or_else(|| other("read the status", "not attached"))?;
            if target == DM_CACHE {
                let line = dm_cache::status_line(text);
                let line = line.ok_or_else(|| other("understand the status", text))?;
                return Ok((line, Some(format!("dm-{}", info.device().minor))));
            }
            let line = text
                .parse()
                .map_err(|e| other("understand the status", e))?;
            Ok((line, None))
        })
    }
}

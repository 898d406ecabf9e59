// SPDX-License-Identifier: GPL-3.0-or-later
//! The moment in which no request to a mapping is under way: the superblock on the SSD is cleared, and the mapping leads to the
//! disk alone from then on. A process may be killed in it.

use super::{Bare, Before, told};
use crate::kinds::failed;
use crate::kinds::list::named;
use crate::kinds::notes::Note;
use crate::machine::dm::control::{Control, Foreign};
use crate::machine::dm::table::LINEAR;
use crate::machine::mounts::nodes::device_number;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use tandem_api::Failure;

/// Bytes of a superblock of dm-cache and of dm-writecache. The targets take a superblock of zeroes for a new SSD.
const SUPERBLOCK_BYTES: usize = 4096;

impl Bare {
    /// Has the mapping lead to the disk alone. A note says so meanwhile: see [`Self::finish`].
    pub(super) fn pause(
        &self,
        control: &Control,
        mapping: &Foreign,
        before: &Before,
        note: &Note,
    ) -> Result<(), Failure> {
        note.paused(true).map_err(failed)?;
        let replaced = control.replace(mapping, &before.disk, |status| {
            let now = Foreign {
                status: status.to_owned(),
                ..mapping.clone()
            };
            self.clear_if_clean(&now, before)
        });
        let waits = || {
            control
                .foreign_named(&mapping.name)
                .is_some_and(|now| now.suspended)
        };
        if replaced.is_ok() || !waits() {
            note.paused(false).map_err(failed)?;
        }
        replaced.map_err(failed)
    }

    /// Ends a pause in which a process was killed: the mapping leads to the disk alone if that can be, or goes on as before.
    pub(super) fn finish(
        &self,
        control: &Control,
        mapping: &Foreign,
        before: &Before,
    ) -> Result<(), Failure> {
        if mapping.target == LINEAR {
            return control.end_pause(&mapping.name).map_err(failed);
        }
        let loaded = control.loaded_by_name(&mapping.name).map_err(failed)?;
        let alone = (LINEAR.to_owned(), before.alone());
        let clean = match loaded == Some(alone) {
            true => self.clear_if_clean(mapping, before),
            false => Err("another table is loaded".to_owned()),
        };
        match clean {
            Ok(()) => control.end_pause(&mapping.name).map_err(failed),
            Err(e) => {
                tracing::warn!("the cache {} stays: {e}", mapping.name);
                control.take_back(&mapping.name).map_err(failed)
            }
        }
    }

    /// No request is under way. Clears the superblock, if the disk has everything, also after a power cut.
    fn clear_if_clean(&self, mapping: &Foreign, before: &Before) -> Result<(), String> {
        if told(mapping).and_then(|told| told.unwritten_bytes) != Some(0) {
            return Err(format!("not clean: {}", mapping.status));
        }
        let clear = || -> io::Result<()> {
            node(&before.disk, OFlags::empty())?.sync_all()?;
            self.clear(&before.superblock)
        };
        clear().map_err(|e| e.to_string())
    }

    /// Writes zeroes over a superblock. The target has written it past the page cache, where something older may be: what was
    /// there before, or what a write of ours that failed has left.
    fn clear(&self, (number, place): &(String, u64)) -> io::Result<()> {
        let file = node(number, OFlags::DIRECT)?;
        let mut block = Block([0; SUPERBLOCK_BYTES]);
        file.read_exact_at(&mut block.0, *place)?;
        if block.0.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let (at, mark) = self.mark;
        if block.0.get(at..at + mark.len()) != Some(&mark) {
            return Err(io::Error::other("no superblock is there"));
        }
        file.write_all_at(&Block([0; SUPERBLOCK_BYTES]).0, *place)?;
        file.sync_all()
    }

    /// Ends the pause that a killed process has left, if this note is of such a mapping of this target.
    pub(in crate::kinds) fn end_pause(&self, note: &Note) {
        if !note.pausing {
            return;
        }
        let (Ok(before), Ok(control)) = (note.before::<Before>(), Control::open()) else {
            return;
        };
        let mapping = control.foreign_named(&note.removal.name);
        let paused = |mapping: &Foreign| {
            let target = [self.target, LINEAR].contains(&mapping.target.as_str());
            target && mapping.suspended && before.is_of(mapping)
        };
        let Some(mapping) = mapping.filter(paused) else {
            return;
        };
        let ended = self.finish(&control, &mapping, &before);
        if let Err(e) = ended.and_then(|()| note.paused(false).map_err(failed)) {
            tracing::error!("{} stays suspended: {e}", mapping.name);
        }
    }
}

/// Memory as a request past the page cache needs it.
#[repr(align(4096))]
struct Block([u8; SUPERBLOCK_BYTES]);

/// The device with this number.
fn node(number: &str, flags: OFlags) -> io::Result<File> {
    let name = named(number).ok_or(io::ErrorKind::NotFound)?;
    // The kernel writes a folder in a name so.
    let node = Path::new("/dev").join(name.replace('!', "/"));
    let mut options = OpenOptions::new();
    options.custom_flags(flags.bits().cast_signed());
    let file = options.read(true).write(true).open(node)?;
    if device_number(file.metadata()?.rdev()) != *number {
        return Err(io::Error::other("another device has taken the name"));
    }
    Ok(file)
}

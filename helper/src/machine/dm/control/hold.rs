// SPDX-License-Identifier: GPL-3.0-or-later
//! Holds disks, so that no program uses them until their cache is mapped.

use super::{Control, DmResult, lines_of, other};
use crate::machine::dm::mapping::Mapping;
use crate::machine::dm::table::Linear;
use crate::model::action::Pair;
use tandem_api::Target;

impl Control {
    /// Kernel name of a mapping that only holds its disk. Its table may be any: a crash may have ended an attempt
    /// after it replaced the table that held the disk first.
    pub(super) fn held(&self, pair: &Pair) -> DmResult<Option<String>> {
        Ok(self.waiting(pair)?.map(|(name, ..)| name))
    }

    /// Holds the disk again, whatever table the mapping has by now.
    pub(super) fn hold_again(&self, pair: &Pair, disk: &Linear) -> DmResult<()> {
        let disks = std::slice::from_ref(disk);
        if self.idle(pair)? {
            return self.load_disks(&pair.uuid, disks);
        }
        // A table that came into force and could not start stays until the mapping is removed.
        self.unmap(&pair.uuid)?;
        self.hold(pair, disks, 1)
    }

    /// Keeps disks from every program until [`Self::map`] replaces the hold. A hold is a mapping whose table never
    /// comes into force. Because of it the kernel refuses the disks to every program that wants exclusive use, and
    /// nothing can be read or written through the mapping. A held disk stays held if another disk cannot be held.
    ///
    /// `needed`: so many disks, counted from the first, have to be held. The others are copies of the first disk; a
    /// failure to hold one of them is no error.
    ///
    /// Where the mapping is in force and its disk is gone, the disks are held beside it.
    ///
    /// If another process is about to put in force a table over one of the disks, that table keeps the disk as well,
    /// and stays.
    ///
    /// # Errors
    /// `EBUSY` if a program already uses a needed disk. An error also if the mapping passes everything to its disk.
    pub fn hold(&self, pair: &Pair, disks: &[Linear], needed: usize) -> DmResult<()> {
        let held = match self.mapping(pair)? {
            Mapping::Works { .. } => return Ok(()),
            // The mapping's disk is back as another device.
            Mapping::LeadsNowhere(held) => {
                return hold_each(disks, needed, &held, |disks| {
                    self.load(&pair.uuid, &beside(disks))
                });
            }
            Mapping::PassesThrough(_) => return Err(other("hold", "the mapping passes through")),
            Mapping::Starting(number) | Mapping::Halted { origin: number, .. } => {
                return match disks.iter().any(|disk| disk.device == number) {
                    true => Ok(()),
                    false => Err(other("hold", "it is about to use another device")),
                };
            }
            Mapping::Holds(held) => held,
            Mapping::None => Vec::new(),
        };
        if !self.idle(pair)? {
            self.create(pair)?;
        }
        let loaded = hold_each(disks, needed, &held, |disks| {
            self.load_disks(&pair.uuid, disks)
        });
        if loaded.is_err() && self.waiting(pair)?.is_none() {
            self.unmap(&pair.uuid)?;
        }
        loaded
    }

    /// Removes the mapping. Afterwards the disk is held if something may be on the SSD only, or if it was held
    /// before.
    ///
    /// # Errors
    /// `EBUSY` if the mapping is in use, or if another program opened the disk first.
    pub fn disassemble(&self, pair: &Pair, disk: &Linear) -> DmResult<()> {
        if self.held(pair)?.is_some() {
            return self.hold_again(pair, disk);
        }
        // In write-through the disk lacks nothing, whatever dm-cache can tell.
        let lacks = pair.target == Target::Tandem
            && self
                .mapping(pair)?
                .lacks(self.status(&pair.uuid).ok().as_ref());
        self.unmap(&pair.uuid)?;
        if lacks {
            self.hold(pair, std::slice::from_ref(disk), 1)?;
        }
        Ok(())
    }
}

/// A table that keeps these disks from every program while a mapping is in use whose own disk is gone. The table waits
/// beside the one in force. If a program put it in force, each request above would fail as before.
pub(super) fn beside(disks: &[Linear]) -> Vec<(u64, u64, String, String)> {
    let dead = disks.first().map_or(0, |disk| disk.sectors);
    let mut lines = vec![(0, dead, "error".to_owned(), String::new())];
    lines.extend(lines_of(disks, dead));
    lines
}

/// Holds as many of the disks as possible, by loading a table of them. `held`: numbers of the disks that are held
/// already.
///
/// # Errors
/// Why one of the first `needed` disks is not held.
pub(super) fn hold_each(
    disks: &[Linear],
    needed: usize,
    held: &[String],
    load: impl Fn(&[Linear]) -> DmResult<()>,
) -> DmResult<()> {
    let is_held = |disk: &&Linear| held.contains(&disk.device);
    if disks.iter().all(|disk| is_held(&disk)) || load(disks).is_ok() {
        return Ok(());
    }
    // The disks that are held already come first: none of them is released to hold another.
    let mut holding: Vec<Linear> = disks.iter().filter(is_held).cloned().collect();
    let mut result = Ok(());
    for (at, disk) in disks.iter().enumerate().filter(|(_, disk)| !is_held(disk)) {
        holding.push(disk.clone());
        if let Err(e) = load(&holding) {
            holding.pop();
            tracing::warn!("{} is not held: {e}", disk.device);
            if at < needed {
                result = result.and(Err(e));
            }
        }
    }
    result
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Simulated partitions that are made for caches on a shared SSD.

use super::failed;
use super::world::{Block, Scene};
use tandem_api::{Failure, Kind};
use tandem_helper::model::action::{PARTITION_TYPE, Pair};

impl Scene {
    /// Kernel name of the partition that was made for a cache.
    fn made_partition(&self, pair: &Pair) -> Option<String> {
        let made =
            |b: &&Block| b.part_name == pair.partition_name() && b.part_type == PARTITION_TYPE;
        let mut blocks = self.blocks.iter();
        blocks.find(|(_, b)| made(b)).map(|(name, _)| name.clone())
    }

    /// Makes the partition of a pair in free space, with the table if the SSD has none.
    pub fn create_partition(&mut self, pair: &Pair) -> Result<(), Failure> {
        let planned = pair
            .partition
            .as_ref()
            .ok_or_else(|| failed("none is planned"))?;
        if self.made_partition(pair).is_some() {
            return Ok(());
        }
        let whole = self.locate(&planned.disk)?;
        let others = self
            .blocks
            .values()
            .filter(|b| b.whole.as_deref() == Some(whole.as_str()));
        let (from, to) = (planned.start, planned.start + planned.size);
        if others
            .clone()
            .any(|b| b.start < to && from < b.start + b.size)
        {
            return Err(failed("the space is not free"));
        }
        let number = others.map(|b| b.number).max().unwrap_or(0) + 1;
        let Some(disk) = self.blocks.get_mut(&whole) else {
            return Err(failed("no such SSD"));
        };
        let makes_table = planned.new_table && disk.blank;
        if !(disk.table || makes_table) {
            return Err(failed("the SSD is not empty"));
        }
        disk.table = true;
        disk.blank = false;
        let block = Block {
            drive: disk.drive.clone(),
            whole: Some(whole.clone()),
            number,
            start: from,
            size: planned.size,
            part_type: PARTITION_TYPE.to_owned(),
            part_name: pair.partition_name(),
            blank: true,
            diskseq: disk.diskseq,
            ..Block::default()
        };
        let between = if whole.ends_with(|c: char| c.is_ascii_digit()) {
            "p"
        } else {
            ""
        };
        self.blocks
            .insert(format!("{whole}{between}{number}"), block);
        Ok(())
    }

    /// Makes the partition of a pair as large as the pair says, in its place.
    pub fn resize_partition(&mut self, pair: &Pair) -> Result<(), Failure> {
        let name = self
            .made_partition(pair)
            .ok_or_else(|| failed("no such partition"))?;
        let (start, end) = (pair.ssd.start, pair.ssd.start + pair.ssd.text.size);
        let whole = self.blocks.get(&name).and_then(|b| b.whole.clone());
        let room = whole.as_ref().and_then(|whole| self.blocks.get(whole));
        let room = room.map_or(0, |whole| whole.size);
        let taken = self.blocks.iter().any(|(other, b)| {
            *other != name && b.whole == whole && b.start < end && start < b.start + b.size
        });
        match self.blocks.get_mut(&name) {
            Some(block) if block.start == start && !taken && end <= room => {
                block.size = end - start;
                Ok(())
            }
            _ => Err(failed("the space is not free")),
        }
    }

    /// Deletes the partition of a pair, and the partition table if the table was made for this partition alone.
    pub fn delete_partition(&mut self, pair: &Pair) -> Result<(), Failure> {
        let planned = pair
            .partition
            .as_ref()
            .ok_or_else(|| failed("none is planned"))?;
        if let Some(name) = self.made_partition(pair) {
            let content = |b: &Block| !matches!(b.kind.as_str(), "" | "tandem");
            if self.busy(&name, &pair.uuid) || self.blocks.get(&name).is_some_and(content) {
                return Err(Failure::new(Kind::StepFailed).detail("the partition is in use"));
            }
            if let Some(gone) = self.blocks.remove(&name) {
                self.lost += gone.dirty;
            }
        }
        let whole = self.locate(&planned.disk)?;
        let left = |b: &Block| b.whole.as_deref() == Some(whole.as_str());
        if planned.new_table && !self.blocks.values().any(left) {
            self.wipe(&whole);
        }
        Ok(())
    }
}

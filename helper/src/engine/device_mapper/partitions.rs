// SPDX-License-Identifier: GPL-3.0-or-later
//! Making and deleting the partition of a cache on an SSD that is shared. UDisks2 changes the partition table; other
//! partitions of the SSD may be in use meanwhile.

use super::{CHANGE_TIMEOUT, DeviceMapper, PAUSE, blocking, step};
use crate::action::{PARTITION_TYPE, Pair, Partition};
use crate::engine::Engine;
use crate::facts::Device;
use crate::wipe;
use std::collections::HashMap;
use tandem_api::udisks::UDISKS;
use tandem_api::{Failure, Kind};
use zbus::{OwnedObjectPath, Variant};

/// Why a partition that was made is not deleted.
const PARTITION_STAYS: &str =
    "the partition of the cache is in use or has other content now, and stays";

impl DeviceMapper {
    /// Makes the partition of a pair, and wipes what an earlier use of that space has left there.
    pub(super) async fn create_partition(&self, pair: &Pair) -> Result<(), Failure> {
        let partition = planned(pair)?;
        let made = match self.made_partition(pair).await? {
            Some(made) => made,
            None => {
                let disk = self.locate(&partition.disk).await?;
                if partition.new_table && !disk.partitioned {
                    self.create_table(&disk).await?;
                }
                let arguments = (
                    partition.start,
                    partition.size,
                    PARTITION_TYPE,
                    pair.partition_name(),
                    options(),
                );
                self.call_udisks(&disk, "PartitionTable", "CreatePartition", &arguments)
                    .await?;
                self.shown_partition(pair).await?
            }
        };
        let inside = made.ident.start >= partition.start
            && made.ident.start + made.ident.text.size <= partition.start + partition.size;
        if !inside || made.ident.part_uuid.is_empty() {
            return Err(step("the new partition is not where it was planned"));
        }
        let ident = made.ident;
        blocking(move || wipe::erase(&ident))
            .await?
            .map_err(|e| step(&e.to_string()))
    }

    /// Deletes the partition of a pair, and the partition table if it was made for this partition alone. A partition
    /// that is in use or has other content now belongs to another program, and stays.
    pub(super) async fn delete_partition(&self, pair: &Pair) -> Result<(), Failure> {
        let partition = planned(pair)?;
        if let Some(made) = self.made_partition(pair).await? {
            let content = made.ident.text.content.as_str();
            if !made.unused() || !matches!(content, "" | "tandem") {
                return Err(step(PARTITION_STAYS).device(&made.ident.text));
            }
            self.call_udisks(&made, "Partition", "Delete", &(options(),))
                .await?;
            let begun = tokio::time::Instant::now();
            while self.made_partition(pair).await?.is_some() {
                if begun.elapsed() > CHANGE_TIMEOUT {
                    return Err(step("UDisks2 still shows the deleted partition"));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        if partition.new_table {
            self.delete_table(partition).await?;
        }
        Ok(())
    }

    /// Makes an empty partition table on an SSD that has nothing on it.
    async fn create_table(&self, disk: &Device) -> Result<(), Failure> {
        if !disk.usage.is_empty() || !disk.ident.text.content.is_empty() || !disk.unused() {
            return Err(Failure::new(Kind::DeviceChanged).device(&disk.ident.text));
        }
        self.call_udisks(disk, "Block", "Format", &("gpt", options()))
            .await?;
        let begun = tokio::time::Instant::now();
        loop {
            let now = self.locate(&disk.ident).await?;
            if now.table_type == "gpt" {
                return Ok(());
            }
            if begun.elapsed() > CHANGE_TIMEOUT {
                return Err(step("UDisks2 does not show the new partition table"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Removes the partition table that was made for a partition, if no partition is left in it.
    async fn delete_table(&self, partition: &Partition) -> Result<(), Failure> {
        // An SSD that is gone needs nothing.
        let disk = match self.locate(&partition.disk).await {
            Err(e) if e.kind == Kind::DeviceGone => return Ok(()),
            other => other?,
        };
        let facts = self.facts().await?;
        if !disk.partitioned || !disk.unused() || facts.partitions(&disk).next().is_some() {
            return Ok(());
        }
        let ident = disk.ident;
        blocking(move || wipe::remove_table(&ident))
            .await?
            .map_err(|e| step(&e.to_string()))
    }

    async fn made_partition(&self, pair: &Pair) -> Result<Option<Device>, Failure> {
        let facts = self.facts().await?;
        Ok(facts.made_partition(pair, &self.boot_id()).cloned())
    }

    /// Waits until UDisks2 and udev show the partition with its UUID.
    async fn shown_partition(&self, pair: &Pair) -> Result<Device, Failure> {
        let begun = tokio::time::Instant::now();
        loop {
            if let Some(made) = self.made_partition(pair).await?
                && !made.ident.part_uuid.is_empty()
            {
                return Ok(made);
            }
            if begun.elapsed() > CHANGE_TIMEOUT {
                return Err(step("UDisks2 does not show the new partition"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn call_udisks<B: serde::Serialize + zbus::wire::DynamicType + Sync>(
        &self,
        device: &Device,
        interface: &str,
        method: &str,
        arguments: &B,
    ) -> Result<(), Failure> {
        let object: &OwnedObjectPath = &device.ident.text.object;
        let interface = format!("{UDISKS}.{interface}");
        let called = self
            .connection
            .call_method(
                Some(UDISKS),
                object,
                Some(interface.as_str()),
                method,
                arguments,
            )
            .await;
        called
            .map(drop)
            .map_err(|e| step(&e.to_string()).device(&device.ident.text))
    }
}

/// The partition that is planned for a pair.
fn planned(pair: &Pair) -> Result<&Partition, Failure> {
    let planned = pair.partition.as_deref();
    planned.ok_or_else(|| Failure::new(Kind::Internal).detail("no partition is planned"))
}

fn options() -> HashMap<&'static str, Variant<'static>> {
    HashMap::from([("auth.no_user_interaction", Variant::new(true))])
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Making and deleting the partition of a cache on an SSD that is shared. UDisks2 changes the partition table; other
//! partitions of the SSD may be in use meanwhile.

use super::{CHANGE_TIMEOUT, DeviceMapper, PAUSE, blocking, step};
use crate::host::traits::{Computer, Disks};
use crate::machine::sysfs::{partition_names, sysfs};
use crate::machine::wipe;
use crate::model::action::{PARTITION_TYPE, Pair, Partition};
use crate::model::facts::Device;
use std::collections::HashMap;
use tandem_api::udisks::{self, UDISKS};
use tandem_api::{Failure, Kind};
use zbus::fdo::ManagedObjects;
use zbus::{OwnedObjectPath, Variant};

/// Why a partition that was made is not deleted.
const PARTITION_STAYS: &str =
    "the partition of the cache is in use or has other content now, and stays";

impl DeviceMapper {
    /// Makes the partition of a pair, and wipes what an earlier use of that space has left there.
    pub(super) async fn create_partition(&self, pair: &Pair) -> Result<(), Failure> {
        let partition = planned(pair)?;
        self.wait_for_udisks(partition).await?;
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
                let called = self
                    .call_udisks(&disk, "PartitionTable", "CreatePartition", &arguments)
                    .await;
                // The call of a service that was killed may have made the partition.
                if let Err(e) = called
                    && self.made_partition(pair).await?.is_none()
                {
                    return Err(e);
                }
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
        self.wait_for_udisks(partition).await?;
        // As in `resize_partition`; but the partition may have been deleted before.
        let late = step("UDisks2 does not show the partition of the cache");
        let made = until(late.device(&pair.ssd.text), || async {
            let made = self.made_partition(pair).await?;
            let settled = made.is_some() || !self.kernel_has(pair, partition).await?;
            Ok(settled.then_some(made))
        })
        .await?;
        if let Some(made) = made {
            let content = made.ident.text.content.as_str();
            if !made.unused() || !matches!(content, "" | "tandem") {
                return Err(step(PARTITION_STAYS).device(&made.ident.text));
            }
            let called = self
                .call_udisks(&made, "Partition", "Delete", &(options(),))
                .await;
            if let Err(e) = called
                && self.made_partition(pair).await?.is_some()
            {
                return Err(e);
            }
            let late = step("UDisks2 still shows the deleted partition");
            until(late, || async {
                let made = self.made_partition(pair).await?;
                Ok(made.is_none().then_some(()))
            })
            .await?;
        }
        if partition.new_table {
            self.delete_table(partition).await?;
        }
        Ok(())
    }

    /// Makes the partition of a pair as large as the pair says. The cache may use the partition meanwhile: the cache
    /// ends before the new end.
    ///
    /// # Errors
    /// Also if UDisks2 has made the partition smaller than that, as for a drive that asks for other boundaries: then
    /// the next start would refuse the cache.
    pub(super) async fn resize_partition(&self, pair: &Pair) -> Result<(), Failure> {
        let partition = planned(pair)?;
        self.wait_for_udisks(partition).await?;
        // UDisks2 may read the SSD again just now, after a start or a change; then it shows the partition a little later.
        let gone = Failure::new(Kind::DeviceGone).device(&pair.ssd.text);
        let made = until(gone, || self.made_partition(pair)).await?;
        if made.ident.start != pair.ssd.start {
            return Err(Failure::new(Kind::DeviceChanged).device(&made.ident.text));
        }
        let size = pair.ssd.text.size;
        if made.ident.text.size == size {
            return Ok(());
        }
        let called = self
            .call_udisks(&made, "Partition", "Resize", &(size, options()))
            .await;
        let late = step("UDisks2 does not show the new size of the partition");
        let now = until(late, || async {
            let now = self.made_partition(pair).await?;
            let now = now.map(|now| now.ident.text.size);
            Ok(now.filter(|now| *now != made.ident.text.size || called.is_err()))
        })
        .await?;
        match called {
            _ if now == size => Ok(()),
            Err(e) => Err(e),
            Ok(()) if now > size => Ok(()),
            Ok(()) => {
                Err(step("the partition is smaller than it was to be").device(&made.ident.text))
            }
        }
    }

    /// Makes an empty partition table on an SSD that has nothing on it.
    async fn create_table(&self, disk: &Device) -> Result<(), Failure> {
        if !disk.usage.is_empty() || !disk.ident.text.content.is_empty() || !disk.unused() {
            return Err(Failure::new(Kind::DeviceChanged).device(&disk.ident.text));
        }
        self.call_udisks(disk, "Block", "Format", &("gpt", options()))
            .await?;
        let late = step("UDisks2 does not show the new partition table");
        until(late, || async {
            let now = self.locate(&disk.ident).await?;
            Ok((now.table_type == "gpt").then_some(()))
        })
        .await
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
        let ident = disk.ident.clone();
        let removed = blocking(move || wipe::remove_table(&ident))
            .await?
            .map_err(|e| step(&e.to_string()))?;
        if !removed {
            return Ok(());
        }
        // While UDisks2 shows the old table, the next cache would make no table for its partition.
        let late = step("UDisks2 still shows the deleted partition table");
        until(late.device(&disk.ident.text), || async {
            // An SSD that is gone has no table either.
            let now = self.locate(&disk.ident).await;
            Ok(now.map_or(true, |now| !now.partitioned).then_some(()))
        })
        .await
    }

    /// Waits until UDisks2 has done with an SSD what it was asked for before. A service that was killed may have asked:
    /// UDisks2 goes on, refuses what its work has made impossible, and may crash if two calls change one table. An SSD
    /// that is gone needs no wait.
    async fn wait_for_udisks(&self, partition: &Partition) -> Result<(), Failure> {
        let disk = match self.locate(&partition.disk).await {
            Err(e) if e.kind == Kind::DeviceGone => return Ok(()),
            other => other?,
        };
        let late = step("UDisks2 is still at work on the SSD");
        until(late.device(&disk.ident.text), || async {
            let objects = udisks::objects(&self.connection).await;
            let objects = objects.map_err(|e| step(&e.to_string()))?;
            let busy = is_at_work(&objects, &disk.ident.text.object);
            Ok((!busy).then_some(()))
        })
        .await
    }

    /// Whether the kernel has the partition of a pair, whatever UDisks2 shows of it just now.
    async fn kernel_has(&self, pair: &Pair, partition: &Partition) -> Result<bool, Failure> {
        let disk = match self.locate(&partition.disk).await {
            Err(e) if e.kind == Kind::DeviceGone => return Ok(false),
            other => other?,
        };
        let names = partition_names(&sysfs(&disk.ident.text.name));
        let name = pair.partition_name();
        // Of two with this name nothing tells the right one: see `made_partition`.
        Ok(names.iter().filter(|named| **named == name).count() == 1)
    }

    async fn made_partition(&self, pair: &Pair) -> Result<Option<Device>, Failure> {
        let facts = self.facts().await?;
        Ok(facts.made_partition(pair, &self.boot_id()).cloned())
    }

    /// Waits until UDisks2 and udev show the partition with its UUID.
    async fn shown_partition(&self, pair: &Pair) -> Result<Device, Failure> {
        let late = step("UDisks2 does not show the new partition");
        until(late, || async {
            let made = self.made_partition(pair).await?;
            Ok(made.filter(|made| !made.ident.part_uuid.is_empty()))
        })
        .await
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

/// Looks again and again until `look` finds a value, and fails with `late` after [`CHANGE_TIMEOUT`]. The first look is
/// at once; a failure of `look` ends the wait.
async fn until<T, F>(late: Failure, look: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<Option<T>, Failure>>,
{
    let begun = tokio::time::Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if begun.elapsed() > CHANGE_TIMEOUT {
            return Err(late);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The partition that is planned for a pair.
fn planned(pair: &Pair) -> Result<&Partition, Failure> {
    let planned = pair.partition.as_deref();
    planned.ok_or_else(|| Failure::new(Kind::Internal).detail("no partition is planned"))
}

/// Whether UDisks2 has a job that changes a disk or one of its partitions.
fn is_at_work(objects: &ManagedObjects, disk: &OwnedObjectPath) -> bool {
    let job = |path| udisks::Object(objects, path).get("Job");
    let mut changed = objects
        .keys()
        .filter_map(job)
        .flat_map(|job| job.texts("Objects"));
    changed.any(|object| is_in(&object, disk.as_str()))
}

/// Whether an object path of UDisks2 is that of a disk or of a partition of the disk. The path of a partition is the
/// path of its disk and a number, after a `p` if the name of the disk ends in a digit.
fn is_in(object: &str, disk: &str) -> bool {
    let Some(rest) = object.strip_prefix(disk) else {
        return false;
    };
    let number = if disk.ends_with(|last: char| last.is_ascii_digit()) {
        rest.strip_prefix('p')
    } else {
        Some(rest)
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    rest.is_empty() || number.is_some_and(is_number)
}

fn options() -> HashMap<&'static str, Variant<'static>> {
    HashMap::from([("auth.no_user_interaction", Variant::new(true))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use zbus::OwnedVariant;
    use zbus::names::OwnedInterfaceName;

    #[test]
    fn a_job_of_udisks_on_a_disk_or_its_partition_is_waited_for() {
        let path = |text: &str| OwnedObjectPath::try_from(text.to_owned()).unwrap();
        let folder = "/org/freedesktop/UDisks2/block_devices/";
        let at_work = |object: &str, disk: &str| {
            let object = &format!("{folder}{object}");
            let changed = OwnedVariant::try_from(Variant::new(vec![path(object)])).unwrap();
            let values = HashMap::from([("Objects".to_owned(), changed)]);
            let job = OwnedInterfaceName::try_from(format!("{UDISKS}.Job")).unwrap();
            let jobs = path("/org/freedesktop/UDisks2/jobs/7");
            let objects = HashMap::from([(jobs, HashMap::from([(job, values)]))]);
            is_at_work(&objects, &path(&format!("{folder}{disk}")))
        };
        assert!(at_work("sdb", "sdb") && at_work("sdb1", "sdb"));
        assert!(!at_work("sda1", "sdb") && !at_work("sdba", "sdb"));
        assert!(at_work("nvme0n1p2", "nvme0n1") && !at_work("nvme0n10", "nvme0n1"));
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! How an SSD is shared: its other partitions, the caches of disks, free space, and the part that would be taken now.

use std::collections::HashMap;

use gettextrs::gettext;
use tandem_api::{PartUse, SsdPart};

use super::{bytes, fill};

/// What a part of an SSD is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SsdUse {
    /// Other partitions.
    Other,
    /// The cache of the disk of this name; empty if the name is not known.
    Cache(String),
    /// The cache that would be set up now.
    New,
    /// Nothing.
    Free,
}

/// A part of an SSD, or all parts of one use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdShare {
    /// What it is for.
    pub used_for: SsdUse,
    /// Size in bytes.
    pub bytes: u64,
}

impl SsdShare {
    /// The use in words.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.used_for {
            SsdUse::Other => gettext("Other partitions"),
            SsdUse::Cache(disk) if disk.is_empty() => gettext("Another cache"),
            SsdUse::Cache(disk) => fill(&gettext("Cache of {disk}"), &[("disk", disk)]),
            SsdUse::New => gettext("New cache"),
            SsdUse::Free => gettext("Free"),
        }
    }
}

/// The parts of an SSD in the order of their addresses. `ssd` and `partition_bytes` are the choice: a partition by its
/// block path, or bytes of a new partition in free space. `disks` has the name of the disk of each cache, by uuid. Empty
/// where nothing is shared: the SSD is taken as a whole, or is free as a whole and is not to be divided.
#[must_use]
pub fn ssd_shares(
    layout: &[SsdPart],
    ssd: &str,
    partition_bytes: u64,
    disks: &HashMap<String, String>,
) -> Vec<SsdShare> {
    let share = |used_for, bytes| SsdShare { used_for, bytes };
    let free = |part: &&SsdPart| part.used_for == PartUse::Free;
    // The service makes the partition in the largest free part, at its start.
    let largest = layout.iter().filter(free).map(|part| part.bytes).max();
    let mut to_take = (partition_bytes > 0).then_some(partition_bytes);
    let mut shares = Vec::new();
    for part in layout {
        match part.used_for {
            _ if partition_bytes == 0 && part.device.object.as_str() == ssd => {
                shares.push(share(SsdUse::New, part.bytes));
            }
            PartUse::Other => shares.push(share(SsdUse::Other, part.bytes)),
            PartUse::Cache => {
                let disk = disks.get(&part.cache).cloned().unwrap_or_default();
                shares.push(share(SsdUse::Cache(disk), part.bytes));
            }
            PartUse::Free if Some(part.bytes) == largest && to_take.is_some() => {
                let taken = to_take.take().unwrap_or_default().min(part.bytes);
                shares.push(share(SsdUse::New, taken));
                if taken < part.bytes {
                    shares.push(share(SsdUse::Free, part.bytes - taken));
                }
            }
            PartUse::Free => shares.push(share(SsdUse::Free, part.bytes)),
        }
    }
    let is_new = |share: &SsdShare| share.used_for == SsdUse::New;
    let divided = shares.iter().any(is_new) && !shares.iter().all(is_new);
    if divided { shares } else { vec![] }
}

/// The shares of the same use together, in the order in which they come first.
#[must_use]
pub fn summed_shares(shares: &[SsdShare]) -> Vec<SsdShare> {
    let mut all: Vec<SsdShare> = Vec::new();
    for share in shares {
        match all.iter_mut().find(|sum| sum.used_for == share.used_for) {
            Some(sum) => sum.bytes += share.bytes,
            None => all.push(share.clone()),
        }
    }
    all
}

/// All shares in a line, for a screen reader.
#[must_use]
pub fn shares_words(shares: &[SsdShare]) -> String {
    let sums = summed_shares(shares);
    let names = sums.iter().map(|share| {
        // Translators: a share of an SSD, for example "Other partitions: 318.0 GB"
        fill(
            &gettext("{name}: {size}"),
            &[("name", &share.name()), ("size", &bytes(share.bytes))],
        )
    });
    fill(
        &gettext("Space on the SSD: {shares}"),
        &[("shares", &names.collect::<Vec<_>>().join(", "))],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::DeviceText;

    fn part(used_for: PartUse, bytes: u64, name: &str) -> SsdPart {
        SsdPart {
            start: 0,
            bytes,
            used_for,
            device: DeviceText {
                object: format!("/b/{name}").try_into().unwrap(),
                name: name.into(),
                ..DeviceText::none()
            },
            cache: if used_for == PartUse::Cache {
                name.into()
            } else {
                String::new()
            },
        }
    }

    fn layout() -> Vec<SsdPart> {
        vec![
            part(PartUse::Other, 100, "sdc1"),
            part(PartUse::Free, 20, "x"),
            part(PartUse::Cache, 50, "sdc2"),
            part(PartUse::Free, 80, "x"),
            part(PartUse::Other, 7, "sdc3"),
        ]
    }

    fn uses(shares: &[SsdShare]) -> Vec<(SsdUse, u64)> {
        let both = |share: &SsdShare| (share.used_for.clone(), share.bytes);
        shares.iter().map(both).collect()
    }

    #[test]
    fn a_new_partition_takes_its_bytes_of_the_largest_free_space() {
        let disks = HashMap::from([("sdc2".to_owned(), "Films".to_owned())]);
        let shares = ssd_shares(&layout(), "/b/sdc", 30, &disks);
        assert_eq!(
            uses(&shares),
            [
                (SsdUse::Other, 100),
                (SsdUse::Free, 20),
                (SsdUse::Cache("Films".into()), 50),
                (SsdUse::New, 30),
                (SsdUse::Free, 50),
                (SsdUse::Other, 7),
            ]
        );
        let sums = summed_shares(&shares);
        assert_eq!(uses(&sums)[..2], [(SsdUse::Other, 107), (SsdUse::Free, 70)]);
        let words = shares_words(&shares);
        assert!(words.contains("Cache of Films: 50"), "{words}");
        assert!(words.contains("New cache: 30"), "{words}");
        let all: u64 = shares.iter().map(|share| share.bytes).sum();
        assert_eq!(all, 257, "nothing is lost or counted twice");
    }

    #[test]
    fn a_chosen_partition_is_the_new_cache() {
        let shares = ssd_shares(&layout(), "/b/sdc1", 0, &HashMap::new());
        assert_eq!(shares[0].used_for, SsdUse::New);
        assert_eq!(shares[2].name(), "Another cache");
    }

    #[test]
    fn an_ssd_that_is_taken_as_a_whole_has_no_shares() {
        let none = HashMap::new();
        assert_eq!(ssd_shares(&layout(), "/b/sdc", 0, &none), []);
        let whole = [part(PartUse::Free, 9, "sdc")];
        assert_eq!(ssd_shares(&whole, "/b/sdc", 0, &none), []);
        assert_eq!(ssd_shares(&whole, "/b/sdc", 9, &none), []);
        assert_eq!(ssd_shares(&[], "/b/sdc", 5, &none), []);
    }
}

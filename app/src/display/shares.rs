// SPDX-License-Identifier: GPL-3.0-or-later
//! How an SSD is shared: its other partitions, the caches of disks, free space, and the part that would be taken now.

use std::collections::HashMap;
use std::ops::Range;

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
    /// The cache whose size is changed, of the disk of this name.
    Own(String),
    /// The cache that would be set up now.
    New,
    /// Nothing.
    Free,
}

/// A part of an SSD, or all parts of one use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdShare {
    /// The purpose of the part.
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
            SsdUse::Cache(disk) | SsdUse::Own(disk) => {
                fill(&gettext("Cache of {disk}"), &[("disk", disk)])
            }
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
    // An SSD without partitions is erased first, whatever is on it.
    let is_free = |part: &SsdPart| {
        part.used_for == PartUse::Free || (layout.len() == 1 && part.device.object.as_str() == ssd)
    };
    // The service makes the partition in the smallest free part that is large enough, at its start.
    let fits = layout
        .iter()
        .filter(|part| is_free(part) && part.bytes >= partition_bytes);
    let smallest = fits.map(|part| part.bytes).min();
    let mut to_take = (partition_bytes > 0).then_some(partition_bytes);
    let mut shares = Vec::new();
    for part in layout {
        match part.used_for {
            _ if partition_bytes == 0 && part.device.object.as_str() == ssd => {
                shares.push(share(SsdUse::New, part.bytes));
            }
            _ if is_free(part) && Some(part.bytes) == smallest && to_take.is_some() => {
                let taken = to_take.take().unwrap_or_default().min(part.bytes);
                shares.push(share(SsdUse::New, taken));
                if taken < part.bytes {
                    shares.push(share(SsdUse::Free, part.bytes - taken));
                }
            }
            PartUse::Other => shares.push(share(SsdUse::Other, part.bytes)),
            PartUse::Cache => {
                let disk = disks.get(&part.cache).cloned().unwrap_or_default();
                shares.push(share(SsdUse::Cache(disk), part.bytes));
            }
            PartUse::Free => shares.push(share(SsdUse::Free, part.bytes)),
        }
    }
    let is_new = |share: &SsdShare| share.used_for == SsdUse::New;
    let divided = shares.iter().any(is_new) && !shares.iter().all(is_new);
    if divided { shares } else { vec![] }
}

/// The parts from the free space in front of a cache to the free space behind it: the range of their places, and their
/// bytes.
fn surroundings(layout: &[SsdPart], uuid: &str) -> Option<(Range<usize>, u64)> {
    let own = layout.iter().position(|part| part.cache == uuid)?;
    let is_free = |part: &SsdPart| part.used_for == PartUse::Free;
    let front = layout[..own].iter().rev().take_while(|part| is_free(part));
    let behind = layout[own + 1..].iter().take_while(|part| is_free(part));
    let range = own - front.count()..own + 1 + behind.count();
    let bytes = layout[range.clone()].iter().map(|part| part.bytes).sum();
    Some((range, bytes))
}

/// The most bytes that a cache can have on its SSD: its own with the free space beside it, or more free space elsewhere.
/// None if the SSD does not have the cache.
#[must_use]
pub fn cache_room(layout: &[SsdPart], uuid: &str) -> Option<u64> {
    let (_, here) = surroundings(layout, uuid)?;
    let free = layout.iter().filter(|part| part.used_for == PartUse::Free);
    Some(free.map(|part| part.bytes).fold(here, u64::max))
}

/// The parts of an SSD as they are when a cache has so many bytes. The service leaves the cache in its place if there is
/// room. But a smaller cache goes to the end of its space if only the cache in front can use the rest, and a cache for which there is
/// room on both sides together goes to the beginning.
#[must_use]
pub fn resized_shares(
    layout: &[SsdPart],
    uuid: &str,
    wanted: u64,
    disks: &HashMap<String, String>,
) -> Vec<SsdShare> {
    let Some((own, here)) = surroundings(layout, uuid) else {
        return vec![];
    };
    let share = |used_for, bytes| SsdShare { used_for, bytes };
    let disk = |uuid: &str| disks.get(uuid).cloned().unwrap_or_default();
    let is = |place: Option<usize>, used_for| {
        let part = place.and_then(|place| layout.get(place));
        part.is_some_and(|part| part.used_for == used_for)
    };
    let now = layout.iter().position(|part| part.cache == uuid);
    let bytes = |range: Range<usize>| -> u64 {
        let parts = layout.get(range).unwrap_or_default();
        parts.iter().map(|part| part.bytes).sum()
    };
    // Free bytes in front, if the cache stays in its place.
    let in_place = |ends_behind: bool| {
        let now = now?;
        let smaller = wanted < layout.get(now)?.bytes;
        let fits = wanted <= bytes(now..own.end) && !(smaller && ends_behind);
        fits.then(|| bytes(own.start..now))
    };
    let fits = (0..layout.len())
        .filter(|place| is(Some(*place), PartUse::Free) && layout[*place].bytes >= wanted);
    let target = match wanted > here {
        true => fits.min_by_key(|place| layout[*place].bytes),
        false => Some(own.start),
    };
    let mut shares = Vec::new();
    let mut place = 0;
    while let Some(part) = layout.get(place) {
        let (end, space) = match place == own.start {
            true => (own.end, here),
            false => (place + 1, part.bytes),
        };
        if Some(place) == target {
            let rest = space.saturating_sub(wanted);
            let cache_in_front = is(place.checked_sub(1), PartUse::Cache);
            let ends_behind = cache_in_front && !is(Some(end), PartUse::Cache);
            let front = match in_place(ends_behind) {
                Some(front) if place == own.start => front,
                _ if ends_behind => rest,
                _ => 0,
            };
            let all = [
                share(SsdUse::Free, front),
                share(SsdUse::Own(disk(uuid)), wanted.min(space)),
                share(SsdUse::Free, rest.saturating_sub(front)),
            ];
            shares.extend(all.into_iter().filter(|share| share.bytes > 0));
        } else if place == own.start || part.used_for == PartUse::Free {
            shares.push(share(SsdUse::Free, space));
        } else if part.used_for == PartUse::Cache {
            shares.push(share(SsdUse::Cache(disk(&part.cache)), space));
        } else {
            shares.push(share(SsdUse::Other, space));
        }
        place = end;
    }
    shares
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
        // A part of it divides it, also if what is on it now is erased first.
        for used_for in [PartUse::Free, PartUse::Other] {
            let whole = [part(used_for, 9, "sdc")];
            let shares = ssd_shares(&whole, "/b/sdc", 5, &none);
            assert_eq!(uses(&shares), [(SsdUse::New, 5), (SsdUse::Free, 4)]);
        }
    }

    #[test]
    fn a_cache_can_have_the_free_space_on_both_sides_or_more_elsewhere() {
        assert_eq!(cache_room(&layout(), "sdc2"), Some(150));
        assert_eq!(cache_room(&layout(), "unknown"), None);
        let mut parts = layout();
        parts.push(part(PartUse::Free, 400, "x"));
        assert_eq!(cache_room(&parts, "sdc2"), Some(400));
    }

    #[test]
    fn another_size_is_shown_where_the_service_will_put_it() {
        let disks = HashMap::from([("sdc2".to_owned(), "Films".to_owned())]);
        let shown =
            |layout: &[SsdPart], wanted| uses(&resized_shares(layout, "sdc2", wanted, &disks));
        let own = |bytes| (SsdUse::Own("Films".into()), bytes);
        let other = |bytes| (SsdUse::Other, bytes);
        let free = |bytes| (SsdUse::Free, bytes);
        assert_eq!(
            shown(&layout(), 60),
            [other(100), free(20), own(60), free(70), other(7)]
        );
        assert_eq!(
            shown(&layout(), 130),
            [other(100), free(20), own(130), other(7)]
        );
        assert_eq!(
            shown(&layout(), 140),
            [other(100), own(140), free(10), other(7)]
        );
        assert_eq!(shown(&layout(), 150), [other(100), own(150), other(7)]);
        // Behind another cache: at the end, so that both can use the rest.
        let mut parts = layout();
        parts[0] = part(PartUse::Cache, 100, "sdc1");
        let first = || (SsdUse::Cache(String::new()), 100);
        assert_eq!(shown(&parts, 40), [first(), free(110), own(40), other(7)]);
        // A larger one stays where it is.
        assert_eq!(
            shown(&parts, 60),
            [first(), free(20), own(60), free(70), other(7)]
        );
        // Where there is no room it moves.
        parts.push(part(PartUse::Free, 400, "x"));
        assert_eq!(
            shown(&parts, 300),
            [first(), free(150), other(7), own(300), free(100)]
        );
        assert_eq!(resized_shares(&parts, "unknown", 3, &disks), []);
    }
}

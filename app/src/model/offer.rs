// SPDX-License-Identifier: GPL-3.0-or-later
//! Which disks and SSDs the wizard offers, and which of them it chooses for the usual case. Pure.

use std::collections::HashMap;

use tandem_api::{PartUse, SsdPart};

use super::draft::ssd_key;
use super::inventory::{Content, Device, Medium, Obstacle, Volume};

/// A cache of this many bytes helps with any disk: the least bytes that are offered first where there is more.
pub const LEAST_GOOD: u64 = 32_000_000_000;

/// The loss when a place on an SSD becomes a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing: the SSD, or the partition, is empty.
    Nothing,
    /// Nothing: the place is free space beside other partitions.
    FreeSpace,
    /// Files, or anything else with a known signature.
    Content,
    /// Content without a known signature, perhaps encrypted.
    Unknown,
}

impl Loss {
    /// Whether nothing is erased, so that the wizard may choose the place without being asked.
    #[must_use]
    pub fn is_none(self) -> bool {
        matches!(self, Self::Nothing | Self::FreeSpace)
    }

    fn of(content: &Content) -> Self {
        match content {
            Content::Empty => Self::Nothing,
            Content::Unknown => Self::Unknown,
            _ => Self::Content,
        }
    }
}

/// A place on an SSD that can become a cache, or that cannot and says why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SsdOffer<'a> {
    /// The SSD.
    pub device: &'a Device,
    /// The partition that becomes the cache; none for the SSD as a whole, and for free space on it.
    pub partition: Option<&'a Volume>,
    /// Bytes of the place.
    pub bytes: u64,
    /// The loss when the place becomes a cache.
    pub loss: Loss,
    /// Why the place is not offered.
    pub obstacle: Option<Obstacle>,
    /// Whether a cache needs more bytes.
    pub too_small: bool,
}

impl SsdOffer<'_> {
    /// The key of the choice, see [`ssd_key`].
    #[must_use]
    pub fn key(&self) -> String {
        let path = self.partition.map_or(&self.device.path, |part| &part.path);
        let free = self.loss == Loss::FreeSpace;
        ssd_key(path, if free { self.bytes } else { 0 })
    }

    /// Whether the place can be chosen.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.obstacle.is_none() && !self.too_small
    }
}

/// The SSDs, partitions of SSDs and free space on SSDs that can become a cache of `origin`, a block path. A place of less
/// than `least` bytes is among them but cannot be chosen. `layouts` say how SSDs are divided, by block path.
///
/// Each SSD is named once, and again only for a part of it that can be chosen: an SSD that cannot be taken as a whole is
/// left out if its free space can be chosen.
#[must_use]
pub fn ssd_offers<'a>(
    devices: &'a [Device],
    layouts: &HashMap<String, Vec<SsdPart>>,
    origin: &str,
    least: u64,
) -> Vec<SsdOffer<'a>> {
    let mut offers = Vec::new();
    let fast = devices.iter().filter(|device| device.medium == Medium::Ssd);
    for device in fast {
        let holds_origin =
            device.path == origin || device.volumes.iter().any(|volume| volume.path == origin);
        if holds_origin {
            continue;
        }
        let offer = |partition, bytes, loss, obstacle| SsdOffer {
            device,
            partition,
            bytes,
            loss,
            obstacle,
            too_small: bytes < least,
        };
        let whole = match device.volumes.as_slice() {
            [only] if only.partition.is_none() => Loss::of(&only.content),
            _ => Loss::Content,
        };
        let whole = offer(None, device.size, whole, device.whole_as_ssd.err());
        let layout = layouts.get(&device.path).map_or(&[][..], Vec::as_slice);
        let free = free_space(layout).filter(|bytes| *bytes >= least);
        if whole.is_open() || free.is_none() {
            offers.push(whole);
        }
        offers.extend(free.map(|bytes| offer(None, bytes, Loss::FreeSpace, None)));
        let parts = device
            .volumes
            .iter()
            .filter(|volume| volume.partition.is_some() && volume.as_ssd.is_ok());
        offers.extend(parts.map(|volume| {
            let loss = Loss::of(&volume.content);
            offer(Some(volume), volume.size, loss, None)
        }));
    }
    offers
}

/// The place for the usual case: an empty SSD, or else free space beside other partitions; the largest of them, and one
/// inside the computer before one that can be unplugged. None if each of the places has content that would be lost or
/// is small for a disk of `disk_bytes`, and for an empty partition: only a person knows what it is for.
#[must_use]
pub fn suggested_ssd(offers: &[SsdOffer<'_>], disk_bytes: u64) -> Option<String> {
    let least = (disk_bytes / 100).min(LEAST_GOOD);
    let rank = |offer: &&SsdOffer<'_>| {
        let kind = match offer.loss {
            Loss::Nothing => 0,
            _ => 1,
        };
        (offer.device.outside, kind, u64::MAX - offer.bytes)
    };
    offers
        .iter()
        .filter(|offer| offer.is_open() && offer.loss.is_none())
        .filter(|offer| offer.partition.is_none() && offer.bytes >= least)
        .min_by_key(rank)
        .map(SsdOffer::key)
}

/// The disks whose volumes can be cached: all that are not SSDs.
pub fn slow_devices(devices: &[Device]) -> impl Iterator<Item = &Device> {
    devices.iter().filter(|device| device.medium != Medium::Ssd)
}

/// The disk for the usual case: the only one that can be cached. None if there is a choice.
#[must_use]
pub fn suggested_origin(devices: &[Device]) -> Option<String> {
    let mut open = slow_devices(devices)
        .flat_map(|device| &device.volumes)
        .filter(|volume| volume.as_origin.is_ok());
    let first = open.next()?;
    open.next().is_none().then(|| first.path.clone())
}

/// The largest free space beside other parts of an SSD, in bytes.
fn free_space(layout: &[SsdPart]) -> Option<u64> {
    let (free, used): (Vec<_>, Vec<_>) = layout
        .iter()
        .partition(|part| part.used_for == PartUse::Free);
    // An SSD that is free as a whole has an offer of its own already.
    let shared = !used.is_empty();
    free.iter().map(|part| part.bytes).max().filter(|_| shared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::DeviceText;

    const GB: u64 = 1_000_000_000;

    fn volume(path: &str, partition: Option<u32>, content: Content) -> Volume {
        Volume {
            path: path.into(),
            device: path.replace("/b/", "/dev/"),
            size: 100 * GB,
            name: String::new(),
            partition,
            content,
            mount_points: vec![],
            as_origin: Ok(()),
            only_later: false,
            as_ssd: Ok(()),
            watched: None,
        }
    }

    fn device(path: &str, medium: Medium, volumes: Vec<Volume>) -> Device {
        Device {
            path: path.into(),
            device: path.replace("/b/", "/dev/"),
            model: String::new(),
            serial: String::new(),
            size: 250 * GB,
            medium,
            outside: false,
            volumes,
            whole_as_ssd: Ok(()),
        }
    }

    fn ssd(path: &str, content: Content) -> Device {
        device(path, Medium::Ssd, vec![volume(path, None, content)])
    }

    fn divided(path: &str, content: Content) -> Device {
        let part = volume(&format!("{path}1"), Some(1), content);
        device(path, Medium::Ssd, vec![part])
    }

    fn files() -> Content {
        Content::FileSystem("ext4".into())
    }

    fn part(used_for: PartUse, bytes: u64) -> SsdPart {
        SsdPart {
            start: 0,
            bytes,
            used_for,
            device: DeviceText::none(),
            cache: String::new(),
        }
    }

    fn free_on(path: &str, bytes: u64) -> HashMap<String, Vec<SsdPart>> {
        let layout = vec![part(PartUse::Other, 5), part(PartUse::Free, bytes)];
        HashMap::from([(path.to_owned(), layout)])
    }

    fn suggested(devices: &[Device], layouts: &HashMap<String, Vec<SsdPart>>) -> Option<String> {
        suggested_ssd(&ssd_offers(devices, layouts, "/b/sda1", 1), 0)
    }

    #[test]
    fn an_ssd_with_content_is_never_chosen_for_the_person() {
        let layouts = HashMap::new();
        for content in [
            files(),
            Content::Unknown,
            Content::EmptyTable,
            Content::Swap,
            Content::Encrypted,
        ] {
            let full = ssd("/b/sdb", content.clone());
            assert_eq!(suggested(std::slice::from_ref(&full), &layouts), None);
            let both = [full, ssd("/b/sdc", Content::Empty)];
            let chosen = suggested(&both, &layouts);
            assert_eq!(chosen.as_deref(), Some("/b/sdc"), "{content:?}");
        }
        assert_eq!(suggested(&[divided("/b/sdb", files())], &layouts), None);
    }

    #[test]
    fn an_empty_ssd_comes_before_free_space_and_an_empty_partition_is_not_suggested() {
        let layouts = free_on("/b/sdb", 900 * GB);
        let shared = divided("/b/sdb", files());
        let empty_part = divided("/b/sdc", Content::Empty);
        let small = ssd("/b/sdd", Content::Empty);
        let mut large = ssd("/b/sde", Content::Empty);
        large.size = 500 * GB;
        let chosen = |devices: &[Device]| suggested(devices, &layouts).unwrap();
        let free = ssd_key("/b/sdb", 900 * GB);
        let part = std::slice::from_ref(&empty_part);
        assert_eq!(suggested(part, &layouts), None);
        assert_eq!(chosen(&[empty_part.clone(), shared.clone()]), free);
        let three = [empty_part, shared, small];
        assert_eq!(chosen(&three), "/b/sdd");
        let [empty_part, shared, small] = three;
        assert_eq!(chosen(&[empty_part, shared, small, large]), "/b/sde");
    }

    #[test]
    fn an_ssd_that_can_be_unplugged_is_the_last_to_be_chosen() {
        let mut stick = ssd("/b/sdb", Content::Empty);
        stick.outside = true;
        let layouts = free_on("/b/sdc", GB);
        let only = std::slice::from_ref(&stick);
        assert_eq!(suggested(only, &layouts).as_deref(), Some("/b/sdb"));
        let both = [stick, divided("/b/sdc", files())];
        let free = ssd_key("/b/sdc", GB);
        assert_eq!(suggested(&both, &layouts), Some(free));
    }

    #[test]
    fn a_place_that_is_too_small_to_help_is_not_suggested() {
        let mut stick = ssd("/b/sdb", Content::Empty);
        for (size, disk, is_suggested) in [
            (8 * GB, 4000 * GB, false),
            (8 * GB, 800 * GB, true),
            (LEAST_GOOD, 9000 * GB, true),
        ] {
            stick.size = size;
            let devices = std::slice::from_ref(&stick);
            let offers = ssd_offers(devices, &HashMap::new(), "/b/sda1", 1);
            let chosen = suggested_ssd(&offers, disk);
            assert_eq!(chosen.is_some(), is_suggested, "{size} for {disk}");
        }
    }

    #[test]
    fn what_is_closed_or_too_small_or_holds_the_disk_is_not_chosen() {
        let mut used = ssd("/b/sdb", Content::Empty);
        used.whole_as_ssd = Err(Obstacle::CacheSsd);
        assert_eq!(suggested(&[used], &HashMap::new()), None);
        let small = ssd("/b/sdb", Content::Empty);
        let small = std::slice::from_ref(&small);
        let offers = ssd_offers(small, &HashMap::new(), "/b/sda1", 300 * GB);
        assert!(offers[0].too_small && suggested_ssd(&offers, 0).is_none());
        let own = divided("/b/sda", Content::Empty);
        assert_eq!(suggested(&[own], &HashMap::new()), None);
    }

    #[test]
    fn an_ssd_is_named_once_unless_a_part_of_it_can_be_chosen() {
        let keys = |device: &Device, layouts: &HashMap<String, Vec<SsdPart>>| -> Vec<String> {
            let offers = ssd_offers(std::slice::from_ref(device), layouts, "/b/sda1", 1);
            offers.iter().map(SsdOffer::key).collect()
        };
        let mut system = divided("/b/sdb", files());
        system.whole_as_ssd = Err(Obstacle::System);
        system.volumes[0].as_ssd = Err(Obstacle::System);
        assert_eq!(keys(&system, &HashMap::new()), ["/b/sdb"]);
        let free = ssd_key("/b/sdb", 9);
        assert_eq!(keys(&system, &free_on("/b/sdb", 9)), [free.as_str()]);
        let games = divided("/b/sdb", files());
        assert_eq!(
            keys(&games, &free_on("/b/sdb", 9)),
            ["/b/sdb", free.as_str(), "/b/sdb1"]
        );
        let mut cached = ssd("/b/sdb", Content::Cache);
        cached.whole_as_ssd = Err(Obstacle::CacheSsd);
        assert_eq!(keys(&cached, &HashMap::new()), ["/b/sdb"]);
    }

    #[test]
    fn the_disk_is_chosen_only_where_there_is_no_choice() {
        let disk = |number: u32| volume(&format!("/b/sda{number}"), Some(number), files());
        let machine = |volumes| [device("/b/sda", Medium::HardDisk, volumes)];
        let only = suggested_origin(&machine(vec![disk(1)]));
        assert_eq!(only.as_deref(), Some("/b/sda1"));
        let mut cached = disk(2);
        cached.as_origin = Err(Obstacle::Cached);
        let rest = suggested_origin(&machine(vec![cached, disk(1)]));
        assert_eq!(rest.as_deref(), Some("/b/sda1"));
        assert_eq!(suggested_origin(&machine(vec![disk(1), disk(2)])), None);
        let fast = ssd("/b/sdb", files());
        assert_eq!(suggested_origin(&[fast]), None);
    }

    #[test]
    fn free_space_is_offered_beside_what_else_is_on_an_ssd() {
        assert_eq!(free_space(&[]), None);
        let whole = [part(PartUse::Free, 9)];
        assert_eq!(free_space(&whole), None, "the SSD as a whole");
        let shared = [
            part(PartUse::Free, 3),
            part(PartUse::Other, 5),
            part(PartUse::Free, 9),
        ];
        assert_eq!(free_space(&shared), Some(9));
        assert_eq!(free_space(&[part(PartUse::Cache, 5)]), None);
    }
}

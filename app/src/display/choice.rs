// SPDX-License-Identifier: GPL-3.0-or-later
//! The disks and SSDs that the wizard offers, in words.

use std::collections::HashMap;

use gettextrs::gettext;
use tandem_api::SsdPart;

use super::{
    SEPARATOR, binary_size, bytes as bytes_words, device_words, fill, quoted, ssd_words,
    volume_names, volume_words,
};
use crate::model::draft::{MEMORY, parts_of_key, ssd_key};
use crate::model::inventory::Device;
use crate::model::offer::{LEAST_GOOD, Loss, SsdOffer, slow_devices, ssd_offers};

/// One row of a list to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Path of the block, which the service is given; for free space, see [`crate::model::draft::ssd_key`].
    pub path: String,
    /// Name of the disk, volume or SSD.
    pub title: String,
    /// Facts by which the person recognises it.
    pub subtitle: String,
    /// The data that choosing the row erases; may be empty.
    pub reason: String,
    /// Name of a symbolic icon.
    pub icon: &'static str,
    /// Why the row cannot be chosen; empty if it can be chosen.
    pub obstacle: String,
}

impl Choice {
    /// Whether the row can be chosen.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.obstacle.is_empty()
    }

    /// Whether this is the choice of memory in the place of an SSD.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        parts_of_key(&self.path).0 == MEMORY
    }
}

/// The volumes that can be cached: all that are not on SSDs. Volumes that cannot be chosen come last.
#[must_use]
pub fn origin_choices(devices: &[Device]) -> Vec<Choice> {
    let rows = slow_devices(devices).flat_map(|device| {
        device.volumes.iter().map(move |volume| {
            let (disk, words) = (device_words(device), volume_words(volume));
            let known_as = if device.model.is_empty() {
                &device.device
            } else {
                &disk.title
            };
            // A whole disk is best recognised by its model, a volume by its name and the model of its disk.
            let (title, subtitle) = if volume.partition.is_none() && volume.name.is_empty() {
                (disk.title.clone(), words.subtitle)
            } else {
                (
                    words.title,
                    format!("{known_as}{SEPARATOR}{}", words.subtitle),
                )
            };
            Choice {
                path: volume.path.clone(),
                title,
                subtitle,
                reason: String::new(),
                icon: disk.icon,
                obstacle: words.obstacle,
            }
        })
    });
    open_first(rows.collect())
}

/// The SSDs, partitions of SSDs and free space on SSDs that can become a cache, see [`ssd_offers`]. Those that cannot be
/// chosen come last.
#[must_use]
pub fn ssd_choices(
    devices: &[Device],
    layouts: &HashMap<String, Vec<SsdPart>>,
    origin: &str,
    least: u64,
) -> Vec<Choice> {
    let offers = ssd_offers(devices, layouts, origin, least);
    open_first(
        offers
            .iter()
            .map(|offer| ssd_choice(offer, least))
            .collect(),
    )
}

fn ssd_choice(offer: &SsdOffer<'_>, least: u64) -> Choice {
    let device = device_words(offer.device);
    let words = ssd_words(offer.device, offer.partition);
    let (title, subtitle, obstacle) = if offer.loss == Loss::FreeSpace {
        let title = gettext("Free space on {model}");
        let subtitle = gettext("{size} free");
        (
            fill(&title, &[("model", &device.title)]),
            fill(&subtitle, &[("size", &bytes_words(offer.bytes))]),
            String::new(),
        )
    } else {
        (words.title, words.subtitle, words.obstacle)
    };
    Choice {
        path: offer.key(),
        title,
        subtitle,
        reason: loss_words(offer),
        icon: device.icon,
        obstacle: if obstacle.is_empty() && offer.too_small {
            fill(
                &gettext("Too small, at least {size} needed"),
                &[("size", &binary_size(least))],
            )
        } else {
            obstacle
        },
    }
}

/// The choice of memory in the place of an SSD, where a cache may take `most` bytes of it; none where it may take none.
#[must_use]
pub fn memory_choice(most: u64) -> Option<Choice> {
    (most > 0).then(|| Choice {
        path: ssd_key(MEMORY, first_memory(most)),
        title: gettext("Memory"),
        subtitle: gettext("A part of this computer's memory, compressed"),
        reason: gettext(
            "The cache starts empty each time, and gives way when programs need the memory. Linux already keeps what was read lately in free memory, so an SSD helps more.",
        ),
        icon: "computer-symbolic",
        obstacle: String::new(),
    })
}

/// The bytes of memory that are offered first: a quarter of all that caches may take.
fn first_memory(most: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    const LEAST: u64 = 64 * MIB;
    let wish = most / 4;
    let step = if wish < 1024 * MIB {
        256 * MIB
    } else {
        1024 * MIB
    };
    let rounded = (wish + step / 2) / step * step;
    rounded.max(LEAST).min(most)
}

/// The sizes of a cache in memory, where caches may take `most` bytes.
#[must_use]
pub fn memory_sizes(most: u64) -> SizeOffer {
    SizeOffer {
        most,
        first: first_memory(most),
        reason: String::new(),
    }
}

/// The words for the loss when the place becomes a cache.
fn loss_words(offer: &SsdOffer<'_>) -> String {
    let names = match offer.partition {
        Some(part) => vec![volume_words(part).title],
        None => volume_names(offer.device),
    };
    match offer.loss {
        Loss::Nothing => gettext("It is empty, so nothing is erased."),
        Loss::FreeSpace => gettext("Nothing is erased: what else is on this SSD stays as it is."),
        Loss::Content if names.is_empty() => gettext("Everything on it will be erased."),
        Loss::Content => fill(
            &gettext("Everything on it will be erased, including {names}."),
            &[("names", &quoted(&names))],
        ),
        Loss::Unknown => gettext(
            "Everything on it will be erased. Its content is not recognized and may be encrypted.",
        ),
    }
}

/// The sizes that a cache can have on what is chosen, and the size that is offered first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeOffer {
    /// Most bytes: all of it.
    pub most: u64,
    /// The bytes that are offered first.
    pub first: u64,
    /// Why just these.
    pub reason: String,
}

/// The sizes for this choice of an SSD ([`crate::model::draft::ssd_key`]), for a disk of so many bytes. None where the cache takes a whole
/// partition, or an SSD whose partitions are erased: they have the size that they have.
#[must_use]
pub fn size_offer(layout: &[SsdPart], key: &str, disk_bytes: u64) -> Option<SizeOffer> {
    let (path, free) = parts_of_key(key);
    if free == 0 {
        let [whole] = layout else { return None };
        return (whole.device.object.as_str() == path).then(|| SizeOffer {
            most: whole.bytes,
            first: whole.bytes,
            reason: gettext("All of the SSD is used unless you choose less."),
        });
    }
    let good = (disk_bytes / 10).max(LEAST_GOOD);
    // A small rest is of little use to anyone.
    if good > free / 10 * 8 {
        return Some(SizeOffer {
            most: free,
            first: free,
            reason: gettext("All of the free space is used unless you choose less."),
        });
    }
    Some(SizeOffer {
        most: free,
        first: good / 1_000_000_000 * 1_000_000_000,
        reason: gettext("A tenth of the hard disk is a good start. You can change it later."),
    })
}

fn open_first(mut rows: Vec<Choice>) -> Vec<Choice> {
    rows.sort_by_key(|row| !row.is_open());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::inventory::{Content, Medium, Obstacle, Volume};
    use tandem_api::PartUse;

    fn volume(path: &str, partition: Option<u32>, ssd: bool) -> Volume {
        let fast = |yes: bool, obstacle| if yes { Ok(()) } else { Err(obstacle) };
        Volume {
            path: path.into(),
            device: path.replace("/b/", "/dev/"),
            size: 1_000_000_000_000,
            name: if partition.is_some() {
                "Films".into()
            } else {
                String::new()
            },
            partition,
            content: Content::FileSystem("ext4".into()),
            mount_points: vec![],
            as_origin: fast(!ssd, Obstacle::AlreadyFast),
            only_later: false,
            as_ssd: fast(ssd, Obstacle::NotFast),
            watched: None,
        }
    }

    fn device(path: &str, medium: Medium, volumes: Vec<Volume>) -> Device {
        Device {
            path: path.into(),
            device: path.replace("/b/", "/dev/"),
            model: format!("Model {path}"),
            serial: String::new(),
            size: 1_000_000_000_000,
            medium,
            outside: false,
            volumes,
            whole_as_ssd: if medium == Medium::Ssd {
                Ok(())
            } else {
                Err(Obstacle::NotFast)
            },
        }
    }

    #[test]
    fn a_volume_is_offered_by_its_name_and_a_whole_disk_by_its_model() {
        let partitioned = device(
            "/b/sda",
            Medium::HardDisk,
            vec![volume("/b/sda1", Some(1), false)],
        );
        let whole = device(
            "/b/sdb",
            Medium::HardDisk,
            vec![volume("/b/sdb", None, false)],
        );
        let rows = origin_choices(&[partitioned, whole]);
        assert_eq!(rows[0].title, "Films");
        assert!(
            rows[0]
                .subtitle
                .replace('\u{a0}', " ")
                .starts_with("Model /b/sda · ext4")
        );
        assert_eq!(rows[1].title, "Model /b/sdb");
    }

    #[test]
    fn the_drive_that_holds_the_disk_is_not_offered_as_its_cache() {
        let fast = device(
            "/b/sdc",
            Medium::Ssd,
            vec![volume("/b/sdc1", Some(1), true)],
        );
        assert_eq!(
            ssd_choices(std::slice::from_ref(&fast), &HashMap::new(), "/b/sdc1", 0),
            []
        );
        let rows = ssd_choices(std::slice::from_ref(&fast), &HashMap::new(), "/b/sda1", 0);
        let paths: Vec<_> = rows.iter().map(|row| row.path.as_str()).collect();
        assert_eq!(paths, ["/b/sdc", "/b/sdc1"]);
        assert_eq!(rows[1].title, "Only “Films” on Model /b/sdc");
        assert!(
            ssd_choices(&[fast], &HashMap::new(), "/b/sda1", 2_000_000_000_000)
                .iter()
                .all(|row| !row.is_open())
        );
    }

    #[test]
    fn memory_is_offered_in_round_sizes_where_there_is_any() {
        const MIB: u64 = 1 << 20;
        assert_eq!(memory_choice(0), None);
        for (most, first) in [
            (16 << 30, 4 << 30),
            (8_321_499_136, 2 << 30),
            (2 << 30, 512 * MIB),
            (400 * MIB, 64 * MIB),
            (50 * MIB, 50 * MIB),
        ] {
            let choice = memory_choice(most).unwrap();
            assert!(choice.is_memory() && choice.is_open());
            assert_eq!(parts_of_key(&choice.path), (MEMORY, first));
            assert_eq!(memory_sizes(most).first, first);
        }
    }

    #[test]
    fn what_cannot_be_chosen_comes_last_with_its_reason() {
        let mut swap = volume("/b/sda1", Some(1), false);
        swap.as_origin = Err(Obstacle::Swap);
        let rows = origin_choices(&[device(
            "/b/sda",
            Medium::HardDisk,
            vec![swap, volume("/b/sda2", Some(2), false)],
        )]);
        assert!(rows[0].is_open() && !rows[1].is_open());
        assert_eq!(rows[1].path, "/b/sda1");
    }

    #[test]
    fn a_choice_says_what_it_erases() {
        let reason = |content: Content, partition| {
            let mut holds = volume("/b/sdc1", partition, true);
            holds.content = content;
            let fast = [device("/b/sdc", Medium::Ssd, vec![holds])];
            let rows = ssd_choices(&fast, &HashMap::new(), "/b/sda1", 0);
            rows[0].reason.clone()
        };
        let files = || Content::FileSystem("ext4".into());
        assert!(reason(Content::Empty, None).contains("nothing is erased"));
        assert!(reason(files(), None).starts_with("Everything on it will be erased."));
        assert!(reason(files(), Some(1)).contains("erased, including “Films”."));
        assert!(reason(Content::Unknown, None).contains("may be encrypted"));
    }

    #[test]
    fn the_size_that_is_offered_first_is_all_or_a_good_start() {
        let part = |object: &str, used_for, bytes| SsdPart {
            start: 0,
            bytes,
            used_for,
            device: tandem_api::DeviceText {
                object: object.to_owned().try_into().unwrap(),
                ..tandem_api::DeviceText::none()
            },
            cache: String::new(),
        };
        let gb = 1_000_000_000;
        let first = |layout: &[SsdPart], key: &str, disk| {
            size_offer(layout, key, disk).map(|offer| (offer.first, offer.most))
        };
        for used_for in [PartUse::Free, PartUse::Other] {
            let whole = [part("/b/sdc", used_for, 250 * gb)];
            assert_eq!(first(&whole, "/b/sdc", 0), Some((250 * gb, 250 * gb)));
        }
        let shared = [
            part("/b/sdc1", PartUse::Other, 5),
            part("/", PartUse::Free, 400 * gb),
        ];
        // A partition has the size that it has, and an SSD with partitions is erased as a whole.
        assert_eq!(first(&shared, "/b/sdc1", 0), None);
        assert_eq!(first(&shared, "/b/sdc", 0), None);
        assert_eq!(first(&shared[..1], "/b/sdc", 0), None);
        let free = |bytes: u64, disk| first(&shared, &format!("/b/sdc#{bytes}"), disk);
        assert_eq!(free(400 * gb, 2_000 * gb), Some((200 * gb, 400 * gb)));
        assert_eq!(free(400 * gb, 100 * gb), Some((32 * gb, 400 * gb)));
        assert_eq!(free(220 * gb, 2_000 * gb), Some((220 * gb, 220 * gb)));
        assert_eq!(free(gb, 2_000 * gb), Some((gb, gb)));
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The words for a disk or volume: what it is, and whether it can be chosen.

use gettextrs::{gettext, ngettext};

use super::{SEPARATOR, bytes, fill, partition_words};
use crate::model::inventory::{Content, Device, Medium, Obstacle, VirtualKind, Volume};

/// The words for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceWords {
    /// Maker and model, or the kind of device.
    pub title: String,
    /// Kind, size and serial number.
    pub subtitle: String,
    /// Name of a symbolic icon.
    pub icon: &'static str,
}

/// The words for a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeWords {
    /// Label, or the kind of volume.
    pub title: String,
    /// Content, size, place.
    pub subtitle: String,
    /// Why the volume is not offered as a disk to cache; empty if it is offered.
    pub obstacle: String,
}

/// Words for a device.
#[must_use]
pub fn device_words(device: &Device) -> DeviceWords {
    let (kind, icon) = match device.medium {
        Medium::HardDisk => (gettext("Hard disk"), "drive-harddisk-symbolic"),
        Medium::Ssd => (gettext("SSD"), "drive-harddisk-solidstate-symbolic"),
        Medium::Usb => (gettext("USB drive"), "drive-harddisk-usb-symbolic"),
        Medium::Virtual(VirtualKind::Array) => (gettext("RAID array"), "drive-multidisk-symbolic"),
        Medium::Virtual(VirtualKind::Logical) => {
            (gettext("LVM volume"), "drive-multidisk-symbolic")
        }
        Medium::Virtual(VirtualKind::Unlocked) => (
            gettext("Unlocked encrypted volume"),
            "changes-allow-symbolic",
        ),
        Medium::Virtual(VirtualKind::Other) => (gettext("Virtual disk"), "drive-harddisk-symbolic"),
    };
    let mut facts = vec![bytes(device.size)];
    let title = if device.model.is_empty() {
        kind
    } else {
        facts.insert(0, kind);
        device.model.clone()
    };
    if !device.serial.is_empty() {
        facts.push(fill(
            &gettext("serial number {serial}"),
            &[("serial", &device.serial)],
        ));
    }
    DeviceWords {
        title,
        subtitle: facts.join(SEPARATOR),
        icon,
    }
}

/// Words for a volume.
#[must_use]
pub fn volume_words(volume: &Volume) -> VolumeWords {
    let title = match (&volume.name, volume.partition) {
        (name, _) if !name.is_empty() => name.clone(),
        (_, Some(number)) => partition_words(number),
        _ => gettext("Whole disk"),
    };
    let mut facts = vec![content_words(&volume.content), bytes(volume.size)];
    facts.push(match volume.mount_points.as_slice() {
        [] => volume.device.clone(),
        [first, ..] => fill(&gettext("mounted at {place}"), &[("place", first)]),
    });
    VolumeWords {
        title,
        subtitle: facts.join(SEPARATOR),
        obstacle: volume
            .as_origin
            .err()
            .map(obstacle_words)
            .unwrap_or_default(),
    }
}

/// Names of the partitions of a device, or the label of a device without partitions.
#[must_use]
pub fn volume_names(device: &Device) -> Vec<String> {
    let parts = device.volumes.iter();
    parts
        .filter(|volume| volume.partition.is_some() || !volume.name.is_empty())
        .map(|volume| volume_words(volume).title)
        .collect()
}

/// Words for an SSD as a whole, or for one of its partitions, as a device to erase.
#[must_use]
pub fn ssd_words(device: &Device, volume: Option<&Volume>) -> VolumeWords {
    match volume {
        Some(volume) if volume.partition.is_some() => {
            let words = volume_words(volume);
            VolumeWords {
                title: fill(
                    &gettext("Only “{partition}” on {model}"),
                    &[
                        ("partition", &words.title),
                        ("model", &device_words(device).title),
                    ],
                ),
                obstacle: volume
                    .as_ssd
                    .err()
                    .map(ssd_obstacle_words)
                    .unwrap_or_default(),
                ..words
            }
        }
        _ => {
            let holds = match device.volumes.as_slice() {
                [only] if only.partition.is_none() => content_words(&only.content),
                parts => {
                    let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
                    let words = ngettext("{count} partition", "{count} partitions", count);
                    fill(&words, &[("count", &count.to_string())])
                }
            };
            let words = device_words(device);
            VolumeWords {
                title: words.title,
                subtitle: format!("{}{SEPARATOR}{holds}", words.subtitle),
                obstacle: device
                    .whole_as_ssd
                    .err()
                    .map(ssd_obstacle_words)
                    .unwrap_or_default(),
            }
        }
    }
}

/// What a volume holds.
#[must_use]
pub fn content_words(content: &Content) -> String {
    match content {
        Content::FileSystem(kind) => match kind.as_str() {
            "vfat" => gettext("FAT file system"),
            "ntfs" => gettext("Windows file system (NTFS)"),
            kind => fill(&gettext("{kind} file system"), &[("kind", kind)]),
        },
        Content::Encrypted => gettext("Encrypted, locked"),
        Content::Member(kind) => fill(
            &gettext("Part of an array or volume group ({kind})"),
            &[("kind", kind)],
        ),
        Content::Swap => gettext("Swap space"),
        Content::Cache => gettext("Tandem cache"),
        Content::Empty => gettext("Empty"),
        Content::Unknown => gettext("Unrecognized content"),
        Content::EmptyTable => gettext("No partitions"),
    }
}

/// Why a device is not offered as an SSD to erase.
fn ssd_obstacle_words(obstacle: Obstacle) -> String {
    match obstacle {
        Obstacle::System | Obstacle::Boot => gettext("Holds the running system"),
        other => obstacle_words(other),
    }
}

/// Why a volume is not offered.
#[must_use]
pub fn obstacle_words(obstacle: Obstacle) -> String {
    match obstacle {
        Obstacle::System => gettext("Holds the running system"),
        Obstacle::Boot => gettext("Needed to start the computer, never cached"),
        Obstacle::Swap => gettext("Swap space is never cached"),
        Obstacle::Cached => gettext("Already cached"),
        Obstacle::CacheSsd => gettext("Already used as a cache"),
        Obstacle::AlreadyFast => gettext("Already fast, needs no cache"),
        Obstacle::NotFast => gettext("Not an SSD"),
        Obstacle::ReadOnly => gettext("Read-only"),
        Obstacle::UnlockedElsewhere => gettext("Choose its unlocked volume instead"),
        Obstacle::Member => gettext("Part of an array or volume group; choose that instead"),
        Obstacle::InUse => gettext("In use, unmount it first"),
        Obstacle::TooSmall => gettext("Too small"),
        Obstacle::Empty => gettext("Has no partitions"),
        Obstacle::UsedAtStart => gettext("Used when the computer starts"),
        Obstacle::Twin => gettext("Looks the same as another drive"),
        Obstacle::Refused => gettext("Cannot be used"),
        Obstacle::NotJudged => gettext("Not examined yet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume() -> Volume {
        Volume {
            path: "/b/sda1".into(),
            device: "/dev/sda1".into(),
            size: 2_000_000_000_000,
            name: String::new(),
            partition: Some(1),
            content: Content::FileSystem("ext4".into()),
            mount_points: vec!["/home".into()],
            as_origin: Ok(()),
            only_later: false,
            as_ssd: Err(Obstacle::NotFast),
            watched: None,
        }
    }

    #[test]
    fn a_volume_says_what_it_is_how_large_and_where() {
        let words = volume_words(&volume());
        assert_eq!(words.title, "Partition 1");
        assert_eq!(
            words.subtitle.replace('\u{a0}', " "),
            "ext4 file system · 2.0 TB · mounted at /home"
        );
        assert_eq!(words.obstacle, "");
    }

    #[test]
    fn a_device_without_a_model_is_named_by_what_it_is() {
        let device = Device {
            path: "/b/md0".into(),
            device: "/dev/md0".into(),
            model: String::new(),
            serial: String::new(),
            size: 4_000_000_000_000,
            medium: Medium::Virtual(VirtualKind::Array),
            outside: false,
            volumes: vec![volume()],
            whole_as_ssd: Err(Obstacle::NotFast),
        };
        let words = device_words(&device);
        assert_eq!(words.title, "RAID array");
        assert_eq!(words.subtitle.replace('\u{a0}', " "), "4.0 TB");
    }

    #[test]
    fn content_without_a_signature_is_never_called_empty() {
        assert_eq!(content_words(&Content::Unknown), "Unrecognized content");
    }
}

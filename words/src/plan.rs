// SPDX-License-Identifier: GPL-3.0-or-later
//! The steps and warnings of a plan, in words.

use gettextrs::gettext;
use tandem_api::{DeviceText, Step, StepKind, Warning, WarningKind};

use crate::failure::programs;
use crate::mode::keep_together_warning;
use crate::{Reader, bytes, fill, full_name, label_on, partition_words, quoted, short_name};

/// The data that a plan erases, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erased {
    /// The device.
    pub device: DeviceText,
    /// The name of what is erased: of a partition with its SSD, or of the SSD.
    pub name: String,
    /// The names of what is on the SSD; none for a partition, which is named itself.
    pub names: Vec<String>,
}

impl Erased {
    /// The data that is erased with this device. `partition`: its number, if it is a partition.
    #[must_use]
    pub fn of(device: &DeviceText, partition: Option<u32>, mut names: Vec<String>) -> Self {
        if names.is_empty() && partition.is_none() && !device.label.is_empty() {
            names.push(device.label.clone());
        }
        let model = short_name(device);
        let name = match partition {
            None => model,
            Some(_) if !device.label.is_empty() => label_on(&device.label, &model),
            Some(number) => label_on(&partition_words(number), &model),
        };
        Self {
            device: device.clone(),
            name,
            names,
        }
    }
}

/// The name of a step where the device is shown beside it.
#[must_use]
pub fn step_name(kind: StepKind) -> String {
    match kind {
        StepKind::LoadModule => gettext("Load the kernel module"),
        StepKind::Unmount => gettext("Unmount"),
        StepKind::EraseSsd => gettext("Erase the SSD"),
        StepKind::CreatePartition => gettext("Create a partition"),
        StepKind::DeletePartition => gettext("Delete the partition"),
        StepKind::ResizePartition => gettext("Change the size of the partition"),
        StepKind::ResizeCache => gettext("Change the size of the cache"),
        StepKind::Map => gettext("Set up the cache"),
        StepKind::Prepare => gettext("Prepare the SSD"),
        StepKind::UpdateInitramfs => gettext("Update the startup files"),
        StepKind::Mount => gettext("Mount again"),
        StepKind::EnableWriteback => gettext("Turn on fast saving"),
        StepKind::Drain => gettext("Write back to the hard disk"),
        StepKind::Detach => gettext("Stop using the SSD"),
        StepKind::FreeSsd => gettext("Release the SSD"),
        StepKind::Unmap => gettext("Restore the plain hard disk"),
        StepKind::StopOther => gettext("Stop bcache"),
        StepKind::MovePartition => gettext("Make it a plain partition"),
    }
}

/// Title and explanation of a step. The explanation names the device in full and may be empty.
#[must_use]
pub fn step_words(step: &Step) -> (String, String) {
    let device = full_name(&step.device);
    match step.kind {
        StepKind::LoadModule => (gettext("Load the kernel module"), String::new()),
        StepKind::Unmount => (
            fill(&gettext("Unmount {place}"), &[("place", &step.target)]),
            gettext("No files are changed"),
        ),
        StepKind::EraseSsd => (
            fill(
                &gettext("Erase {model}"),
                &[("model", &short_name(&step.device))],
            ),
            device,
        ),
        StepKind::CreatePartition => (
            fill(
                &gettext("Create a partition of {size}"),
                &[("size", &bytes(step.bytes))],
            ),
            fill(
                &gettext("In the free space of {device}; other partitions do not change"),
                &[("device", &device)],
            ),
        ),
        StepKind::DeletePartition => (
            fill(
                &gettext("Delete the partition of {size}"),
                &[("size", &bytes(step.bytes))],
            ),
            device,
        ),
        StepKind::ResizePartition => (
            fill(
                &gettext("Change the partition to {size}"),
                &[("size", &bytes(step.bytes))],
            ),
            device,
        ),
        StepKind::ResizeCache => (
            fill(
                &gettext("Change the cache to {size}"),
                &[("size", &bytes(step.bytes))],
            ),
            gettext("Copies that stay in their place are kept"),
        ),
        StepKind::Map => (
            fill(
                &gettext("Set up a cache of {size}"),
                &[("size", &bytes(step.bytes))],
            ),
            fill(
                &gettext("For {device}; its contents do not change"),
                &[("device", &device)],
            ),
        ),
        StepKind::Prepare => (
            fill(
                &gettext("Prepare a cache of {size}"),
                &[("size", &bytes(step.bytes))],
            ),
            fill(
                &gettext("{device} uses it the next time you start the computer"),
                &[("device", &device)],
            ),
        ),
        StepKind::UpdateInitramfs => (
            gettext("Update the startup files"),
            gettext("May take some minutes"),
        ),
        StepKind::Mount => (
            fill(&gettext("Mount {place} again"), &[("place", &step.target)]),
            gettext("In the same place, with the same options"),
        ),
        StepKind::EnableWriteback => (
            gettext("Turn on fast saving"),
            gettext("What you save then goes to the SSD first"),
        ),
        StepKind::Drain => (
            fill(
                &gettext("Write {size} back to the hard disk"),
                &[("size", &bytes(step.bytes))],
            ),
            gettext("What you save meanwhile goes to the hard disk right away"),
        ),
        StepKind::Detach => (
            if step.device.is_memory() {
                gettext("Stop using the memory")
            } else {
                gettext("Stop using the SSD")
            },
            gettext("The hard disk keeps working on its own"),
        ),
        StepKind::FreeSsd => (
            fill(
                &gettext("Release {model}"),
                &[("model", &short_name(&step.device))],
            ),
            gettext("The copies of your files on it are discarded"),
        ),
        StepKind::Unmap => (gettext("Restore the plain hard disk"), device),
        StepKind::StopOther => (gettext("Stop bcache"), device),
        StepKind::MovePartition => (
            fill(
                &gettext("Have the partition begin {size} later, where its files begin"),
                &[("size", &bytes(step.bytes))],
            ),
            device,
        ),
    }
}

/// A warning as a sentence. `erased`: what the plan erases, for the warning of that.
#[must_use]
pub fn warning_words(warning: &Warning, erased: Option<&Erased>) -> String {
    let erases = matches!(
        warning.kind,
        WarningKind::ErasesSsd | WarningKind::ErasesUnknown | WarningKind::ErasesOtherCache
    );
    let erased = erased.filter(|_| erases);
    let names = erased.map_or(&[][..], |erased| &erased.names);
    let device = erased.map_or_else(|| short_name(&warning.device), |erased| erased.name.clone());
    let sentence = match warning.kind {
        WarningKind::ErasesSsd if names.is_empty() => {
            gettext("Everything on {device} will be erased.")
        }
        WarningKind::ErasesSsd => {
            gettext("Everything on {device} will be erased, including {names}.")
        }
        WarningKind::ErasesUnknown => gettext(
            "Everything on {device} will be erased. Its content is not recognized and may be encrypted.",
        ),
        WarningKind::ErasesOtherCache => gettext(
            "{device} holds a cache of {system}, and perhaps changes that are not on its hard disk. All of it will be erased.",
        ),
        WarningKind::Unavailable => gettext("Your files will be unavailable for a few seconds."),
        WarningKind::InUse => {
            gettext("Close these programs first, as they use files on the disk: {programs}.")
        }
        WarningKind::Removable => {
            gettext("{device} can be unplugged. If that happens, the cache stops.")
        }
        WarningKind::SsdRotates => {
            gettext("{device} is a hard disk. Using it as a cache makes nothing faster.")
        }
        WarningKind::OriginIsSsd => {
            gettext("{device} is an SSD itself. A cache will not help much.")
        }
        WarningKind::SameDrive => {
            gettext("Both are on the same drive. A cache will not help much.")
        }
        WarningKind::OriginUnknown => gettext(
            "The content of {device} is not recognized. It stays as it is. If the disk is empty, create a file system on it after the cache; an LVM volume group cannot be created on a disk with a cache.",
        ),
        WarningKind::NoHibernation => gettext(
            "The computer cannot hibernate while the disk of the system has a cache. It can still suspend.",
        ),
        WarningKind::OtherSystems => gettext(
            "Do not write to this disk from another system on this computer while it has a cache.",
        ),
        WarningKind::Network => gettext(
            "This disk is on the network. No other computer may write to it while it is used here. The cache starts empty each time, because another computer may have changed the disk.",
        ),
        WarningKind::StaysMapped => gettext(
            "Files on the disk are in use. They stay available, and cleanup finishes the next time you start the computer.",
        ),
        WarningKind::WritebackRisk => gettext(
            "What you save goes to the SSD first. If the SSD fails before it is on the hard disk too, the file system on the hard disk may be damaged beyond repair.",
        ),
        WarningKind::WritebackElsewhere => keep_together_warning(),
        WarningKind::ClearText => gettext(
            "This disk is encrypted and unlocked. Copies of your files will be stored unencrypted on {device}.",
        ),
        WarningKind::LosesUnwritten => gettext(
            "What is not yet on the hard disk will be lost, and the file system on the hard disk may be damaged beyond repair.",
        ),
        WarningKind::LosesInUse if warning.users.is_empty() => gettext(
            "The file system is in use and cannot be unmounted. Going on may damage it further: unmount it first if you can. Otherwise restart the computer right afterwards.",
        ),
        WarningKind::LosesInUse => gettext(
            "The file system is mounted, and in use by: {programs}. Going on may damage it further: close these programs first if you can, so it can be unmounted. Otherwise restart the computer right afterwards.",
        ),
        WarningKind::InMemory => gettext(
            "The cache is in the computer's memory: it starts empty each time, and gives way when programs need the memory. Linux keeps what you read lately in free memory anyway, so an SSD helps more.",
        ),
        WarningKind::StartsEmpty => gettext(
            "The cache starts empty again and fills with what you use. Nothing on the hard disk changes, and your files stay available. This cannot be undone.",
        ),
        WarningKind::StaysUnmounted => {
            gettext("The file system is unmounted first and not mounted again.")
        }
    };
    fill(
        &sentence,
        &[
            ("device", &device),
            ("names", &quoted(names)),
            ("programs", &programs(&warning.users, Reader::Window)),
            ("system", &warning.device.content),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssd() -> DeviceText {
        DeviceText {
            name: "sdb".into(),
            model: "Samsung 870".into(),
            serial: "S62".into(),
            size: 250_000_000_000,
            content: "ext4".into(),
            label: "Old".into(),
            ..DeviceText::none()
        }
    }

    #[test]
    fn what_is_erased_is_named_by_model_size_and_serial_number() {
        let step = Step {
            kind: StepKind::EraseSsd,
            device: ssd(),
            target: String::new(),
            bytes: 0,
        };
        let (title, device) = step_words(&step);
        assert_eq!(title, "Erase Samsung 870");
        assert_eq!(
            device.replace('\u{a0}', " "),
            "Samsung 870, 250.0 GB, serial number S62"
        );
    }

    #[test]
    fn every_step_and_warning_has_words_without_holes() {
        for kind in StepKind::ALL.iter().copied() {
            for bytes in [0, 5_000_000] {
                let step = Step {
                    kind,
                    device: ssd(),
                    target: "/srv".into(),
                    bytes,
                };
                let (title, more) = step_words(&step);
                assert!(
                    !title.is_empty() && !(title + &more).contains(['{', '}']),
                    "{kind}"
                );
            }
        }
        for kind in WarningKind::ALL.iter().copied() {
            let warning = Warning {
                kind,
                device: ssd(),
                users: vec![],
            };
            let words = warning_words(&warning, None);
            assert!(
                words.ends_with('.') && !words.contains(['{', '}']),
                "{kind}"
            );
        }
    }

    #[test]
    fn what_will_be_erased_is_told_by_its_names() {
        let warning = |device| Warning {
            kind: WarningKind::ErasesSsd,
            device,
            users: vec![],
        };
        let whole = DeviceText {
            content: "partition-table".into(),
            label: String::new(),
            ..ssd()
        };
        for (device, names, words) in [
            (
                whole.clone(),
                vec!["Games".to_owned(), "Old".to_owned()],
                "Everything on Samsung 870 will be erased, including “Games”, “Old”.",
            ),
            (
                ssd(),
                vec![],
                "Everything on Samsung 870 will be erased, including “Old”.",
            ),
            (whole, vec![], "Everything on Samsung 870 will be erased."),
        ] {
            let erased = Erased::of(&device, None, names);
            assert_eq!(warning_words(&warning(device), Some(&erased)), words);
        }
        // One partition of an SSD is not the SSD.
        for (label, words) in [
            ("Old", "Everything on “Old” on Samsung 870 will be erased."),
            (
                "",
                "Everything on “Partition 2” on Samsung 870 will be erased.",
            ),
        ] {
            let part = DeviceText {
                label: label.into(),
                ..ssd()
            };
            let erased = Erased::of(&part, Some(2), vec![]);
            assert_eq!(warning_words(&warning(part), Some(&erased)), words);
        }
    }
}

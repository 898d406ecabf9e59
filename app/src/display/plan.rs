// SPDX-License-Identifier: GPL-3.0-or-later
//! The steps and warnings of a plan, in words.

use gettextrs::gettext;
use tandem_api::{DeviceText, JobKind, Step, StepKind, Warning, WarningKind};

use super::failure::programs;
use super::mode::elsewhere;
use super::{SEPARATOR, bytes, fill};

/// A device by all that a person can check against its label: model, size, serial number.
#[must_use]
pub fn full_name(device: &DeviceText) -> String {
    let model = if device.model.is_empty() {
        &device.name
    } else {
        &device.model
    };
    if device.serial.is_empty() {
        fill(
            &gettext("{model}, {size}"),
            &[("model", model), ("size", &bytes(device.size))],
        )
    } else {
        fill(
            &gettext("{model}, {size}, serial number {serial}"),
            &[
                ("model", model),
                ("size", &bytes(device.size)),
                ("serial", &device.serial),
            ],
        )
    }
}

/// A device by its model alone, or its kernel name.
#[must_use]
pub fn short_name(device: &DeviceText) -> String {
    if device.model.is_empty() {
        device.name.clone()
    } else {
        device.model.clone()
    }
}

/// What a device is called where there is little room: the label of its file system, or its model.
#[must_use]
pub fn plain_name(device: &DeviceText) -> String {
    if device.label.is_empty() {
        short_name(device)
    } else {
        device.label.clone()
    }
}

/// What a device is called: the label of its file system with the model, or the model alone.
#[must_use]
pub fn plan_title(device: &DeviceText) -> String {
    titled(device, &short_name(device))
}

/// The same, with all that a person can check against its label.
#[must_use]
pub fn full_title(device: &DeviceText) -> String {
    titled(device, &full_name(device))
}

fn titled(device: &DeviceText, name: &str) -> String {
    if device.label.is_empty() {
        return name.to_owned();
    }
    fill(
        &gettext("“{label}” on {model}"),
        &[("label", &device.label), ("model", name)],
    )
}

/// What to check against the label of a device: size, serial number, kernel name.
#[must_use]
pub fn device_facts(device: &DeviceText) -> String {
    let mut facts = vec![bytes(device.size)];
    if !device.serial.is_empty() {
        facts.push(fill(
            &gettext("serial number {serial}"),
            &[("serial", &device.serial)],
        ));
    }
    if !device.name.is_empty() {
        facts.push(device.name.clone());
    }
    facts.join(SEPARATOR)
}

/// What a device holds, by its type and label.
fn holds(device: &DeviceText) -> String {
    match (device.content.as_str(), device.label.as_str()) {
        ("", _) => gettext("unknown or encrypted content"),
        ("partition-table", _) => gettext("partitions and all that is on them"),
        (kind, "") => fill(&gettext("a file system ({kind})"), &[("kind", kind)]),
        (kind, label) => fill(
            &gettext("the file system “{label}” ({kind})"),
            &[("label", label), ("kind", kind)],
        ),
    }
}

/// Title and explanation of a step. The explanation names the device in full and may be empty.
#[must_use]
pub fn step_words(step: &Step) -> (String, String) {
    let device = full_name(&step.device);
    match step.kind {
        StepKind::LoadModule => (gettext("Start the kernel part of Tandem"), String::new()),
        StepKind::Unmount => (
            fill(&gettext("Unmount {place}"), &[("place", &step.target)]),
            gettext("No file is changed by that"),
        ),
        StepKind::EraseSsd => (
            fill(
                &gettext("Erase {model}"),
                &[("model", &short_name(&step.device))],
            ),
            device,
        ),
        StepKind::Map => (
            fill(
                &gettext("Set up a cache of {size}"),
                &[("size", &bytes(step.bytes))],
            ),
            fill(
                &gettext("Over {device}; nothing on it is changed"),
                &[("device", &device)],
            ),
        ),
        StepKind::Mount => (
            fill(&gettext("Mount {place} again"), &[("place", &step.target)]),
            gettext("At the same place, with the same options"),
        ),
        StepKind::EnableWriteback => (
            gettext("Let saved files reach the hard disk later"),
            gettext("From then on they are on the SSD first"),
        ),
        StepKind::Drain => (
            fill(
                &gettext("Write {size} back to the hard disk"),
                &[("size", &bytes(step.bytes))],
            ),
            gettext("What is saved meanwhile goes to the hard disk at once"),
        ),
        StepKind::Detach => (
            gettext("Stop using the SSD"),
            gettext("The hard disk goes on by itself"),
        ),
        StepKind::FreeSsd => (
            fill(
                &gettext("Free {model}"),
                &[("model", &short_name(&step.device))],
            ),
            gettext("It can then be used for anything else"),
        ),
        StepKind::Unmap => (gettext("Give the plain hard disk back"), device),
    }
}

/// A warning as a sentence.
#[must_use]
pub fn warning_words(warning: &Warning) -> String {
    let sentence = match warning.kind {
        WarningKind::ErasesSsd => gettext("{device} holds {content}. All of it will be lost."),
        WarningKind::ErasesUnknown => {
            gettext("{device} holds unknown or encrypted content. All of it will be lost.")
        }
        WarningKind::Unavailable => gettext("Your files cannot be reached for a few seconds."),
        WarningKind::InUse => {
            gettext("Close these programs first, they use files on the disk: {programs}.")
        }
        WarningKind::Removable => {
            gettext("{device} can be unplugged. If that happens, the cache stops.")
        }
        WarningKind::SsdRotates => gettext(
            "{device} says that it is a hard disk, not an SSD. A cache on it makes nothing faster.",
        ),
        WarningKind::OriginIsSsd => {
            gettext("{device} says that it is an SSD itself. A cache gains little.")
        }
        WarningKind::SameDrive => gettext("Both are on the same drive. A cache gains little."),
        WarningKind::OriginUnknown => {
            gettext("{device} holds unknown or encrypted content. It is kept as it is.")
        }
        WarningKind::OtherSystems => gettext(
            "Do not write to this disk from another system on this computer while it has a cache.",
        ),
        WarningKind::StaysMapped => gettext(
            "Files on the disk are in use. They stay reachable, and the last traces of the cache go at the next start of the computer.",
        ),
        WarningKind::WritebackRisk => gettext(
            "What you save is on the SSD first. If the SSD dies before it is on the hard disk too, the file system on the hard disk may be damaged beyond repair.",
        ),
        WarningKind::WritebackElsewhere => elsewhere(),
        WarningKind::ClearText => gettext(
            "This disk is encrypted and unlocked. Copies of your files will lie on {device} without encryption.",
        ),
        WarningKind::LosesUnwritten => gettext(
            "What is only on the SSD will be lost, and the file system on the hard disk may be damaged beyond repair.",
        ),
        WarningKind::LosesInUse if warning.users.is_empty() => gettext(
            "The file system is in use and cannot be unmounted. If you go on, this may damage it further: better unmount it first. Otherwise restart the computer right afterwards.",
        ),
        WarningKind::LosesInUse => gettext(
            "The file system is mounted, and in use by: {programs}. If you go on, this may damage it further: better close these programs first, so that it can be unmounted. Otherwise restart the computer right afterwards.",
        ),
        WarningKind::StaysUnmounted => {
            gettext("The file system is unmounted before that, and not mounted again.")
        }
    };
    fill(
        &sentence,
        &[
            ("device", &short_name(&warning.device)),
            ("content", &holds(&warning.device)),
            ("programs", &programs(&warning.users)),
        ],
    )
}

/// What a job is doing.
#[must_use]
pub fn job_title(kind: JobKind, undoing: bool) -> String {
    match kind {
        _ if undoing => gettext("Putting Everything Back"),
        JobKind::Create => gettext("Setting Up the Cache"),
        JobKind::Remove => gettext("Removing the Cache"),
        JobKind::Flush => gettext("Writing Everything to the Hard Disk"),
    }
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
            let words = warning_words(&Warning {
                kind,
                device: ssd(),
                users: vec![],
            });
            assert!(
                words.ends_with('.') && !words.contains(['{', '}']),
                "{kind}"
            );
        }
    }

    #[test]
    fn what_will_be_lost_is_told_with_its_label() {
        let words = warning_words(&Warning {
            kind: WarningKind::ErasesSsd,
            device: ssd(),
            users: vec![],
        });
        assert_eq!(
            words,
            "Samsung 870 holds the file system “Old” (ext4). All of it will be lost."
        );
    }
}

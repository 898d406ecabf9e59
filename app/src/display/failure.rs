// SPDX-License-Identifier: GPL-3.0-or-later
//! The words for a failure: what happened, what became of the data, what to do next.

use gettextrs::gettext;
use tandem_api::{DataState, DeviceText, Failure, FileUser, Kind, StepKind};

use super::{bytes, fill, mode_refusal, step_name};

/// The name in a failure to reach the system bus itself instead of a service on it.
pub const SYSTEM_BUS: &str = "D-Bus";

/// The words for a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureWords {
    /// What happened, in a few words.
    pub title: String,
    /// What happened, in a sentence.
    pub what: String,
    /// What became of the data.
    pub data: String,
    /// What to do next; may be empty.
    pub next: String,
    /// Technical English, for the details view and for copying.
    pub details: String,
}

impl FailureWords {
    /// All sentences in order.
    #[must_use]
    pub fn sentences(&self) -> String {
        let all = [&self.what, &self.data, &self.next];
        all.into_iter()
            .filter(|sentence| !sentence.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Words for a failure.
#[must_use]
pub fn failure_words(failure: &Failure) -> FailureWords {
    let device = name_of(&failure.device);
    let put = |sentence: String| {
        fill(
            &sentence,
            &[
                ("device", &device),
                ("name", &failure.name),
                (
                    "step",
                    &failed_step(failure).map(step_name).unwrap_or_default(),
                ),
                (
                    "place",
                    failure.mount_points.first().map_or("", String::as_str),
                ),
                ("programs", &programs(&failure.users)),
                ("needed", &bytes(failure.needed)),
                ("actual", &bytes(failure.actual)),
            ],
        )
    };
    let (title, what, next) = sentences(failure);
    FailureWords {
        title: put(title),
        what: put(what),
        data: data_words(failure),
        next: put(next),
        details: details(failure),
    }
}

/// The step that failed, if the failure names one.
fn failed_step(failure: &Failure) -> Option<StepKind> {
    let named = |step: &StepKind| step.as_str() == failure.name;
    StepKind::ALL.iter().copied().find(named)
}

/// Maker and size of a device, or its kernel name.
fn name_of(device: &DeviceText) -> String {
    match (device.label.as_str(), device.model.as_str()) {
        (label, _) if !label.is_empty() => format!("{label} ({})", bytes(device.size)),
        (_, model) if !model.is_empty() => format!("{model} ({})", bytes(device.size)),
        _ if !device.name.is_empty() => device.name.clone(),
        _ => gettext("the device"),
    }
}

/// Names of programs, each once.
pub(super) fn programs(users: &[FileUser]) -> String {
    let hidden = gettext("a program of another user");
    let name = |user: &'_ FileUser| match user.command.as_str() {
        "" => hidden.clone(),
        command => command.to_owned(),
    };
    let mut names: Vec<String> = users.iter().map(name).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

fn data_words(failure: &Failure) -> String {
    match failure.data {
        DataState::Unchanged => gettext("Nothing was changed."),
        DataState::Restored => gettext("Everything is as it was before, and your data is safe."),
        // The failure does not tell how far the service or the step came.
        DataState::Erased
            if failure.kind == Kind::Interrupted || failure.name == StepKind::EraseSsd.as_str() =>
        {
            gettext("Your data on the hard disk is safe. The SSD may already be erased.")
        }
        DataState::Erased => {
            gettext("Your data on the hard disk is safe. The SSD is already erased.")
        }
        // The sentence is also true where data was given up.
        DataState::Incomplete => gettext(
            "Nothing is waiting to be written, but not everything could be restored yet. Tandem tries again the next time it starts.",
        ),
        DataState::Unwritten => gettext(
            "Some of your data is not yet on the hard disk. Nothing is lost as long as the SSD works or is reconnected.",
        ),
    }
}

/// Title, what happened, and what to do next.
fn sentences(failure: &Failure) -> (String, String, String) {
    match failure.kind {
        Kind::SameDevice => (
            gettext("Same Device Chosen Twice"),
            gettext(
                "The hard disk and the SSD are the same device, or one is a part of the other.",
            ),
            gettext("Choose another SSD."),
        ),
        Kind::SsdMounted => (
            gettext("The SSD Is in Use"),
            gettext("{device} is mounted at {place}."),
            gettext("Unmount it, or choose another SSD."),
        ),
        Kind::SsdInUse => (
            gettext("The SSD Is in Use"),
            gettext("{device} is used by {name}."),
            gettext("Choose another SSD."),
        ),
        Kind::SsdHoldsData => (
            gettext("The SSD Holds Data"),
            gettext("{device} holds data, and you have not agreed to erase it."),
            gettext("Go back and agree to erase it, or choose another SSD."),
        ),
        Kind::SsdUnknownContent => (
            gettext("Unrecognized Content on the SSD"),
            gettext("{device} holds unrecognized content, and you have not agreed to erase it."),
            gettext("Go back and agree to erase it, or choose another SSD."),
        ),
        Kind::SsdIsVolume => (
            gettext("Not Available at Startup"),
            gettext(
                "{device} is a volume ({name}) that is not available early enough when the computer starts.",
            ),
            gettext("Choose the SSD itself or one of its partitions."),
        ),
        Kind::SsdTooSmall => (
            gettext("The SSD Is Too Small"),
            gettext("{device} has {actual}; a cache needs at least {needed}."),
            gettext("Choose another SSD."),
        ),
        Kind::SsdNoFreeSpace => (
            gettext("Not Enough Free Space"),
            gettext("{device} has no free space of {needed}; the largest has {actual}."),
            gettext("Choose a smaller size or another SSD."),
        ),
        Kind::SsdTable => (
            gettext("Cannot Share This SSD"),
            gettext(
                "{device} has an old partition table ({name}), in which Tandem makes no partitions.",
            ),
            gettext("Choose the whole SSD, one of its partitions, or another SSD."),
        ),
        Kind::OriginTooSmall => (
            gettext("The Disk Is Too Small"),
            gettext("{device} has {actual}; a cache makes sense from {needed} on."),
            gettext("Choose another disk."),
        ),
        Kind::ReadOnly => (
            gettext("Read-Only"),
            gettext("{device} is write-protected."),
            gettext("Remove the write protection, or choose another device."),
        ),
        Kind::OriginSwap => (
            gettext("Swap Space Is Never Cached"),
            gettext("{device} is swap space, which a cache would not make faster."),
            gettext("Choose another disk."),
        ),
        Kind::OriginBoot | Kind::OriginEfi => (
            gettext("Needed to Start the Computer"),
            gettext("{device} is read before any cache can exist, so it is never cached."),
            gettext("Choose another disk."),
        ),
        Kind::OriginRoot => (
            gettext("Holds the Running System"),
            gettext("{device} holds the running system, which cannot be cached yet."),
            gettext("Choose another disk."),
        ),
        Kind::NotFoundAtStart => (
            gettext("Not Available at Startup"),
            gettext("{device} would not be found in time when this computer starts."),
            gettext("Choose another device."),
        ),
        Kind::OriginPartitioned => (
            gettext("This Disk Has Partitions"),
            gettext("{device} has partitions."),
            gettext("Choose one of them."),
        ),
        Kind::OriginInUse => (
            gettext("The Disk Is in Use"),
            gettext("{device} is used by {name}."),
            gettext("Choose the volume on top of it, or another disk."),
        ),
        Kind::PartOfVolume => (
            gettext("Part of a Larger Volume"),
            gettext("{device} is one of several devices that belong together ({name})."),
            gettext("Choose the volume as a whole, or another device."),
        ),
        Kind::Indistinguishable => (
            gettext("Cannot Be Identified"),
            gettext(
                "{device} has no serial number or other ID, so Tandem could not find it again.",
            ),
            gettext("Choose another device, or connect it another way."),
        ),
        Kind::ModeRefused => (
            gettext("Mode Not Available"),
            mode_refusal(&failure.name),
            gettext("Choose another mode."),
        ),
        Kind::UnwrittenData if failure.name == "disk-error" && failure.needed > 0 => (
            gettext("Cannot Write to the Hard Disk"),
            gettext(
                "{needed} on {device} is not yet on the hard disk, and the hard disk rejects it.",
            ),
            gettext(
                "You can read all your files: copy them to another disk before you discard this data.",
            ),
        ),
        Kind::UnwrittenData if failure.needed > 0 => (
            gettext("Not Everything Is on the Hard Disk"),
            gettext(
                "{needed} on {device} is not yet on the hard disk and cannot be written back now.",
            ),
            gettext("Reconnect the SSD and the hard disk, or discard this data."),
        ),
        Kind::UnwrittenData => (
            gettext("Not Everything Is on the Hard Disk"),
            gettext(
                "Some of your data on {device} is not yet on the hard disk and cannot be written back now.",
            ),
            gettext("Reconnect the SSD and the hard disk, or discard this data."),
        ),
        Kind::SsdLost => (
            gettext("The SSD Has Failed"),
            gettext("{device} failed while some of your data was not yet on the hard disk."),
            gettext("Turn the computer off, check the cables of the SSD, and start again."),
        ),
        Kind::FstabNamesDevice => (
            gettext("Mounted by Its Device Name"),
            gettext(
                "The file /etc/fstab mounts {place} as {name}, and would not find it with a cache.",
            ),
            gettext("Change that entry to UUID=… (the program Disks can do it), then try again."),
        ),
        Kind::AlreadyCached => (
            gettext("Already Part of a Cache"),
            gettext("{device} is already part of a cache."),
            gettext("Choose another device, or remove that cache first."),
        ),
        Kind::DeviceGone => (
            gettext("A Device Is Gone"),
            gettext("{device} is no longer connected."),
            gettext("Reconnect it and start over."),
        ),
        Kind::DeviceChanged => (
            gettext("A Device Has Changed"),
            gettext("{device} has changed since the steps were shown."),
            gettext("Start over to see what will be done now."),
        ),
        Kind::FilesystemBusy => (
            gettext("Files Are Open"),
            gettext("Files on {place} are used by: {programs}."),
            gettext("Close these programs and try again."),
        ),
        Kind::PlanUnknown => (
            gettext("Too Much Time Has Passed"),
            gettext("The steps you reviewed are no longer valid."),
            gettext("Go back one page to see them again."),
        ),
        Kind::NotAuthorized => (
            gettext("Not Allowed"),
            gettext("Authentication failed or was canceled."),
            gettext("Try again with an administrator's password."),
        ),
        Kind::AuthorityUnavailable => (
            gettext("No Answer"),
            gettext(
                "The service that asks for passwords (polkit) did not answer, and nothing is done without it.",
            ),
            gettext("Try again. If that does not help, restart the computer."),
        ),
        Kind::ModuleNotBuilt => (
            gettext("Kernel Module Missing"),
            gettext("Tandem's kernel module is not built for the running kernel, {name}."),
            gettext("Install the kernel's header package and then the package tandem-dkms again."),
        ),
        Kind::ModuleRefused => (
            gettext("Refused by Secure Boot"),
            gettext("Secure Boot is on, and the kernel does not accept Tandem's module yet."),
            gettext("Enroll the key that signs modules on this computer, then restart."),
        ),
        Kind::ModuleFailed => (
            gettext("Kernel Module Not Loaded"),
            gettext("Tandem's kernel module could not be loaded on {name}."),
            gettext("Copy the details and report them."),
        ),
        Kind::OutOfMemory if failure.needed > 0 => (
            gettext("Not Enough Memory"),
            gettext("This cache needs {needed} of memory, which is not free."),
            gettext("Close some programs, or use a smaller SSD."),
        ),
        Kind::OutOfMemory => (
            gettext("Not Enough Memory"),
            gettext("There is not enough memory for this cache."),
            gettext("Close some programs, or use a smaller SSD."),
        ),
        Kind::Busy => (
            gettext("Already Being Changed"),
            gettext("Something else is changing {device} right now."),
            gettext("Wait until it is done, then try again."),
        ),
        Kind::TooMany => (
            gettext("Too Many Changes"),
            gettext("Too many changes are waiting."),
            gettext("Wait a moment, then try again."),
        ),
        Kind::WrongState => (
            gettext("Not Possible Now"),
            gettext("The cache cannot do this in its current state."),
            gettext("Wait a moment, then try again."),
        ),
        Kind::WrongDisk => (
            gettext("SSD of Another Disk"),
            gettext("{device} belongs to the cache of another disk."),
            gettext("Choose another SSD, or connect the disk that it belongs to."),
        ),
        Kind::SsdDamaged => (
            gettext("SSD Damaged"),
            gettext("The cache information on {device} is damaged."),
            gettext("Check the health of the SSD. “Remove Cache” restores the plain disk."),
        ),
        Kind::SsdBlocks => (
            gettext("SSD Not Compatible"),
            gettext(
                "{device} now uses larger blocks than the hard disk, and may hold unwritten data.",
            ),
            gettext(
                "Connect the SSD the way it was connected before. If it is a copy, use the original.",
            ),
        ),
        Kind::StepFailed => (
            match failed_step(failure) {
                Some(StepKind::Drain) => gettext("Could Not Write Back"),
                Some(
                    StepKind::Detach
                    | StepKind::FreeSsd
                    | StepKind::DeletePartition
                    | StepKind::Unmap,
                ) => gettext("Could Not Remove the Cache"),
                _ => gettext("Could Not Set Up the Cache"),
            },
            if failed_step(failure).is_some() {
                gettext("“{step}” failed on {device}.")
            } else {
                gettext("A step failed on {device}.")
            },
            gettext("Look at the details, then try again."),
        ),
        Kind::Cancelled => (
            gettext("Canceled"),
            gettext("You canceled the change."),
            String::new(),
        ),
        Kind::Interrupted => (
            gettext("Interrupted"),
            gettext(
                "The service was stopped in the middle of its work and has restored everything.",
            ),
            gettext("Try again."),
        ),
        Kind::InvalidArgument => (
            gettext("Versions Do Not Match"),
            gettext("The service did not understand the request."),
            gettext("Make sure that all parts of Tandem have the same version."),
        ),
        Kind::ServiceUnavailable if failure.name == SYSTEM_BUS => (
            gettext("No System Bus"),
            gettext(
                "The system bus (D-Bus) of this computer cannot be reached, so neither disks nor caches can be shown.",
            ),
            gettext("Restart the computer, or start the system bus, and then try again."),
        ),
        Kind::ServiceUnavailable => (
            gettext("No Answer"),
            gettext("The service “{name}” did not answer."),
            gettext("Try again. If that does not help, install Tandem again."),
        ),
        Kind::Internal => (
            gettext("Internal Error"),
            gettext("The service ran into an internal error."),
            gettext("Copy the details and report them."),
        ),
    }
}

/// All that is known of the failure, for a person who helps the user.
fn details(failure: &Failure) -> String {
    let mut lines = vec![format!("{} ({})", failure.kind, failure.data)];
    let device = &failure.device;
    if !device.is_none() {
        lines.push(format!(
            "device: {} {} {} {}",
            device.name, device.model, device.serial, device.object
        ));
    }
    for user in &failure.users {
        lines.push(format!(
            "in use by: {} ({}) of {}",
            user.command, user.pid, user.user
        ));
    }
    lines.extend(
        [&failure.name, &failure.detail]
            .into_iter()
            .filter(|line| !line.is_empty())
            .cloned(),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> DeviceText {
        DeviceText {
            name: "sdb".into(),
            model: "Samsung 870".into(),
            size: 250_000_000_000,
            ..DeviceText::none()
        }
    }

    #[test]
    fn every_kind_says_what_happened_what_became_of_the_data_and_what_is_next() {
        for kind in Kind::ALL.iter().copied() {
            let words = failure_words(&Failure::new(kind).device(&device()).name("linux"));
            assert!(
                !words.title.is_empty() && words.what.ends_with('.'),
                "{kind}"
            );
            assert!(!words.data.is_empty(), "{kind}");
            assert!(
                kind == Kind::Cancelled || words.next.ends_with('.'),
                "{kind}"
            );
            let all = words.title.clone() + &words.sentences();
            assert!(!all.contains(['{', '}']), "{kind}: {all}");
        }
    }

    #[test]
    fn without_a_system_bus_nobody_is_told_to_install_tandem_again() {
        let words = |name| failure_words(&Failure::new(Kind::ServiceUnavailable).name(name));
        assert_eq!(words(SYSTEM_BUS).title, "No System Bus");
        assert!(!words(SYSTEM_BUS).sentences().contains("install"));
        assert!(words("tandem").sentences().contains("install"));
    }

    #[test]
    fn kinds_are_told_apart_by_their_words() {
        let mut seen = std::collections::HashMap::new();
        for kind in Kind::ALL.iter().copied() {
            let words = failure_words(&Failure::new(kind).device(&device()));
            if let Some(other) = seen.insert(words.sentences(), kind) {
                assert_eq!([other, kind], [Kind::OriginBoot, Kind::OriginEfi]);
            }
        }
    }

    #[test]
    fn what_a_disk_refuses_is_not_said_to_come_back_with_it() {
        let words = |name| {
            let failure = Failure::new(Kind::UnwrittenData).device(&device());
            failure_words(&failure.name(name).sizes(8192, 0).data(DataState::Unwritten))
        };
        let refused = words("disk-error");
        assert!(refused.what.contains("8.2") && refused.what.contains("Samsung 870"));
        assert!(refused.next.contains("copy them"), "{}", refused.next);
        assert!(words("ssd-missing").next.contains("Reconnect the SSD"));
    }

    #[test]
    fn who_keeps_a_file_system_busy_is_named_once() {
        let user = |pid, command: &str| FileUser {
            pid,
            command: command.into(),
            uid: 0,
            user: "anna".into(),
        };
        let failure = Failure::new(Kind::FilesystemBusy)
            .mount_points(vec!["/srv".into()])
            .users(vec![user(3, "vlc"), user(2, "bash"), user(9, "vlc")]);
        let words = failure_words(&failure);
        assert_eq!(words.what, "Files on /srv are used by: bash, vlc.");
        assert!(words.details.contains("vlc (3) of anna"));
    }

    #[test]
    fn the_state_of_the_data_is_its_own_sentence() {
        let words = |data| failure_words(&Failure::new(Kind::StepFailed).data(data)).data;
        assert_eq!(words(DataState::Unchanged), "Nothing was changed.");
        assert!(words(DataState::Restored).contains("safe"));
        assert!(words(DataState::Erased).ends_with("The SSD is already erased."));
        let failed = Failure::new(Kind::StepFailed).name(StepKind::EraseSsd.as_str());
        let half = failure_words(&failed.data(DataState::Erased));
        assert!(half.data.contains("may already be erased"), "{half:?}");
        // The failure may be that of a removal that gave data up.
        let incomplete = words(DataState::Incomplete);
        assert!(!incomplete.contains("safe"), "{incomplete}");
    }
}

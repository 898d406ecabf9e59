// SPDX-License-Identifier: GPL-3.0-or-later
//! The words for a failure: what happened, what became of the data, what to do next.

mod reasons;
mod sentences;
mod terminal;

use gettextrs::gettext;
use tandem_api::{DataState, DeviceText, Failure, FileUser, Kind, MAX_NAME_CHARS, Step, StepKind};

use crate::{Reader, bytes, fill, quoted, step_name};
use sentences::sentences;

/// The name in a failure to reach the system bus itself instead of a service on it.
pub const SYSTEM_BUS: &str = "D-Bus";

/// [`Failure::name`] of an internal failure: the window could not write a file.
pub const NOT_SAVED: &str = "file";

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
pub fn failure_words(failure: &Failure, reader: Reader) -> FailureWords {
    let commands = reader.commands();
    let place = match reader {
        Reader::Window => failure.mount_points.first().cloned().unwrap_or_default(),
        Reader::Terminal => failure.mount_points.join(", "),
    };
    let put = |sentence: String| {
        let own = [
            ("device", name_of(&failure.device, reader)),
            ("name", failure.name.clone()),
            (
                "step",
                failed_step(failure).map(step_name).unwrap_or_default(),
            ),
            ("place", place.clone()),
            ("programs", programs(&failure.users, reader)),
            ("content", failure.device.content.clone()),
            ("needed", bytes(failure.needed)),
            ("actual", bytes(failure.actual)),
            ("most", MAX_NAME_CHARS.to_string()),
        ];
        let values = own.iter().chain(&commands);
        let values: Vec<_> = values
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        fill(&sentence, &values)
    };
    let (title, what, mut next) = sentences(failure);
    let mut data = data_words(failure);
    if reader == Reader::Terminal {
        next = terminal::next(failure, &next).unwrap_or(next);
        data.extend(not_undone(&failure.not_restored));
    }
    FailureWords {
        title: put(title),
        what: put(what),
        data: data.join(" "),
        next: put(next),
        details: details(failure),
    }
}

/// The steps that could not be undone, if there are any.
fn not_undone(steps: &[Step]) -> Option<String> {
    let names: Vec<_> = steps.iter().map(|step| step_name(step.kind)).collect();
    let words = gettext("Not undone: {steps}.");
    (!names.is_empty()).then(|| fill(&words, &[("steps", &quoted(&names))]))
}

/// The step that failed, if the failure names one.
fn failed_step(failure: &Failure) -> Option<StepKind> {
    let named = |step: &StepKind| step.as_str() == failure.name;
    StepKind::ALL.iter().copied().find(named)
}

/// Label or model of a device with its size and, in a terminal, its kernel name; or its kernel name alone.
fn name_of(device: &DeviceText, reader: Reader) -> String {
    let name = match (device.label.as_str(), device.model.as_str()) {
        ("", "") if device.name.is_empty() => return gettext("the device"),
        ("", "") => return device.name.clone(),
        ("", model) => model,
        (label, _) => label,
    };
    let mut facts = vec![bytes(device.size)];
    if reader == Reader::Terminal && !device.name.is_empty() {
        facts.push(device.name.clone());
    }
    format!("{name} ({})", facts.join(", "))
}

/// Names of programs, each once; in a terminal with what stops them.
pub(crate) fn programs(users: &[FileUser], reader: Reader) -> String {
    let hidden = gettext("a program of another user");
    let name = |user: &'_ FileUser| match (user.command.as_str(), reader) {
        ("", _) => hidden.clone(),
        (command, Reader::Terminal) if user.pid > 0 => fill(
            &gettext("{program} (process {pid}, {user})"),
            &[
                ("program", command),
                ("pid", &user.pid.to_string()),
                ("user", &user.user),
            ],
        ),
        (command, _) => command.to_owned(),
    };
    let mut names: Vec<String> = users.iter().map(name).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

fn data_words(failure: &Failure) -> Vec<String> {
    vec![match failure.data {
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
        DataState::Removed => gettext(
            "Nothing is lost: the cache is removed, and the hard disk works without it. Cleanup finishes the next time you start the computer.",
        ),
        DataState::OnDisk => gettext(
            "Nothing is lost: everything is on the hard disk, which works without the cache. The SSD may still hold parts of the cache.",
        ),
        DataState::Unwritten => gettext(
            "Some of your data is not yet on the hard disk. Nothing is lost as long as the SSD works or is reconnected.",
        ),
    }]
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

    fn failure_words(failure: &Failure) -> FailureWords {
        super::failure_words(failure, Reader::Window)
    }

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
            let failure = Failure::new(kind).device(&device()).name("linux");
            for reader in [Reader::Window, Reader::Terminal] {
                let words = super::failure_words(&failure, reader);
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
        let words = super::failure_words(&failure, Reader::Terminal).what;
        assert!(words.contains("vlc (process 3, anna)"), "{words}");
    }

    #[test]
    fn a_terminal_is_told_the_options_and_the_names_that_are_typed_there() {
        let words = |kind| {
            let failure = Failure::new(kind).device(&device());
            super::failure_words(&failure, Reader::Terminal).sentences()
        };
        for (kind, part) in [
            (Kind::SsdHoldsData, "--erase-ssd"),
            (Kind::UnwrittenData, "--discard-unwritten"),
            (Kind::FstabNamesDevice, "tandemctl names sdb"),
            (
                Kind::SsdMounted,
                "Samsung 870 (250.0\u{a0}GB, sdb) is mounted",
            ),
            (Kind::SsdDamaged, "“tandemctl remove” restores"),
        ] {
            assert!(words(kind).contains(part), "{}", words(kind));
        }
    }

    #[test]
    fn what_could_not_be_undone_is_named_in_a_terminal() {
        let step = Step {
            kind: StepKind::Mount,
            device: device(),
            target: String::new(),
            bytes: 0,
        };
        let mut failure = Failure::new(Kind::StepFailed).data(DataState::Incomplete);
        failure.not_restored = vec![step];
        let words = super::failure_words(&failure, Reader::Terminal).data;
        assert!(words.ends_with("Not undone: “Mount again”."), "{words}");
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

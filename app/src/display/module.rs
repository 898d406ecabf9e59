// SPDX-License-Identifier: GPL-3.0-or-later
//! What a person does so that the kernel can run a cache.

use gettextrs::gettext;
use tandem_api::{Failure, Kind, ModuleState};

use super::{FailureWords, failure_words};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What to do.
    pub title: String,
    /// What to expect; may be empty.
    pub subtitle: String,
    /// A command for a terminal; may be empty.
    pub command: &'static str,
}

/// Why the kernel cannot run a cache, and what to do in order; `None` if it can.
#[must_use]
pub fn module_words(state: ModuleState, kernel: &str) -> Option<(FailureWords, Vec<Task>)> {
    let task = |title, subtitle, command| Task {
        title,
        subtitle,
        command,
    };
    let (kind, tasks) = match state {
        ModuleState::Loaded | ModuleState::Available => return None,
        ModuleState::NotBuilt => (
            Kind::ModuleNotBuilt,
            vec![
                task(
                    gettext("Install the header package of your kernel"),
                    gettext("In a terminal:"),
                    "sudo apt install linux-headers-amd64",
                ),
                task(
                    gettext("Build the kernel module"),
                    gettext("In a terminal:"),
                    "sudo apt install --reinstall tandem-dkms",
                ),
            ],
        ),
        ModuleState::Refused => (
            Kind::ModuleRefused,
            vec![
                task(
                    gettext("Register the key of this computer"),
                    gettext("It asks for a new password that you need only once. In a terminal:"),
                    "sudo mokutil --import /var/lib/dkms/mok.pub",
                ),
                task(
                    gettext("Restart the computer"),
                    gettext("A blue screen appears before the system starts."),
                    "",
                ),
                task(
                    gettext("Choose “Enroll MOK”, “Continue” and “Yes”, and type the password"),
                    gettext(
                        "The blue screen is in English, and its keyboard may have the US layout.",
                    ),
                    "",
                ),
                task(
                    gettext("Open Tandem again"),
                    gettext("Then you can set up a cache."),
                    "",
                ),
            ],
        ),
    };
    Some((failure_words(&Failure::new(kind).name(kernel)), tasks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_module_has_a_way_out_and_another_needs_none() {
        for state in ModuleState::ALL.iter().copied() {
            let can_run = matches!(state, ModuleState::Loaded | ModuleState::Available);
            let words = module_words(state, "6.1.0-1");
            assert_eq!(words.is_none(), can_run, "{state}");
            for task in words.into_iter().flat_map(|(_, tasks)| tasks) {
                assert!(!task.title.is_empty() && !task.subtitle.is_empty());
                assert_eq!(task.subtitle.ends_with(':'), !task.command.is_empty());
            }
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! Why the kernel cannot run a cache, and what a person does about that.

use gettextrs::gettext;
use tandem_api::distribution::{
    ENROLLING_PACKAGE, MODULE_PACKAGE, SIGNING_PACKAGES, enroll_command, install_command,
    rebuild_command,
};
use tandem_api::{ModuleProblem, ModuleState, SigningKey};

use super::fill;
use crate::model::facts::ModuleFacts;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What to do.
    pub title: String,
    /// What to expect; may be empty.
    pub subtitle: String,
    /// A command for a terminal; may be empty.
    pub command: String,
}

/// What the page offers to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleAction {
    /// Nothing: the person has to act outside of Tandem.
    None,
    /// Enroll the key.
    Enroll,
    /// Restart the computer, so that the firmware asks about the key.
    Restart,
}

/// The words for a kernel that cannot run a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleWords {
    /// What is wrong, in a few words.
    pub title: String,
    /// What is wrong, in sentences.
    pub what: String,
    /// The line of the build's log with the error; may be empty.
    pub reason: String,
    /// What to do.
    pub next: String,
    /// What the page offers to do.
    pub action: ModuleAction,
    /// The same as commands for a terminal; may be empty.
    pub commands: Vec<Task>,
    /// Technical English, to be copied.
    pub details: String,
    /// The text that says what is different with the kernel's own cache, which does without the module; empty if the kernel has none.
    pub instead: String,
}

/// Why the kernel cannot run a cache, and what to do; `None` if it can. `asked`: this user had the key enrolled before.
#[must_use]
pub fn module_words(facts: &ModuleFacts, asked: bool) -> Option<ModuleWords> {
    let command = |title, command: &str| Task {
        title,
        subtitle: gettext("In a terminal:"),
        command: command.to_owned(),
    };
    let install = |package: &str| {
        command(
            fill(&gettext("Install {package}"), &[("package", package)]),
            &install_command(package),
        )
    };
    let rebuild = || command(gettext("Build the kernel module again"), &rebuild_command());
    let mut action = ModuleAction::None;
    let (title, what, next, commands) = match facts.state {
        ModuleState::Loaded | ModuleState::Available => return None,
        ModuleState::Refused => match facts.key {
            SigningKey::NotEnrolled => {
                action = ModuleAction::Enroll;
                let (title, what) = if asked {
                    (
                        gettext("The Key Was Not Enrolled"),
                        gettext(
                            "The computer was restarted, but the key was not confirmed on the blue screen, or the password was wrong. The screen goes away if no key is pressed for ten seconds.",
                        ),
                    )
                } else {
                    (
                        gettext("Enroll the Key of This Computer"),
                        gettext(
                            "Secure Boot is on, so the kernel only accepts modules that are signed with a trusted key. The key that signs Tandem's module is not trusted yet.",
                        ),
                    )
                };
                (
                    title,
                    what,
                    if asked {
                        gettext("Try again: choose a password, restart, and confirm the key.")
                    } else {
                        gettext(
                            "You do this once: choose a password, restart, and confirm the key on a blue screen.",
                        )
                    },
                    vec![command(gettext("Register the key"), &enroll_command())],
                )
            }
            SigningKey::Pending => {
                action = ModuleAction::Restart;
                (
                    gettext("Restart to Finish"),
                    gettext(
                        "The password is set. The computer has not been restarted yet, or the blue screen did not appear.",
                    ),
                    gettext(
                        "Restart, and follow these steps on the blue screen. Write them down or take a photo of them now.",
                    ),
                    vec![],
                )
            }
            SigningKey::Missing => (
                gettext("No Key to Sign With"),
                gettext(
                    "Secure Boot is on, so the kernel only accepts modules that are signed with a trusted key. This computer has no such key yet.",
                ),
                gettext(
                    "Install the packages openssl and mokutil, and then the package tandem-dkms again. The key is made when the module is built.",
                ),
                vec![install(SIGNING_PACKAGES), rebuild()],
            ),
            SigningKey::Enrolled if facts.problem == ModuleProblem::NotSigned => (
                gettext("Kernel Module Not Signed"),
                gettext(
                    "Secure Boot is on, and this computer trusts the key, but the kernel module was built before there was a key and is not signed with it.",
                ),
                gettext("Install the package tandem-dkms again. The module is then signed."),
                vec![rebuild()],
            ),
            SigningKey::Enrolled | SigningKey::NotNeeded => (
                gettext("Kernel Module Refused"),
                fill(
                    &gettext(
                        "The running kernel, {kernel}, does not accept Tandem's module, although the signature is not the reason.",
                    ),
                    &[("kernel", &facts.kernel)],
                ),
                gettext(
                    "Install updates and restart the computer. If that does not help, copy the details and report them.",
                ),
                vec![rebuild()],
            ),
            SigningKey::Unknown => (
                gettext("Kernel Module Refused"),
                gettext(
                    "The kernel only accepts modules that are signed with a trusted key. Whether the key of this computer is trusted cannot be found out.",
                ),
                gettext("Install the package mokutil, and then open Tandem again."),
                vec![install(ENROLLING_PACKAGE)],
            ),
        },
        ModuleState::NotBuilt => match facts.problem {
            ModuleProblem::NotInstalled if facts.detail == MODULE_PACKAGE => (
                gettext("Kernel Module Not Installed"),
                gettext("A cache needs Tandem's kernel module, which is not installed."),
                gettext(
                    "Install the package tandem-dkms. The module is then built for this computer.",
                ),
                vec![install(MODULE_PACKAGE)],
            ),
            ModuleProblem::NoHeaders => (
                gettext("Kernel Headers Missing"),
                fill(
                    &gettext(
                        "Tandem's kernel module is not built for the running kernel, {kernel}: that needs the headers of this kernel.",
                    ),
                    &[("kernel", &facts.kernel)],
                ),
                fill(
                    &gettext("Install the package {package}. The module is then built."),
                    &[("package", &facts.detail)],
                ),
                vec![install(&facts.detail)],
            ),
            ModuleProblem::Excluded => (
                gettext("This Kernel Cannot Run a Cache"),
                fill(
                    &gettext(
                        "The running kernel, {kernel}, was made without the device mapper, which every cache needs.",
                    ),
                    &[("kernel", &facts.kernel)],
                ),
                gettext(
                    "Start the computer with another kernel, such as the standard kernel of your distribution.",
                ),
                vec![],
            ),
            ModuleProblem::BuildFailed => (
                gettext("Kernel Module Could Not Be Built"),
                fill(
                    &gettext(
                        "Building Tandem's kernel module for the running kernel, {kernel}, failed.",
                    ),
                    &[("kernel", &facts.kernel)],
                ),
                gettext(
                    "Install updates and restart the computer. If that does not help, copy the details and report them. Until then, an older kernel may still work: choose it when the computer starts.",
                ),
                vec![rebuild()],
            ),
            ModuleProblem::NotInstalled
            | ModuleProblem::None
            | ModuleProblem::NotSigned
            | ModuleProblem::KeyNotTrusted => (
                gettext("Kernel Module Missing"),
                fill(
                    &gettext(
                        "Tandem's kernel module is not built for the running kernel, {kernel}.",
                    ),
                    &[("kernel", &facts.kernel)],
                ),
                gettext(
                    "Restart the computer: missing modules are usually built then. If that does not help, install the package tandem-dkms again.",
                ),
                vec![rebuild()],
            ),
        },
    };
    Some(ModuleWords {
        title,
        what,
        reason: reason(facts),
        next,
        action,
        commands,
        details: details(facts),
        instead: instead(facts),
    })
}

/// The text that says what is different with the kernel's own cache.
fn instead(facts: &ModuleFacts) -> String {
    if !facts.has_dm_cache {
        return String::new();
    }
    gettext(
        "Linux has a cache of its own (dm-cache), which works without Tandem's kernel module. All your data is always on the hard disk. The cache begins empty after a crash, and at each start of the computer unless the disk has ext4 or Btrfs. It cannot be paused. If the SSD fails, programs may get errors until the SSD or the cache is removed; a system that runs from the disk may have to be restarted.",
    )
}

/// The first error in the log of the build.
fn reason(facts: &ModuleFacts) -> String {
    if facts.problem != ModuleProblem::BuildFailed {
        return String::new();
    }
    let lines = || facts.detail.lines().filter(|line| !line.trim().is_empty());
    let error = lines().find(|line| line.to_ascii_lowercase().contains("error"));
    error
        .or_else(|| lines().next_back())
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn details(facts: &ModuleFacts) -> String {
    let mut lines = vec![
        format!("kernel: {}", facts.kernel),
        format!("module: {} ({})", facts.state, facts.problem),
        format!("key: {}", facts.key),
    ];
    if !facts.detail.is_empty() {
        lines.push(facts.detail.clone());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = ModuleFacts> {
        let states = ModuleState::ALL.iter().copied();
        states.flat_map(|state| {
            let problems = ModuleProblem::ALL.iter().copied();
            problems.flat_map(move |problem| {
                let keys = SigningKey::ALL.iter().copied();
                keys.map(move |key| ModuleFacts {
                    state,
                    problem,
                    detail: "linux-headers-6.1.0-1".into(),
                    key,
                    kernel: "6.1.0-1".into(),
                    has_dm_cache: false,
                })
            })
        })
    }

    #[test]
    fn a_kernel_without_the_module_has_a_way_out_and_another_needs_none() {
        for facts in all() {
            for asked in [false, true] {
                let words = module_words(&facts, asked);
                assert_eq!(words.is_none(), facts.is_usable(), "{facts:?}");
                let Some(words) = words else { continue };
                for sentence in [&words.what, &words.next] {
                    assert!(sentence.ends_with('.'), "{facts:?}: {sentence}");
                    assert!(!sentence.contains(['{', '}']), "{sentence}");
                }
                for task in words.commands {
                    assert!(task.subtitle.ends_with(':') && !task.command.is_empty());
                }
            }
        }
    }

    #[test]
    fn the_other_way_is_told_only_where_the_kernel_has_it() {
        for facts in all().filter(|facts| !facts.is_usable()) {
            for has_dm_cache in [false, true] {
                let facts = ModuleFacts {
                    has_dm_cache,
                    ..facts.clone()
                };
                let instead = module_words(&facts, false).unwrap().instead;
                assert_eq!(!instead.is_empty(), has_dm_cache, "{facts:?}");
                for part in [
                    "always on the hard disk",
                    "begins empty",
                    "paused",
                    "system",
                ] {
                    assert_eq!(instead.contains(part), has_dm_cache, "{part}: {instead}");
                }
            }
        }
    }

    #[test]
    fn the_page_offers_what_the_key_lacks() {
        for facts in all().filter(|facts| facts.state == ModuleState::Refused) {
            let action = match facts.key {
                SigningKey::NotEnrolled => ModuleAction::Enroll,
                SigningKey::Pending => ModuleAction::Restart,
                _ => ModuleAction::None,
            };
            assert_eq!(module_words(&facts, false).unwrap().action, action);
        }
    }

    #[test]
    fn the_reason_is_the_first_error_of_the_log() {
        let facts = |detail: &str| ModuleFacts {
            state: ModuleState::NotBuilt,
            problem: ModuleProblem::BuildFailed,
            detail: detail.into(),
            key: SigningKey::NotNeeded,
            kernel: "6.1".into(),
            has_dm_cache: false,
        };
        let log = "make: entering\n  map.c:7: error: no bio\nmake: *** Error 2\n\n";
        assert_eq!(reason(&facts(log)), "map.c:7: error: no bio");
        assert_eq!(reason(&facts("killed\n\n")), "killed");
        assert_eq!(reason(&facts("")), "");
    }
}

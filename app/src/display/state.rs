// SPDX-License-Identifier: GPL-3.0-or-later
//! The words for the state of a cache: what happened, where the data is, what to do next.

use gettextrs::gettext;
use tandem_api::{CacheState, Sharing};

use crate::model::facts::CacheFacts;

/// How urgently a state asks for attention, in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The cache works.
    Good,
    /// The state takes a while; there is no fault.
    Calm,
    /// The disk works, the cache does not: the person should know.
    Warning,
    /// Data is in danger.
    Danger,
}

impl Severity {
    /// All severities.
    pub const ALL: [Self; 4] = [Self::Good, Self::Calm, Self::Warning, Self::Danger];

    /// Style class of libadwaita.
    #[must_use]
    pub fn css_class(self) -> &'static str {
        match self {
            Self::Good => "success",
            Self::Calm => "dim-label",
            Self::Warning => "warning",
            Self::Danger => "error",
        }
    }

    fn icon(self) -> &'static str {
        match self {
            Self::Good => "tandem-active-symbolic",
            Self::Calm => "tandem-paused-symbolic",
            Self::Warning | Self::Danger => "tandem-bypass-symbolic",
        }
    }
}

/// The words for a cache's state. A state without a fault has only a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheWords {
    /// One or two words.
    pub title: String,
    /// What happened.
    pub what: String,
    /// Where the data is; empty where the safety line, which stands above these words, says that nothing is lost.
    pub data: String,
    /// What to do next.
    pub next: String,
    /// Name of a symbolic icon.
    pub icon: &'static str,
    /// How urgently the state asks for attention.
    pub severity: Severity,
    /// Whether the person can have the cache go on.
    pub resumable: bool,
}

/// Words for a state and its reason. `unwritten` says that data may be on the SSD only.
#[must_use]
pub fn cache_words(state: CacheState, reason: &str, unwritten: bool) -> CacheWords {
    let words = |severity: Severity, title: String, [what, data, next]: [String; 3]| CacheWords {
        title,
        what,
        data,
        next,
        icon: severity.icon(),
        severity,
        resumable: false,
    };
    let (severity, title) = match (state, reason) {
        (CacheState::Active, "disk-error") => (Severity::Warning, gettext("Hard Disk Error")),
        (CacheState::Active, _) => (Severity::Good, gettext("Working")),
        (CacheState::Suspended, _) => (Severity::Calm, gettext("Paused Briefly")),
        (CacheState::Pending, _) => (Severity::Calm, gettext("Waiting for a Restart")),
        (CacheState::Detached, _) => (Severity::Calm, gettext("Removed")),
        (_, "ssd-gone-dirty") => (
            Severity::Danger,
            gettext("SSD Missing, It Holds Unwritten Data"),
        ),
        (CacheState::Bypass, "ssd-error") => (Severity::Warning, gettext("SSD Failed")),
        (CacheState::Bypass, "disk-error") => (Severity::Warning, gettext("Hard Disk Error")),
        (CacheState::Bypass | CacheState::Stopped, "disk-missing") => {
            (Severity::Warning, gettext("Hard Disk Missing"))
        }
        (CacheState::Bypass, _) => (Severity::Warning, gettext("Cache Off")),
        (CacheState::Stopped, "ssd-missing") if unwritten => (
            Severity::Danger,
            gettext("SSD Missing, It Holds Unwritten Data"),
        ),
        (CacheState::Stopped, "ssd-missing") => (Severity::Warning, gettext("SSD Missing")),
        (CacheState::Stopped, "disk-elsewhere") => (Severity::Danger, gettext("Hard Disk Locked")),
        (CacheState::Stopped, "disk-in-doubt") => {
            (Severity::Danger, gettext("Hard Disk May Have Changed"))
        }
        (CacheState::Stopped, "disk-changed") if unwritten => {
            (Severity::Danger, gettext("Hard Disk Changed Elsewhere"))
        }
        (CacheState::Stopped, "disk-changed") => {
            (Severity::Warning, gettext("Hard Disk Changed Elsewhere"))
        }
        (CacheState::Stopped, "ssd-damaged") if unwritten => (
            Severity::Danger,
            gettext("SSD Damaged, It Holds Unwritten Data"),
        ),
        (CacheState::Stopped, "ssd-damaged") => (Severity::Warning, gettext("SSD Damaged")),
        (CacheState::Stopped, "ssd-blocks") if unwritten => {
            (Severity::Danger, gettext("SSD Not Compatible"))
        }
        (CacheState::Stopped, "ssd-blocks") => (Severity::Warning, gettext("SSD Not Compatible")),
        (CacheState::Stopped, "put-away") => (Severity::Calm, gettext("Ready to Unplug")),
        (CacheState::Stopped, _) => (Severity::Warning, gettext("Not Started")),
    };
    CacheWords {
        resumable: is_put_away(state, reason),
        ..words(severity, title, sentences(state, reason, unwritten))
    }
}

/// Whether the cache was stopped so that its disk can be unplugged. A person can start it again.
#[must_use]
pub fn is_put_away(state: CacheState, reason: &str) -> bool {
    state == CacheState::Stopped && reason == "put-away"
}

/// Words for a cache whose newest sample counts `dirty` bytes that are on the SSD only.
#[must_use]
pub fn words_of(facts: &CacheFacts, dirty: u64) -> CacheWords {
    let is_paused = facts.state == CacheState::Active && facts.paused && facts.reason.is_empty();
    let words = match is_paused {
        true => pause_words(),
        false => cache_words(facts.state, &facts.reason, facts.may_be_unwritten(dirty)),
    };
    if words.severity >= Severity::Warning {
        return words;
    }
    if facts.grub_would_fail {
        return grub_words(facts.state, is_paused);
    }
    match sharing_words(facts.sharing) {
        Some(warning) if facts.state == CacheState::Active => CacheWords {
            resumable: is_paused,
            ..warning
        },
        _ => words,
    }
}

/// Words for a cache whose disk something else changes.
fn sharing_words(sharing: Sharing) -> Option<CacheWords> {
    let severity = Severity::Warning;
    let [what, next] = match sharing {
        Sharing::Alone => return None,
        Sharing::Filesystem => [
            gettext(
                "The file system has further disks, and can be changed through them without the cache. So the cache starts empty each time, and Fast Saving is off.",
            ),
            gettext(
                "Choose “Remove Cache”, or take the other disks out of the file system (btrfs device remove).",
            ),
        ],
        Sharing::Snapshots => [
            gettext(
                "The volume has snapshots, and merging one would change it without the cache. So the cache starts empty each time, and Fast Saving is off.",
            ),
            gettext("Choose “Remove Cache” before you merge a snapshot, or remove the snapshots."),
        ],
    };
    Some(CacheWords {
        title: gettext("Changed by Something Else"),
        what,
        data: String::new(),
        next,
        icon: severity.icon(),
        severity,
        resumable: false,
    })
}

/// Words for a cache over the disk from which GRUB starts the computer.
fn grub_words(state: CacheState, is_paused: bool) -> CacheWords {
    let severity = Severity::Warning;
    CacheWords {
        title: gettext("Computer May Not Start"),
        what: gettext(
            "GRUB starts this computer from this disk. If GRUB is updated while the disk has a cache, the computer does not start any more.",
        ),
        data: String::new(),
        next: match state {
            CacheState::Pending => gettext("Choose “Cancel Setup” before GRUB is updated."),
            CacheState::Detached => gettext("Restart the computer before GRUB is updated."),
            _ => gettext("Choose “Remove Cache” and restart the computer before GRUB is updated."),
        },
        icon: severity.icon(),
        severity,
        resumable: is_paused,
    }
}

/// Words for a cache that a person has paused.
fn pause_words() -> CacheWords {
    let severity = Severity::Calm;
    CacheWords {
        title: gettext("Paused"),
        what: gettext(
            "What is on the SSD is still read from it. Nothing else is stored there, so that a large copy or a backup does not take the place of what you use every day.",
        ),
        data: String::new(),
        next: gettext("The cache also resumes when you restart the computer."),
        icon: severity.icon(),
        severity,
        resumable: true,
    }
}

/// Where the data is while the cache is missing.
fn data(unwritten: bool) -> String {
    if unwritten {
        gettext(
            "Some of your data may not yet be on the hard disk. None of it is lost, but do not use the hard disk without the SSD.",
        )
    } else {
        String::new()
    }
}

fn data_of_missing_disk(unwritten: bool) -> String {
    if unwritten {
        gettext(
            "Some of your data may not yet be on the hard disk. Keep both, and do not connect the disk to another computer.",
        )
    } else {
        gettext("Your data is on that disk.")
    }
}

/// What happened, where the data is, what to do next.
fn sentences(state: CacheState, reason: &str, unwritten: bool) -> [String; 3] {
    let broken_ssd = || {
        gettext(
            "Turn the computer off, check the cables of the SSD, and start again. If the SSD is broken for good, “Remove Cache” lets you discard this data.",
        )
    };
    match (state, reason) {
        (CacheState::Active | CacheState::Bypass, "disk-error") => [
            gettext("The hard disk reported an error."),
            if unwritten {
                gettext(
                    "Data it rejected stays on the SSD, and Tandem keeps trying. Nothing is lost as long as the SSD works.",
                )
            } else {
                gettext("Nothing is waiting to be written.")
            },
            gettext(
                "Check the health of the hard disk, and make sure that your backup is up to date.",
            ),
        ],
        (CacheState::Active | CacheState::Suspended, _) => Default::default(),
        (CacheState::Pending, _) => [
            gettext(
                "The SSD is ready. The cache starts working the next time you start the computer.",
            ),
            gettext("Nothing on the hard disk has changed."),
            gettext("Restart the computer, or choose “Cancel Setup”."),
        ],
        (CacheState::Detached, _) => [
            gettext("The cache is removed, and you can use the SSD for something else."),
            // The sentence is also true where data was given up.
            gettext("Nothing is waiting to be written."),
            gettext("Cleanup finishes the next time you start the computer."),
        ],
        (CacheState::Bypass, "ssd-gone-dirty") => [
            gettext(
                "The SSD failed or was unplugged while some of your data was not yet on the hard disk. You can read the rest, but save nothing on this disk for now.",
            ),
            gettext("Nothing is lost if you reconnect the SSD unchanged."),
            broken_ssd(),
        ],
        (CacheState::Bypass, "ssd-error") => [
            gettext("The SSD failed. The hard disk keeps working at its own speed."),
            data(false),
            gettext("Choose “Remove Cache” to stop using the SSD."),
        ],
        // A disk that is back also has this state, as long as a program or mount still holds on to the old mapped
        // device.
        (CacheState::Bypass, "disk-missing") => [
            gettext("The hard disk was unplugged while the cache was in use."),
            data_of_missing_disk(unwritten),
            gettext(
                "Reconnect it. If the cache does not start again automatically, close what uses the disk, or restart the computer.",
            ),
        ],
        (CacheState::Bypass, _) => [
            gettext("The hard disk works at its own speed, without the SSD."),
            if unwritten {
                gettext("Some of your data may not yet be on the hard disk. None of it is lost.")
            } else {
                data(false)
            },
            gettext(
                "If this does not change the next time you start the computer, choose “Remove Cache”.",
            ),
        ],
        (CacheState::Stopped, "ssd-missing") if !unwritten => [
            gettext("The SSD of this cache is not connected."),
            data(false),
            gettext("Reconnect it, and the cache starts again automatically."),
        ],
        (CacheState::Stopped, "ssd-missing" | "ssd-gone-dirty") => [
            gettext(
                "The SSD of this cache is not connected, and some of your data is not yet on the hard disk. The disk stays locked until the SSD is back, so that both still match.",
            ),
            gettext("Nothing is lost if you reconnect the SSD unchanged."),
            broken_ssd(),
        ],
        (CacheState::Stopped, "disk-missing") => [
            gettext("The hard disk of this cache is not connected."),
            data_of_missing_disk(unwritten),
            gettext("Reconnect it, and the cache starts again automatically."),
        ],
        (CacheState::Stopped, "disk-elsewhere") => [
            gettext(
                "The hard disk is connected in another way than before, for example in a USB enclosure, or this is a copy of it. It stays locked, because some of your data is only on the SSD.",
            ),
            gettext("Nothing is lost."),
            gettext(
                "Connect it the way it was connected before, and the cache starts again automatically.",
            ),
        ],
        (CacheState::Stopped, "disk-in-doubt") => [
            gettext(
                "A disk with the same contents was used without the SSD. If it was this hard disk, the unwritten data on the SSD no longer matches it. Neither is touched.",
            ),
            gettext("Some of your data is not yet on the hard disk."),
            gettext(
                "If it was a copy, connect both disks at the same time, and the cache starts again. Otherwise “Remove Cache” lets you discard the unwritten data.",
            ),
        ],
        (CacheState::Stopped, "disk-changed") if unwritten => [
            gettext(
                "The hard disk was changed without its cache, and the unwritten data on the SSD no longer matches it. Neither is touched.",
            ),
            gettext("Some of your data is not yet on the hard disk."),
            gettext(
                "If you restored the disk from a copy, bring it back as it was. Otherwise “Remove Cache” lets you discard the unwritten data.",
            ),
        ],
        (CacheState::Stopped, "disk-changed") => [
            gettext("The hard disk was changed without its cache."),
            data(false),
            gettext("Choose “Remove Cache”, and then set up a new one."),
        ],
        (CacheState::Stopped, "ssd-damaged") => [
            gettext(
                "The cache information on the SSD is damaged and cannot be trusted. Neither the SSD nor the hard disk is touched.",
            ),
            if unwritten {
                gettext("Some of your data is not yet on the hard disk.")
            } else {
                data(false)
            },
            if unwritten {
                gettext(
                    "Check the health of the SSD. “Remove Cache” lets you discard the unwritten data; then restore it from your backup.",
                )
            } else {
                gettext("Choose “Remove Cache”, and then set up a new one.")
            },
        ],
        (CacheState::Stopped, "ssd-blocks") => [
            gettext(
                "The SSD now uses larger blocks than the hard disk, so it cannot hold everything you save. Neither the SSD nor the hard disk is touched.",
            ),
            data(unwritten),
            gettext(
                "Connect the SSD the way it was connected before. If it is a copy, use the original.",
            ),
        ],
        (CacheState::Stopped, "module-not-built") => [
            gettext("Tandem's kernel module is not built for the running kernel."),
            data(unwritten),
            gettext("Install the kernel's header package and then the package tandem-dkms again."),
        ],
        (CacheState::Stopped, "module-refused") => [
            gettext("Secure Boot is on, and the kernel does not accept Tandem's module yet."),
            data(unwritten),
            gettext("Enroll the key that signs modules on this computer, then restart."),
        ],
        (CacheState::Stopped, "disk-in-use") => [
            gettext("Something else was using the hard disk when the cache was about to start."),
            data(unwritten),
            gettext("Unmount the hard disk or restart the computer, and the cache starts again."),
        ],
        (CacheState::Stopped, "put-away") => [
            gettext(
                "The hard disk was unmounted, so the cache stopped. You can unplug the disk now.",
            ),
            data(unwritten),
            gettext(
                "The cache starts again when you plug the disk in again. To mount it now, choose “Resume” first, or the SSD has to fill up again.",
            ),
        ],
        (CacheState::Stopped, _) => [
            gettext("This cache is not running."),
            data(unwritten),
            gettext("Restart the computer, and the cache starts again automatically."),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::safety::{REASONS, SafetyAmounts, SafetyFacts, safety};
    use tandem_api::Mode;

    /// Whether the safety line says that nothing is lost.
    fn nothing_is_lost(state: CacheState, reason: &str, unwritten: bool) -> bool {
        Mode::ALL.iter().all(|mode| {
            let safety = safety(&SafetyFacts {
                state,
                reason,
                mode: *mode,
                dirty: None,
                may_be_unwritten: unwritten,
                ssd_failing: false,
                content: "ext4",
            });
            let line = safety.line(&SafetyAmounts::default());
            !safety.risks_data() && line.contains("nothing") && line.contains("disk: yes")
        })
    }

    #[test]
    fn whatever_is_wrong_says_what_happened_where_the_data_is_and_what_is_next() {
        for state in CacheState::ALL.iter().copied() {
            for reason in REASONS {
                for unwritten in [false, true] {
                    let words = cache_words(state, reason, unwritten);
                    let of = format!("{state} {reason} {unwritten}");
                    assert!(!words.title.is_empty());
                    let wrong = matches!(words.severity, Severity::Warning | Severity::Danger);
                    if words.what.is_empty() && words.next.is_empty() {
                        assert!(words.data.is_empty() && !wrong, "{of}");
                        continue;
                    }
                    assert!(
                        words.what.ends_with('.') && words.next.ends_with('.'),
                        "{of}"
                    );
                    assert!(
                        words.data.ends_with('.') || nothing_is_lost(state, reason, unwritten),
                        "{of}"
                    );
                }
            }
        }
    }

    #[test]
    fn nothing_is_called_safe_that_a_missing_device_holds() {
        for unwritten in [false, true] {
            let words = cache_words(CacheState::Bypass, "disk-missing", unwritten);
            assert_eq!(words.title, "Hard Disk Missing");
            assert!(!words.data.contains("safe"), "{words:?}");
        }
        for (state, reason) in [
            (CacheState::Bypass, "ssd-gone-dirty"),
            (CacheState::Stopped, "ssd-gone-dirty"),
        ] {
            let words = cache_words(state, reason, false);
            assert_eq!(words.severity, Severity::Danger);
            assert!(words.data.contains("if you reconnect the SSD"), "{words:?}");
            assert!(words.next.contains("discard this data"), "{words:?}");
        }
    }

    #[test]
    fn a_removed_cache_may_have_taken_with_it_what_was_given_up() {
        for unwritten in [false, true] {
            let words = cache_words(CacheState::Detached, "", unwritten);
            assert_eq!(words.data, "Nothing is waiting to be written.");
        }
    }

    #[test]
    fn an_error_of_the_disk_is_told_while_the_cache_works() {
        let words = cache_words(CacheState::Active, "disk-error", true);
        assert_eq!(words.severity, Severity::Warning);
        assert!(words.data.contains("keeps trying"));
    }
}

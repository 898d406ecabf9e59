// SPDX-License-Identifier: GPL-3.0-or-later
//! The words for the state of a cache: what happened, where the data is, what to do next.

mod sentences;

use gettextrs::gettext;
use tandem_api::{CacheState, Sharing};

use crate::{Reader, fill};
use sentences::sentences;

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

    /// Name of a symbolic icon.
    #[must_use]
    pub fn icon(self) -> &'static str {
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

/// What decides about the words for a cache.
#[derive(Clone, Copy, Debug)]
pub struct StateFacts<'a> {
    /// State of the cache.
    pub state: CacheState,
    /// Why, as a word; may be empty.
    pub reason: &'a str,
    /// Whether data may be on the SSD only.
    pub unwritten: bool,
    /// Whether a person has paused the cache.
    pub paused: bool,
    /// Whether GRUB could not start the computer after its next update, because of this cache.
    pub grub_would_fail: bool,
    /// What changes the disk beside the cache.
    pub sharing: Sharing,
}

/// Words for a cache.
#[must_use]
pub fn state_words(facts: &StateFacts<'_>, reader: Reader) -> CacheWords {
    let commands = reader.commands();
    let commands = commands
        .each_ref()
        .map(|(name, words)| (*name, words.as_str()));
    let words = most_urgent(facts);
    CacheWords {
        next: fill(&words.next, &commands),
        ..words
    }
}

/// The words for the most urgent of what is the case.
fn most_urgent(facts: &StateFacts<'_>) -> CacheWords {
    let is_paused = facts.state == CacheState::Active && facts.paused && facts.reason.is_empty();
    let words = match is_paused {
        true => pause_words(),
        false => reason_words(facts.state, facts.reason, facts.unwritten),
    };
    if words.severity >= Severity::Warning {
        return words;
    }
    if facts.sharing == Sharing::Network && is_put_away(facts.state, facts.reason) {
        return unused_words(words);
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

/// Words for a state and its reason.
fn reason_words(state: CacheState, reason: &str, unwritten: bool) -> CacheWords {
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
        (CacheState::Bypass, "memory-needed") if !unwritten => {
            (Severity::Calm, gettext("Paused: Memory Needed"))
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

/// Words for a cache that is put away because another computer may use its disk, which is on the network.
fn unused_words(words: CacheWords) -> CacheWords {
    CacheWords {
        title: gettext("Not in Use"),
        what: gettext(
            "The hard disk was unmounted, so the cache stopped. Another computer can use the disk now.",
        ),
        next: gettext(
            "The cache starts again when the disk is mounted or connected again, or when you choose {resume}. It starts empty.",
        ),
        ..words
    }
}

/// Words for a cache whose disk something else changes.
fn sharing_words(sharing: Sharing) -> Option<CacheWords> {
    let severity = Severity::Warning;
    let [what, next] = match sharing {
        // The plan has said it, and there is nothing to do.
        Sharing::Alone | Sharing::Network => return None,
        Sharing::Filesystem => [
            gettext(
                "The file system has further disks, and can be changed through them without the cache. So the cache starts empty each time, and Fast Saving is off.",
            ),
            gettext(
                "Choose {remove}, or take the other disks out of the file system (btrfs device remove).",
            ),
        ],
        Sharing::Snapshots => [
            gettext(
                "The volume has snapshots, and merging one would change it without the cache. So the cache starts empty each time, and Fast Saving is off.",
            ),
            gettext("Choose {remove} before you merge a snapshot, or remove the snapshots."),
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
            CacheState::Pending => gettext("Choose {cancel} before GRUB is updated."),
            CacheState::Detached => gettext("Restart the computer before GRUB is updated."),
            _ => gettext("Choose {remove} and restart the computer before GRUB is updated."),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::{REASONS, SafetyAmounts, SafetyFacts, safety};
    use tandem_api::Mode;

    fn cache_words(state: CacheState, reason: &str, unwritten: bool) -> CacheWords {
        let facts = StateFacts {
            state,
            reason,
            unwritten,
            paused: false,
            grub_would_fail: false,
            sharing: Sharing::Alone,
        };
        let inside = state_words(&facts, Reader::Terminal);
        let words = state_words(&facts, Reader::Window);
        for of in [&inside, &words] {
            assert!(!of.next.contains('{'), "{of:?}");
        }
        assert!(!inside.next.contains("Cache”"), "{inside:?}");
        words
    }

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

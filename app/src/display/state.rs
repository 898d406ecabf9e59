// SPDX-License-Identifier: GPL-3.0-or-later
//! What a cache is doing, in words: what happened, where the data is, what to do next.

use gettextrs::gettext;
use tandem_api::CacheState;

/// How much a state wants to be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// All is well.
    Good,
    /// Something lasts, nothing is wrong.
    Calm,
    /// The person should know: the disk works, the cache does not.
    Warning,
    /// Data is in danger.
    Danger,
}

impl Severity {
    /// All of them.
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

/// The words for a cache's state. Where all is well there is only the title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheWords {
    /// One or two words.
    pub title: String,
    /// What happened.
    pub what: String,
    /// Where the data is.
    pub data: String,
    /// What to do next.
    pub next: String,
    /// Name of a symbolic icon.
    pub icon: &'static str,
    /// How much it wants to be noticed.
    pub severity: Severity,
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
    };
    let (severity, title) = match (state, reason) {
        (CacheState::Active, "disk-error") => (Severity::Warning, gettext("Hard Disk Error")),
        (CacheState::Active, _) => (Severity::Good, gettext("Working")),
        (CacheState::Suspended, _) => (Severity::Calm, gettext("Pausing for a Moment")),
        (CacheState::Detached, _) => (Severity::Calm, gettext("Removed")),
        (_, "ssd-gone-dirty") => (Severity::Danger, gettext("SSD Missing, New Data on It")),
        (CacheState::Bypass, "ssd-error") => (Severity::Warning, gettext("SSD Failed")),
        (CacheState::Bypass, "disk-error") => (Severity::Warning, gettext("Hard Disk Error")),
        (CacheState::Bypass | CacheState::Stopped, "disk-missing") => {
            (Severity::Warning, gettext("Hard Disk Missing"))
        }
        (CacheState::Bypass, _) => (Severity::Warning, gettext("Not in Use")),
        (CacheState::Stopped, "ssd-missing") if unwritten => {
            (Severity::Danger, gettext("SSD Missing, New Data on It"))
        }
        (CacheState::Stopped, "ssd-missing") => (Severity::Warning, gettext("SSD Missing")),
        (CacheState::Stopped, "disk-changed") if unwritten => {
            (Severity::Danger, gettext("Hard Disk Was Changed"))
        }
        (CacheState::Stopped, "disk-changed") => {
            (Severity::Warning, gettext("Hard Disk Was Changed"))
        }
        (CacheState::Stopped, "ssd-damaged") if unwritten => {
            (Severity::Danger, gettext("SSD Damaged, New Data on It"))
        }
        (CacheState::Stopped, "ssd-damaged") => (Severity::Warning, gettext("SSD Damaged")),
        (CacheState::Stopped, "ssd-blocks") if unwritten => {
            (Severity::Danger, gettext("SSD With Larger Blocks"))
        }
        (CacheState::Stopped, "ssd-blocks") => {
            (Severity::Warning, gettext("SSD With Larger Blocks"))
        }
        (CacheState::Stopped, "stopped") => (Severity::Calm, gettext("Stopped")),
        (CacheState::Stopped, _) => (Severity::Warning, gettext("Not Started")),
    };
    words(severity, title, sentences(state, reason, unwritten))
}

/// Where the data is while the cache is not there.
fn data(unwritten: bool) -> String {
    if unwritten {
        gettext(
            "Some of your data may be only on the SSD. Nothing of it is lost, but the hard disk must not be used without it.",
        )
    } else {
        gettext("Your data is safe on the hard disk.")
    }
}

fn data_of_missing_disk(unwritten: bool) -> String {
    if unwritten {
        gettext(
            "Some of your data may be only on the SSD: keep both, and connect the disk to no other computer.",
        )
    } else {
        gettext("Your data is on that disk.")
    }
}

/// What happened, where the data is, what to do next.
fn sentences(state: CacheState, reason: &str, unwritten: bool) -> [String; 3] {
    let broken_ssd = || {
        gettext(
            "Switch the computer off, check the cables of the SSD, and start again. If the SSD is broken for good, “Flush and Remove” lets you give that data up.",
        )
    };
    match (state, reason) {
        (CacheState::Active | CacheState::Bypass, "disk-error") => [
            gettext("The hard disk reported an error."),
            if unwritten {
                gettext(
                    "What it does not take stays on the SSD and is tried again. Nothing is lost as long as the SSD works.",
                )
            } else {
                gettext("Nothing is on the SSD only.")
            },
            gettext(
                "Check the health of the hard disk, and make sure that your backup is up to date.",
            ),
        ],
        (CacheState::Active | CacheState::Suspended, _) => Default::default(),
        (CacheState::Detached, _) => [
            gettext("The cache is removed and the SSD is free."),
            // True also where something was given up.
            gettext("Nothing is on the SSD only."),
            gettext("The last traces go at the next start of the computer."),
        ],
        (CacheState::Bypass, "ssd-gone-dirty") => [
            gettext(
                "The SSD failed or was unplugged while some of your data was only there. The rest can be read; nothing can be saved on this disk for now.",
            ),
            gettext("Nothing is lost if the SSD comes back as it was."),
            broken_ssd(),
        ],
        (CacheState::Bypass, "ssd-error") => [
            gettext("The SSD failed, and the hard disk goes on at its own speed."),
            gettext("Your data is safe on the hard disk."),
            gettext("Choose “Flush and Remove” to take the SSD out of use."),
        ],
        // Also of one that is back, as long as something holds on to what it was.
        (CacheState::Bypass, "disk-missing") => [
            gettext("The hard disk was unplugged while the cache was in use."),
            data_of_missing_disk(unwritten),
            gettext(
                "Connect it again. If the cache does not come back by itself then, close what uses the disk, or restart the computer.",
            ),
        ],
        (CacheState::Bypass, _) => [
            gettext("The hard disk works at its own speed, without the SSD."),
            if unwritten {
                gettext("Some of your data may be only on the SSD. Nothing of it is lost.")
            } else {
                data(false)
            },
            gettext(
                "If it stays like this after the next start of the computer, choose “Flush and Remove”.",
            ),
        ],
        (CacheState::Stopped, "ssd-missing") if !unwritten => [
            gettext("The SSD of this cache is not connected."),
            data(false),
            gettext("Connect it again; the cache then comes back by itself."),
        ],
        (CacheState::Stopped, "ssd-missing" | "ssd-gone-dirty") => [
            gettext(
                "The SSD of this cache is not connected, and some of your data is only there. The hard disk is not used alone, so that both still belong together.",
            ),
            gettext("Nothing is lost if the SSD comes back as it was."),
            broken_ssd(),
        ],
        (CacheState::Stopped, "disk-missing") => [
            gettext("The hard disk of this cache is not connected."),
            data_of_missing_disk(unwritten),
            gettext("Connect it again; the cache then comes back by itself."),
        ],
        (CacheState::Stopped, "disk-changed") if unwritten => [
            gettext(
                "The hard disk was changed without its cache, and what is only on the SSD no longer belongs to it. Neither is touched.",
            ),
            gettext("Some of your data is only on the SSD."),
            gettext(
                "If the disk was restored from a copy, bring it back as it was. Otherwise “Flush and Remove” lets you give up what is only on the SSD.",
            ),
        ],
        (CacheState::Stopped, "disk-changed") => [
            gettext("The hard disk was changed without its cache."),
            data(false),
            gettext("Choose “Flush and Remove”, and then set the cache up anew."),
        ],
        (CacheState::Stopped, "ssd-damaged") => [
            gettext(
                "What the SSD says of this cache is damaged, so nothing on it can be trusted. Neither the SSD nor the hard disk is touched.",
            ),
            if unwritten {
                gettext("Some of your data is only on the SSD.")
            } else {
                data(false)
            },
            if unwritten {
                gettext(
                    "Check the health of the SSD. “Flush and Remove” lets you give up what is only on it; then restore that from your backup.",
                )
            } else {
                gettext("Choose “Flush and Remove”, and then set the cache up anew.")
            },
        ],
        (CacheState::Stopped, "ssd-blocks") => [
            gettext(
                "The SSD shows larger blocks than the hard disk, so it cannot take all that is saved. Neither the SSD nor the hard disk is touched.",
            ),
            data(unwritten),
            gettext(
                "Connect the SSD as it was connected before. If it is a copy, use the original.",
            ),
        ],
        (CacheState::Stopped, "module-not-built") => [
            gettext("The kernel part of Tandem is not built for the running kernel."),
            data(unwritten),
            gettext("Install the kernel's header package and then the package tandem-dkms again."),
        ],
        (CacheState::Stopped, "module-refused") => [
            gettext("Secure Boot is on, and the kernel does not accept Tandem's part of it yet."),
            data(unwritten),
            gettext("Enrol the key that signs modules on this computer, then restart."),
        ],
        (CacheState::Stopped, "disk-in-use") => [
            gettext("Something else was using the hard disk when the cache was to start."),
            data(unwritten),
            gettext("Unmount the hard disk or restart the computer; the cache then comes back."),
        ],
        (CacheState::Stopped, "stopped") => [
            gettext("The cache was stopped."),
            data(unwritten),
            gettext("It comes back at the next start of the computer."),
        ],
        (CacheState::Stopped, _) => [
            gettext("This cache is not running."),
            data(unwritten),
            gettext("Restart the computer; the cache then comes back by itself."),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REASONS: [&str; 15] = [
        "",
        "-",
        "ssd-error",
        "ssd-gone-dirty",
        "disk-error",
        "stopped",
        "ssd-missing",
        "disk-missing",
        "disk-changed",
        "module-not-built",
        "module-refused",
        "disk-in-use",
        "ssd-damaged",
        "ssd-blocks",
        "something-new",
    ];

    #[test]
    fn whatever_is_wrong_says_what_happened_where_the_data_is_and_what_is_next() {
        for state in CacheState::ALL.iter().copied() {
            for reason in REASONS {
                for unwritten in [false, true] {
                    let words = cache_words(state, reason, unwritten);
                    assert!(!words.title.is_empty());
                    let wrong = matches!(words.severity, Severity::Warning | Severity::Danger);
                    let sentences = [&words.what, &words.data, &words.next];
                    let told = sentences.iter().all(|words| words.ends_with('.'));
                    let silent = sentences.iter().all(|words| words.is_empty());
                    assert!(told || (silent && !wrong), "{state} {reason} {unwritten}");
                }
            }
        }
    }

    #[test]
    fn data_is_called_safe_on_the_disk_only_if_all_of_it_is_there() {
        for state in CacheState::ALL.iter().copied() {
            for reason in REASONS {
                // The service says that nothing was on the SSD only, whatever was known before.
                let told = state == CacheState::Bypass && reason == "ssd-error";
                let data = cache_words(state, reason, true).data;
                assert!(told || !data.contains("safe"), "{state} {reason}: {data}");
            }
        }
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
            assert!(words.data.contains("if the SSD comes back"), "{words:?}");
            assert!(words.next.contains("give that data up"), "{words:?}");
        }
    }

    #[test]
    fn a_removed_cache_may_have_taken_with_it_what_was_given_up() {
        for unwritten in [false, true] {
            let words = cache_words(CacheState::Detached, "", unwritten);
            assert_eq!(words.data, "Nothing is on the SSD only.");
        }
    }

    #[test]
    fn an_error_of_the_disk_is_told_while_the_cache_works() {
        let words = cache_words(CacheState::Active, "disk-error", true);
        assert_eq!(words.severity, Severity::Warning);
        assert!(words.data.contains("tried again"));
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! The words for the modes of a cache, and for the risks of each mode.

use gettextrs::gettext;
use tandem_api::{Mode, ModeRefusal, RefusedMode};

use crate::{Place, bytes, duration, fill};

/// Name of a mode.
#[must_use]
pub fn mode_name(mode: Mode) -> String {
    match mode {
        Mode::Writethrough => gettext("Standard"),
        Mode::Writearound => gettext("Reads Only"),
        Mode::Writeback => gettext("Fast Saving"),
    }
}

/// The mode for a person without a reason for another mode.
pub const fn recommended() -> Mode {
    Mode::Writethrough
}

/// What a mode does and for whom it is.
#[must_use]
pub fn mode_description(mode: Mode, place: Place) -> String {
    match mode {
        Mode::Writethrough if place == Place::Memory => gettext(
            "What you save goes to the hard disk, with a copy in memory, so opening it again is fast. Best for most people. (Write-through)",
        ),
        Mode::Writearound if place == Place::Memory => gettext(
            "What you save goes to the hard disk only. Good for archives and downloads. (Write-around)",
        ),
        Mode::Writethrough => gettext(
            "What you save goes to the hard disk, with a copy on the SSD, so opening it again is fast. Best for most people. (Write-through)",
        ),
        Mode::Writearound => gettext(
            "What you save goes to the hard disk only. Easier on the SSD, good for archives and downloads. (Write-around)",
        ),
        Mode::Writeback => gettext(
            "What you save goes to the SSD first and to the hard disk shortly after. For people who write a lot and keep backups. (Write-back)",
        ),
    }
}

/// Name and description of the mode of a cache. `waits_for_kernel`: the user chose write-back, which waits until each
/// kernel has the module.
#[must_use]
pub fn mode_words(mode: Mode, waits_for_kernel: bool, place: Place) -> String {
    let name = mode_name(mode);
    let name = if waits_for_kernel {
        let words = gettext(
            "{mode} for now. {chosen} starts again when every kernel has its Tandem module.",
        );
        let chosen = mode_name(Mode::Writeback);
        fill(&words, &[("mode", &name), ("chosen", &chosen)])
    } else {
        name
    };
    format!("{name}\n{}", mode_description(mode, place))
}

/// All modes, the recommended one first and the risky one last.
pub const MODES: [Mode; 3] = [Mode::Writethrough, Mode::Writearound, Mode::Writeback];

/// Why a mode is not offered, by the word of [`tandem_api::ModeRefusal`].
#[must_use]
pub fn mode_refusal(reason: &str) -> String {
    match reason {
        "removable" => {
            gettext("Not available for removable drives: unplugging one could lose what you saved.")
        }
        "network" => gettext(
            "Not available for a disk on the network: another computer that uses it would not see what is not yet on the hard disk.",
        ),
        "other-systems" => gettext(
            "Not available for this file system: other systems that use it would not see what is not yet on the hard disk.",
        ),
        "mounted-at-start" => gettext(
            "Not available for this disk: the computer mounts it before the cache starts, and would not see what is not yet on the hard disk.",
        ),
        "unlocked-at-start" => gettext(
            "Not available for this disk: the computer unlocks it when it starts, and would wait in vain if the SSD is missing.",
        ),
        "shared" => gettext(
            "Not available while something else changes this disk: what is not yet on the hard disk would be missing there.",
        ),
        "target" => gettext(
            "Not available with the kernel's own cache: it could not tell that the hard disk was changed without it.",
        ),
        "block-size" => {
            gettext("Not available for this SSD: it writes larger blocks than the hard disk.")
        }
        "system" => gettext(
            "Not available for the disk of the running system: without the SSD the computer could not start.",
        ),
        "next-start" => gettext("You can choose this mode after the next start of the computer."),
        "memory" => gettext(
            "Not available for a cache in memory: a power cut would take along what you saved last.",
        ),
        _ => gettext("Not available for this disk and this SSD."),
    }
}

/// Why this mode is not offered; empty if it is offered.
#[must_use]
pub fn refusal(mode: Mode, refused: &[RefusedMode]) -> String {
    refused
        .iter()
        .find(|refused| refused.mode == mode)
        .map(|refused| match (mode, refused.reason) {
            // The reason in the other sentence is one against write-back.
            (Mode::Writearound, ModeRefusal::Target) => {
                gettext("Not available with the kernel's own cache, which has no such mode.")
            }
            (_, reason) => mode_refusal(reason.as_str()),
        })
        .unwrap_or_default()
}

/// The warnings for a mode in which data may be on the SSD only.
#[must_use]
pub fn mode_warnings(mode: Mode) -> Vec<String> {
    match mode {
        Mode::Writethrough | Mode::Writearound => Vec::new(),
        Mode::Writeback => vec![
            gettext(
                "If the SSD fails, the file system on the hard disk may be damaged beyond repair: what you saved last is not yet on the hard disk.",
            ),
            keep_together_warning(),
        ],
    }
}

/// The effect of a change of mode on the data that is already on the SSD; may be empty.
#[must_use]
pub fn mode_change(from: Mode, to: Mode) -> String {
    match (from, to) {
        (from, to) if from == to => String::new(),
        (Mode::Writeback, _) => gettext(
            "What is not yet on the hard disk is written there in the background. Your disk remains at risk until then.",
        ),
        (_, Mode::Writearound) => {
            gettext("What is already on the SSD stays there until newer files need the space.")
        }
        _ => String::new(),
    }
}

/// Warns of uses of the disk that are unsafe while data is on the SSD only.
pub(crate) fn keep_together_warning() -> String {
    gettext(
        "Do not open this disk in Windows, a live system or another computer while anything is not yet on the hard disk.",
    )
}

/// The words for the data that is not yet on the hard disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwrittenWords {
    /// How much data there is, and how long writing it back takes.
    pub title: String,
    /// How the data reaches the hard disk, and when.
    pub time: String,
    /// Whether anything waits.
    pub waits: bool,
}

/// Words for `dirty` bytes that are on the SSD only and take `seconds` to write back, 0 if that time is not known.
/// `paused`: writing back waits because the user paused it. `refused`: the disk reported an error. If `dirty` is 0, there are words only in a mode that allows
/// dirty data.
#[must_use]
pub fn unwritten_words(
    dirty: u64,
    seconds: u64,
    paused: bool,
    refused: bool,
    mode: Mode,
) -> Option<UnwrittenWords> {
    if dirty == 0 {
        return (mode == Mode::Writeback).then(|| UnwrittenWords {
            title: gettext("Everything is on the hard disk"),
            time: gettext(
                "What you save goes to the SSD first and to the hard disk shortly after.",
            ),
            waits: false,
        });
    }
    let size = bytes(dirty);
    let put = |words: String| fill(&words, &[("size", &size), ("time", &duration(seconds))]);
    Some(UnwrittenWords {
        title: put(if paused || refused || seconds == 0 {
            gettext("{size} waiting to be written")
        } else {
            // Translators: {time} is how long writing it takes
            gettext("{size} waiting to be written, about {time}")
        }),
        time: if paused {
            gettext("Writing is paused.")
        } else if refused {
            gettext("The hard disk rejects it, and Tandem keeps trying.")
        } else {
            gettext("It is written to the hard disk bit by bit.")
        },
        waits: true,
    })
}

/// How much data is not yet on the hard disk, in few words; empty if there is none.
#[must_use]
pub fn unwritten_short(dirty: u64) -> String {
    if dirty == 0 {
        return String::new();
    }
    let words = gettext("{size} waiting to be written");
    fill(&words, &[("size", &bytes(dirty))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_named_with_its_time_as_long_as_there_is_any() {
        let words = unwritten_words(120_000_000, 95, false, false, Mode::Writethrough).unwrap();
        assert_eq!(
            words.title.replace('\u{a0}', " "),
            "120.0 MB waiting to be written, about 2 minutes"
        );
        assert!(words.waits);
        let words = unwritten_words(512, 0, false, false, Mode::Writeback).unwrap();
        assert!(words.waits && !words.title.contains("about"));
        let words = unwritten_words(512, 9, true, false, Mode::Writeback).unwrap();
        assert_eq!(words.time, "Writing is paused.");
        let words = unwritten_words(512, 9, false, true, Mode::Writeback).unwrap();
        assert!(words.time.contains("rejects") && !words.title.contains("about"));
        let none = |mode| unwritten_words(0, 0, false, false, mode);
        assert!(!none(Mode::Writeback).unwrap().waits);
        assert_eq!(none(Mode::Writethrough), None);
    }

    #[test]
    fn only_what_risks_data_warns_and_what_is_safest_is_recommended() {
        for mode in MODES {
            assert_eq!(mode_warnings(mode).is_empty(), mode != Mode::Writeback);
        }
        assert_eq!(recommended(), Mode::Writethrough);
        assert_eq!(MODES.len(), Mode::ALL.len());
    }

    #[test]
    fn a_refused_mode_says_why_and_another_does_not() {
        for reason in ModeRefusal::ALL.iter().copied() {
            let refused = [RefusedMode {
                mode: Mode::Writeback,
                reason,
            }];
            let why = refusal(Mode::Writeback, &refused);
            assert!(why.ends_with('.') && why != mode_refusal("?"), "{reason}");
            assert_eq!(refusal(Mode::Writethrough, &refused), "");
        }
        let refused = [RefusedMode {
            mode: Mode::Writearound,
            reason: ModeRefusal::Target,
        }];
        assert!(refusal(Mode::Writearound, &refused).contains("no such mode"));
    }

    #[test]
    fn leaving_write_back_says_that_it_takes_time() {
        assert!(mode_change(Mode::Writeback, Mode::Writethrough).contains("in the background"));
        assert_eq!(mode_change(Mode::Writeback, Mode::Writeback), "");
        assert_eq!(mode_change(Mode::Writethrough, Mode::Writeback), "");
    }
}

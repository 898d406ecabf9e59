// SPDX-License-Identifier: GPL-3.0-or-later
//! The safety line of a cache: what is lost if the SSD dies now, whether the disk can be moved, how long shutting down
//! takes.

use gettextrs::gettext;
use tandem_api::{CacheState, Mode};

use crate::fill;

/// The facts that decide about the safety line.
#[derive(Clone, Copy, Debug)]
pub struct SafetyFacts<'a> {
    /// State of the cache.
    pub state: CacheState,
    /// Why, as a word; may be empty.
    pub reason: &'a str,
    /// How writes are treated.
    pub mode: Mode,
    /// Bytes that are on the SSD only by the newest sample; `None` before the first sample.
    pub dirty: Option<u64>,
    /// Whether data may be on the SSD only, as far as the service has it recorded.
    pub may_be_unwritten: bool,
    /// Whether the SSD reports that it is failing.
    pub ssd_failing: bool,
    /// Type of the content of the disk, as udev names it.
    pub content: &'a str,
}

/// What happens if the SSD dies now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// Every byte is also on the disk.
    Nothing,
    /// The SSD failed already, and every byte is on the disk.
    SsdFailed,
    /// The SSD is not connected, and every byte is on the disk.
    SsdMissing,
    /// The cache is removed.
    SsdUnused,
    /// The dirty data of the newest sample.
    Dirty,
    /// Data that no current sample counts.
    Uncounted,
    /// The SSD with the only copy of some data is not connected.
    WithMissingSsd,
    /// The SSD with the only copy of some data is damaged.
    WithDamagedSsd,
}

/// Whether the disk can be used without this SSD, for example in another computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moving {
    /// The disk is complete, and stays complete.
    Yes,
    /// The same, but the disk is in use through its mapping.
    AfterUse,
    /// The same, but not every change that is made elsewhere shows later.
    AfterUseUnchanged,
    /// Dirty data can come at any moment.
    LeaveModeFirst,
    /// The rest of the dirty data is being written, and no more comes.
    WhenWritten,
    /// Dirty data cannot be written to the disk now.
    WithSsdOnly,
}

/// The advice for an SSD that is in use and reports that it is failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advice {
    /// No data is on the SSD only.
    Replace,
    /// Data is, or can come to be, on the SSD only.
    LeaveModeFirst,
    /// Data is on the SSD only, and no more comes.
    WhenWritten,
}

/// The answers of the safety line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Safety {
    loss: Loss,
    moving: Moving,
    /// `None` if the SSD reports no failure, or is not in use.
    advice: Option<Advice>,
}

/// Amounts in the words of the program that shows them.
#[derive(Clone, Debug, Default)]
pub struct SafetyAmounts {
    /// The dirty data: "120 MB".
    pub size: String,
    /// Longest time that dirty data can have waited: "40 seconds". `None` if that time is not known.
    pub age: Option<String>,
    /// Time to write the dirty data to the disk: "2 minutes". `None` if that time is not known.
    pub time: Option<String>,
    /// Longest time that a shutdown writes dirty data to the disk: "5 minutes". `None` if a shutdown does not do that, or
    /// if the cache does not run.
    pub shutdown: Option<String>,
}

/// Whether the cache starts empty, or sees it, when files were changed elsewhere: see kmod/FORMAT.md.
fn shows_changes(content: &str) -> bool {
    matches!(
        content,
        "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "f2fs" | "vfat" | "exfat" | "ntfs"
    )
}

/// Finds the answers. Only a cache that runs has a current sample; in other states the record of the service counts.
#[must_use]
pub fn safety(facts: &SafetyFacts<'_>) -> Safety {
    let recorded = facts.may_be_unwritten || facts.dirty.is_some_and(|dirty| dirty > 0);
    let loss = match (facts.state, facts.reason) {
        (CacheState::Detached, _) => Loss::SsdUnused,
        // The kernel gives this reason only if the SSD took nothing with it.
        (CacheState::Bypass, "ssd-error") => Loss::SsdFailed,
        (_, "ssd-gone-dirty") => Loss::WithMissingSsd,
        (CacheState::Stopped, "ssd-missing") if recorded => Loss::WithMissingSsd,
        (CacheState::Stopped, "ssd-missing") => Loss::SsdMissing,
        (CacheState::Stopped, "ssd-damaged") if recorded => Loss::WithDamagedSsd,
        (CacheState::Active | CacheState::Suspended, _) => match facts.dirty {
            Some(0) => Loss::Nothing,
            Some(_) => Loss::Dirty,
            None if recorded => Loss::Uncounted,
            None => Loss::Nothing,
        },
        _ if recorded => Loss::Uncounted,
        _ => Loss::Nothing,
    };
    let runs = matches!(facts.state, CacheState::Active | CacheState::Suspended);
    let moving = match loss {
        Loss::Nothing if runs && facts.mode == Mode::Writeback => Moving::LeaveModeFirst,
        Loss::Nothing if runs && shows_changes(facts.content) => Moving::AfterUse,
        Loss::Nothing if runs => Moving::AfterUseUnchanged,
        // The mapping leads to the disk alone. The next start, if there is one, is cold.
        Loss::Nothing if facts.state == CacheState::Bypass => Moving::AfterUse,
        Loss::SsdFailed | Loss::SsdUnused => Moving::AfterUse,
        Loss::Nothing | Loss::SsdMissing => Moving::Yes,
        // The disk refuses the dirty data.
        _ if facts.reason == "disk-error" || !runs => Moving::WithSsdOnly,
        _ if facts.mode == Mode::Writeback => Moving::LeaveModeFirst,
        _ => Moving::WhenWritten,
    };
    let advice = match (loss, moving) {
        _ if !facts.ssd_failing => None,
        (Loss::Nothing, Moving::Yes | Moving::AfterUse | Moving::AfterUseUnchanged) => {
            Some(Advice::Replace)
        }
        (Loss::Nothing | Loss::Dirty | Loss::Uncounted, Moving::LeaveModeFirst) => {
            Some(Advice::LeaveModeFirst)
        }
        (Loss::Dirty | Loss::Uncounted, _) => Some(Advice::WhenWritten),
        _ => None,
    };
    Safety {
        loss,
        moving,
        advice,
    }
}

impl Safety {
    /// Whether the loss of the SSD would be, or is, a loss of data.
    #[must_use]
    pub fn risks_data(self) -> bool {
        matches!(
            self.loss,
            Loss::Dirty | Loss::Uncounted | Loss::WithMissingSsd | Loss::WithDamagedSsd
        )
    }

    /// Whether an SSD that is in use reports that it is failing.
    #[must_use]
    pub fn ssd_fails(self) -> bool {
        self.advice.is_some()
    }

    /// The safety line: three sentences, and one before them if the SSD reports that it is failing.
    #[must_use]
    pub fn line(self, amounts: &SafetyAmounts) -> String {
        let age = amounts.age.as_deref();
        let loss = match self.loss {
            Loss::Nothing => gettext("If the SSD dies now, you lose nothing."),
            Loss::SsdFailed => gettext("The SSD failed, and you lost nothing."),
            Loss::SsdMissing => gettext("The SSD is missing, and you lost nothing."),
            Loss::SsdUnused => gettext("The SSD is no longer used."),
            Loss::Dirty if age.is_some() => gettext(
                // Translators: {size} is for example "120 MB", {age} is for example "40 seconds"
                "If the SSD dies now, you lose {size}, at most {age} old, and the file system may be damaged.",
            ),
            Loss::Dirty => {
                gettext("If the SSD dies now, you lose {size}, and the file system may be damaged.")
            }
            Loss::Uncounted => gettext(
                "If the SSD dies now, you may lose data that is not yet on the hard disk, and the file system may be damaged.",
            ),
            Loss::WithMissingSsd => gettext("Some of your data is only on the missing SSD."),
            Loss::WithDamagedSsd => gettext("Some of your data is only on the damaged SSD."),
        };
        let time = amounts.time.as_deref().filter(|_| self.loss == Loss::Dirty);
        let moving = match (self.moving, time) {
            (Moving::Yes, _) => gettext("Safe to move the disk: yes."),
            (Moving::AfterUse, _) => {
                gettext("Safe to move the disk: yes, after you unmount it or shut down.")
            }
            (Moving::AfterUseUnchanged, _) => gettext(
                "Safe to move the disk: yes, after you shut down, but remove the cache first if files will be changed elsewhere.",
            ),
            (Moving::LeaveModeFirst, None) => {
                gettext("Safe to move the disk: no, turn off Fast Saving first.")
            }
            (Moving::LeaveModeFirst, Some(_)) => gettext(
                "Safe to move the disk: no, turn off Fast Saving first; writing everything takes about {time}.",
            ),
            (Moving::WhenWritten, Some(_)) => {
                gettext("Safe to move the disk: in about {time}, when everything is written.")
            }
            (Moving::WhenWritten, None) => {
                gettext("Safe to move the disk: not until everything is written.")
            }
            (Moving::WithSsdOnly, _) => {
                gettext("Safe to move the disk: no, only together with the SSD.")
            }
        };
        let limit = amounts.shutdown.as_deref();
        let limit = limit.filter(|_| self.moving != Moving::WithSsdOnly);
        let shutdown = match (self.loss, limit) {
            (Loss::Dirty | Loss::Uncounted, Some(_)) => gettext(
                // Translators: {limit} is for example "5 minutes"
                "Shutting down first writes everything to the hard disk, which takes {limit} at most.",
            ),
            (Loss::Dirty | Loss::Uncounted, None) => {
                gettext("Shutting down takes no longer; what is not yet written stays on the SSD.")
            }
            _ => gettext("Shutting down takes no longer."),
        };
        let advice = self.advice.map(|advice| match advice {
            Advice::Replace => gettext("The SSD reports that it is failing. Replace it soon."),
            Advice::LeaveModeFirst => {
                gettext("The SSD reports that it is failing: turn off Fast Saving now.")
            }
            Advice::WhenWritten => gettext(
                "The SSD reports that it is failing: write everything to the hard disk now.",
            ),
        });
        let sentences: Vec<String> = advice.into_iter().chain([loss, moving, shutdown]).collect();
        fill(
            &sentences.join(" "),
            &[
                ("size", &amounts.size),
                ("age", age.unwrap_or_default()),
                ("time", time.unwrap_or_default()),
                ("limit", limit.unwrap_or_default()),
            ],
        )
    }
}

/// Reasons that the service may give for a state, and one that it does not know yet.
#[cfg(test)]
pub(crate) const REASONS: [&str; 17] = [
    "",
    "-",
    "ssd-error",
    "ssd-gone-dirty",
    "disk-error",
    "put-away",
    "ssd-missing",
    "disk-missing",
    "disk-changed",
    "disk-elsewhere",
    "disk-in-doubt",
    "module-not-built",
    "module-refused",
    "disk-in-use",
    "ssd-damaged",
    "ssd-blocks",
    "something-new",
];

#[cfg(test)]
mod tests {
    use super::*;
    use CacheState::{Active, Bypass, Detached, Stopped, Suspended};
    use Mode::{Writeback, Writethrough};

    fn facts(
        state: CacheState,
        reason: &str,
        mode: Mode,
        dirty: Option<u64>,
        may_be_unwritten: bool,
    ) -> SafetyFacts<'_> {
        SafetyFacts {
            state,
            reason,
            mode,
            dirty,
            may_be_unwritten,
            ssd_failing: false,
            content: "ext4",
        }
    }

    fn every() -> Vec<SafetyFacts<'static>> {
        let mut all = Vec::new();
        for state in CacheState::ALL.iter().copied() {
            for reason in REASONS {
                for mode in Mode::ALL.iter().copied() {
                    for dirty in [None, Some(0), Some(5)] {
                        for may_be_unwritten in [false, true] {
                            all.push(facts(state, reason, mode, dirty, may_be_unwritten));
                        }
                    }
                }
            }
        }
        all
    }

    fn amounts() -> SafetyAmounts {
        SafetyAmounts {
            size: "120 MB".into(),
            age: Some("40 seconds".into()),
            time: Some("2 minutes".into()),
            shutdown: None,
        }
    }

    #[test]
    fn the_line_is_as_written_for_the_states_that_people_meet() {
        // A shutdown that writes everything back.
        let drained = SafetyAmounts {
            size: "5 B".to_owned(),
            shutdown: Some("5 minutes".to_owned()),
            ..SafetyAmounts::default()
        };
        let shutdown = |facts| safety(&facts).line(&drained);
        let line = shutdown(facts(Active, "", Writeback, Some(5), true));
        assert!(line.ends_with("hard disk, which takes 5 minutes at most."));
        let line = shutdown(facts(Active, "", Writeback, Some(0), true));
        assert!(line.ends_with("Shutting down takes no longer."));
        let line = shutdown(facts(Active, "disk-error", Writeback, Some(5), true));
        assert!(line.ends_with("stays on the SSD."));
        for (facts, line) in [
            (
                facts(Active, "", Writethrough, Some(0), false),
                "If the SSD dies now, you lose nothing. Safe to move the disk: yes, after you unmount it or shut down. \
                 Shutting down takes no longer.",
            ),
            (
                facts(Active, "", Writeback, Some(0), true),
                "If the SSD dies now, you lose nothing. Safe to move the disk: no, turn off Fast Saving first. \
                 Shutting down takes no longer.",
            ),
            (
                facts(Active, "", Writeback, Some(9), true),
                "If the SSD dies now, you lose 120 MB, at most 40 seconds old, and the file system may be damaged. \
                 Safe to move the disk: no, turn off Fast Saving first; writing everything takes about 2 minutes. \
                 Shutting down takes no longer; what is not yet written stays on the SSD.",
            ),
            (
                facts(Active, "", Writethrough, Some(9), true),
                "If the SSD dies now, you lose 120 MB, at most 40 seconds old, and the file system may be damaged. \
                 Safe to move the disk: in about 2 minutes, when everything is written. \
                 Shutting down takes no longer; what is not yet written stays on the SSD.",
            ),
            (
                facts(Active, "disk-error", Writethrough, Some(9), true),
                "If the SSD dies now, you lose 120 MB, at most 40 seconds old, and the file system may be damaged. \
                 Safe to move the disk: no, only together with the SSD. \
                 Shutting down takes no longer; what is not yet written stays on the SSD.",
            ),
            (
                facts(Active, "", Writeback, None, true),
                "If the SSD dies now, you may lose data that is not yet on the hard disk, and the file system may be \
                 damaged. Safe to move the disk: no, turn off Fast Saving first. \
                 Shutting down takes no longer; what is not yet written stays on the SSD.",
            ),
            (
                facts(Bypass, "ssd-error", Writeback, Some(0), true),
                "The SSD failed, and you lost nothing. Safe to move the disk: yes, after you unmount it or shut down. \
                 Shutting down takes no longer.",
            ),
            (
                facts(Bypass, "ssd-gone-dirty", Writeback, Some(9), true),
                "Some of your data is only on the missing SSD. Safe to move the disk: no, only together with the SSD. \
                 Shutting down takes no longer.",
            ),
            (
                facts(Stopped, "ssd-missing", Writethrough, None, false),
                "The SSD is missing, and you lost nothing. Safe to move the disk: yes. Shutting down takes no longer.",
            ),
            (
                facts(Stopped, "module-not-built", Writeback, None, false),
                "If the SSD dies now, you lose nothing. Safe to move the disk: yes. Shutting down takes no longer.",
            ),
            (
                facts(Detached, "", Writethrough, None, false),
                "The SSD is no longer used. Safe to move the disk: yes, after you unmount it or shut down. \
                 Shutting down takes no longer.",
            ),
        ] {
            assert_eq!(safety(&facts).line(&amounts()), line, "{facts:?}");
        }
    }

    #[test]
    fn every_state_has_three_whole_sentences() {
        for facts in every() {
            for amounts in [amounts(), SafetyAmounts::default()] {
                let line = safety(&facts).line(&amounts);
                let ends = line.matches(". ").count() + 1;
                assert!(
                    ends == 3 && line.ends_with('.') && !line.contains('{'),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn an_ssd_that_fails_is_told_first_while_it_is_in_use() {
        for facts in every() {
            let fails = SafetyFacts {
                ssd_failing: true,
                ..facts
            };
            let (before, now) = (safety(&facts), safety(&fails));
            let line = now.line(&amounts());
            assert!(line.ends_with(&before.line(&amounts())), "{line}");
            assert!(!before.ssd_fails());
            let unused = matches!(
                now.loss,
                Loss::SsdFailed
                    | Loss::SsdMissing
                    | Loss::SsdUnused
                    | Loss::WithMissingSsd
                    | Loss::WithDamagedSsd
            );
            let told = line.starts_with("The SSD reports that it is failing");
            assert_eq!((now.ssd_fails(), told), (!unused, !unused), "{facts:?}");
            // Data that only a failing SSD has is not left there.
            if line.contains("Replace it soon") {
                assert!(
                    line.contains("lose nothing") && line.contains("disk: yes"),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn a_disk_that_is_in_use_is_left_first_and_a_change_that_may_not_show_is_told() {
        let in_use = [Active, Suspended, Bypass, Detached];
        let running = every()
            .into_iter()
            .filter(|facts| in_use.contains(&facts.state));
        for facts in running {
            for content in ["ext4", "xfs", "exfat", "crypto_LUKS", ""] {
                let facts = SafetyFacts { content, ..facts };
                let line = safety(&facts).line(&amounts());
                assert!(
                    !line.contains("disk: yes") || line.contains("shut down"),
                    "{facts:?}: {line}"
                );
                let here = matches!(facts.state, Active | Suspended);
                if line.contains("disk: yes") && here {
                    let hidden = ["crypto_LUKS", ""].contains(&content);
                    assert_eq!(line.contains("changed elsewhere"), hidden, "{line}");
                }
            }
        }
    }

    #[test]
    fn only_a_complete_disk_is_called_safe() {
        for facts in every() {
            let line = safety(&facts).line(&amounts());
            let safe = line.contains("disk: yes");
            let unwritten = facts.may_be_unwritten || facts.dirty.is_some_and(|dirty| dirty > 0);
            let runs = matches!(facts.state, Active | Suspended);
            let gone =
                facts.state == Bypass && facts.reason == "ssd-error" || facts.state == Detached;
            if safe && unwritten && !gone {
                // The newest sample of a running cache is newer than the record.
                assert!(runs && facts.dirty == Some(0), "{facts:?}: {line}");
                assert_ne!(facts.mode, Writeback, "{facts:?}");
            }
            if line.contains("lose nothing") || line.contains("lost nothing") {
                assert!(!safety(&facts).risks_data());
                assert!(!unwritten || gone || facts.dirty == Some(0), "{facts:?}");
                assert_ne!(facts.reason, "ssd-gone-dirty");
            }
        }
    }
}

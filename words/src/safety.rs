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
    in_memory: bool,
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
        in_memory: false,
    }
}

impl Safety {
    /// The same for a cache that may be in memory in the place of an SSD.
    #[must_use]
    pub fn in_memory(self, in_memory: bool) -> Self {
        Self { in_memory, ..self }
    }

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
            Loss::Nothing if self.in_memory => {
                gettext("If the power goes out now, the cache loses nothing of yours.")
            }
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
pub(crate) const REASONS: [&str; 18] = [
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
    "memory-needed",
    "something-new",
];

#[cfg(test)]
mod tests;

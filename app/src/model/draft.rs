// SPDX-License-Identifier: GPL-3.0-or-later
//! What is chosen so far in the wizard, and its pages. Pure.

use tandem_api::{Mode, RefusedMode};

/// The pages of the wizard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Which disk, which SSD, which mode, which size.
    Choices,
    /// Exactly what will be done.
    Review,
    /// It is being done.
    Progress,
    /// It is done.
    Done,
}

impl Page {
    /// Name in the stack of pages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Choices => "choices",
            Self::Review => "review",
            Self::Progress => "progress",
            Self::Done => "done",
        }
    }
}

/// The user's choices so far. The wizard owns the only draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Block path of the disk.
    pub origin: Option<String>,
    /// The choice of the SSD, see [`ssd_key`].
    pub ssd: Option<String>,
    /// The person chose the SSD, and the wizard suggests no other.
    ssd_is_own: bool,
    /// Bytes of the cache, if the person chose less than all of [`Self::ssd`].
    pub size: Option<u64>,
    /// How writes are treated.
    pub mode: Mode,
    /// The cache is put over the disk when the computer starts next.
    pub at_next_start: bool,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            origin: None,
            ssd: None,
            ssd_is_own: false,
            size: None,
            mode: Mode::Writethrough,
            at_next_start: false,
        }
    }
}

/// The key of a choice of an SSD: its block path and, for a new partition in its free space, the bytes of the partition.
/// No block path has the sign between them.
#[must_use]
pub fn ssd_key(path: &str, partition_bytes: u64) -> String {
    match partition_bytes {
        0 => path.to_owned(),
        bytes => format!("{path}#{bytes}"),
    }
}

impl Draft {
    /// Block path of the chosen SSD, and the bytes of the partition to make on it; 0: the cache takes all of it.
    #[must_use]
    pub fn ssd_part(&self) -> Option<(String, u64)> {
        let key = self.ssd.as_deref()?;
        let (path, bytes) = key.split_once('#').unwrap_or((key, "0"));
        let all = bytes.parse().unwrap_or(0);
        Some((path.to_owned(), self.size.unwrap_or(all)))
    }

    /// Takes the person's choice of an SSD, with all that is offered there. None: the chosen SSD is gone.
    pub fn choose_ssd(&mut self, key: Option<String>) {
        self.ssd_is_own = key.is_some();
        self.take_ssd(key);
    }

    /// Takes the SSD for the usual case, unless the person has chosen one.
    pub fn suggest_ssd(&mut self, key: Option<String>) {
        if !self.ssd_is_own {
            self.take_ssd(key);
        }
    }

    fn take_ssd(&mut self, key: Option<String>) {
        if self.ssd != key {
            self.size = None;
            self.ssd = key;
        }
    }

    /// Whether disk and SSD are chosen, so that a plan can be made.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.origin.is_some() && self.ssd.is_some()
    }

    /// Chooses when the cache is put over the disk. At the next start a cache begins in a mode that risks nothing; the
    /// mode can be changed after that.
    pub fn choose_next_start(&mut self, at_next_start: bool) {
        self.at_next_start = at_next_start;
        if at_next_start && self.mode == Mode::Writeback {
            self.mode = Mode::Writethrough;
        }
    }

    /// Takes the modes that are refused for this disk and this SSD: a refused mode is no longer chosen.
    pub fn offer(&mut self, refused: &[RefusedMode]) {
        if refused.iter().any(|refused| refused.mode == self.mode) {
            self.mode = Mode::Writethrough;
        }
    }

    /// Chooses a disk.
    pub fn choose_origin(&mut self, path: Option<String>) {
        if self.origin != path {
            self.at_next_start = false;
            self.origin = path;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::ModeRefusal;

    #[test]
    fn a_plan_needs_disk_and_ssd() {
        let mut draft = Draft::default();
        assert!(!draft.is_complete());
        draft.choose_origin(Some("/b/sda1".into()));
        assert!(!draft.is_complete());
        draft.suggest_ssd(Some("/b/sdc".into()));
        assert!(draft.is_complete());
    }

    #[test]
    fn what_the_person_chose_is_not_replaced_by_a_suggestion() {
        let mut draft = Draft::default();
        let key = |name: &str| Some(format!("/b/{name}"));
        draft.suggest_ssd(key("sdc"));
        draft.suggest_ssd(key("sdd"));
        assert_eq!(draft.ssd, key("sdd"));
        draft.choose_ssd(key("sdc"));
        draft.suggest_ssd(key("sdd"));
        assert_eq!(draft.ssd, key("sdc"));
        // The chosen SSD is gone.
        draft.choose_ssd(None);
        draft.suggest_ssd(key("sdd"));
        assert_eq!(draft.ssd, key("sdd"));
    }

    #[test]
    fn a_mode_that_is_refused_is_no_longer_chosen() {
        let refused = [RefusedMode {
            mode: Mode::Writeback,
            reason: ModeRefusal::Removable,
        }];
        for (before, after) in [
            (Mode::Writeback, Mode::Writethrough),
            (Mode::Writearound, Mode::Writearound),
        ] {
            let mut draft = Draft {
                mode: before,
                ..Draft::default()
            };
            draft.offer(&refused);
            assert_eq!(draft.mode, after);
        }
    }

    #[test]
    fn at_the_next_start_a_cache_begins_in_a_mode_that_risks_nothing() {
        for (before, after) in [
            (Mode::Writeback, Mode::Writethrough),
            (Mode::Writearound, Mode::Writearound),
        ] {
            let mut draft = Draft {
                mode: before,
                ..Draft::default()
            };
            draft.choose_next_start(true);
            assert_eq!((draft.mode, draft.at_next_start), (after, true));
            draft.choose_origin(Some("/b/sdb1".into()));
            assert!(!draft.at_next_start, "another disk may be free");
        }
    }

    #[test]
    fn a_choice_of_free_space_names_the_ssd_and_the_size() {
        for bytes in [0, 64 << 30] {
            let draft = Draft {
                ssd: Some(ssd_key("/b/sdc", bytes)),
                ..Draft::default()
            };
            assert_eq!(draft.ssd_part(), Some(("/b/sdc".to_owned(), bytes)));
        }
        assert_eq!(Draft::default().ssd_part(), None);
    }

    #[test]
    fn a_size_is_of_one_ssd() {
        let mut draft = Draft::default();
        draft.choose_ssd(Some(ssd_key("/b/sdc", 64)));
        draft.size = Some(5);
        draft.choose_ssd(Some(ssd_key("/b/sdc", 64)));
        assert_eq!(draft.ssd_part(), Some(("/b/sdc".to_owned(), 5)));
        draft.choose_ssd(Some("/b/sdd".to_owned()));
        assert_eq!(draft.ssd_part(), Some(("/b/sdd".to_owned(), 0)));
    }
}

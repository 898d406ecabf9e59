// SPDX-License-Identifier: GPL-3.0-or-later
//! What a person has chosen so far in the wizard, and the order of its pages. Pure.

use tandem_api::{Mode, RefusedMode};

/// The pages of the wizard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Which disk.
    Disk,
    /// Which SSD.
    Ssd,
    /// How writes are treated.
    Mode,
    /// "I have a backup".
    Backup,
    /// Exactly what will be done.
    Summary,
    /// It is being done.
    Progress,
    /// It is done.
    Done,
}

impl Page {
    /// All pages in their order.
    pub const ORDER: [Self; 7] = [
        Self::Disk,
        Self::Ssd,
        Self::Mode,
        Self::Backup,
        Self::Summary,
        Self::Progress,
        Self::Done,
    ];

    /// Name in the stack of pages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Ssd => "ssd",
            Self::Mode => "mode",
            Self::Backup => "backup",
            Self::Summary => "summary",
            Self::Progress => "progress",
            Self::Done => "done",
        }
    }

    fn place(self) -> usize {
        Self::ORDER
            .iter()
            .position(|page| *page == self)
            .unwrap_or_default()
    }

    /// The page after this one.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::ORDER.get(self.place() + 1).copied()
    }

    /// The page that "Back" leads to; none where something has been begun.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        match self {
            Self::Disk | Self::Progress | Self::Done => None,
            page => Self::ORDER.get(page.place() - 1).copied(),
        }
    }

    /// Place among the pages with choices, from 1, and their number; none for the others.
    #[must_use]
    pub fn step(self) -> Option<(usize, usize)> {
        let steps = Self::Summary.place() + 1;
        (self.place() < steps).then(|| (self.place() + 1, steps))
    }
}

/// The user's choices so far. The wizard owns the only draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Block path of the disk.
    pub origin: Option<String>,
    /// The choice of the SSD, see [`ssd_key`].
    pub ssd: Option<String>,
    /// Bytes of the cache, if the person chose less than all of [`Self::ssd`].
    pub size: Option<u64>,
    /// How writes are treated.
    pub mode: Mode,
    /// The person said that there is a backup.
    pub backup: bool,
    /// The cache is put over the disk when the computer starts next.
    pub at_next_start: bool,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            origin: None,
            ssd: None,
            size: None,
            mode: Mode::Writethrough,
            backup: false,
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

    /// Chooses an SSD, with all that is offered there.
    pub fn choose_ssd(&mut self, key: Option<String>) {
        if self.ssd != key {
            self.size = None;
            self.ssd = key;
        }
    }

    /// Whether the page has its answer.
    #[must_use]
    pub fn is_answered(&self, page: Page) -> bool {
        match page {
            Page::Disk => self.origin.is_some(),
            Page::Ssd => self.ssd.is_some(),
            Page::Backup => self.backup,
            Page::Mode | Page::Summary | Page::Progress | Page::Done => true,
        }
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

    /// Chooses a disk. The promise of a backup was given for the disk before, so that another disk takes it back.
    pub fn choose_origin(&mut self, path: Option<String>) {
        if self.origin != path {
            self.backup = false;
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
    fn the_pages_are_in_one_order_and_nothing_begun_is_gone_back_on() {
        let mut page = Page::Disk;
        let mut seen = vec![page];
        while let Some(next) = page.next() {
            if let Some(previous) = next.previous() {
                assert_eq!(previous, page);
            }
            page = next;
            seen.push(page);
        }
        assert_eq!(seen, Page::ORDER);
        assert_eq!(
            (
                Page::Disk.previous(),
                Page::Progress.previous(),
                Page::Done.previous()
            ),
            (None, None, None)
        );
        assert_eq!(
            (Page::Disk.step(), Page::Summary.step(), Page::Done.step()),
            (Some((1, 5)), Some((5, 5)), None)
        );
    }

    #[test]
    fn a_page_without_its_answer_cannot_be_left() {
        let mut draft = Draft::default();
        assert!(
            !draft.is_answered(Page::Disk)
                && !draft.is_answered(Page::Ssd)
                && !draft.is_answered(Page::Backup)
        );
        draft.choose_origin(Some("/b/sda1".into()));
        draft.backup = true;
        assert!(draft.is_answered(Page::Disk) && draft.is_answered(Page::Backup));
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

    #[test]
    fn the_promise_of_a_backup_holds_for_one_disk() {
        let mut draft = Draft::default();
        draft.choose_origin(Some("/b/sda1".into()));
        draft.backup = true;
        draft.choose_origin(Some("/b/sda1".into()));
        assert!(draft.backup);
        draft.choose_origin(Some("/b/sdb1".into()));
        assert!(!draft.backup);
    }
}

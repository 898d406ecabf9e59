// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs that are not written by hand. At each place where an action of core is carried out, one of these goes wrong:
//! the action is left out, it loses its flush or its FUA, or core is told that it is done before it is.
//!
//! If core is told too early, core does not wait for the action. The queue may then also do core's next action before
//! this one, so this flaw swaps the two as well.

use crate::engine::{ReqKind, WorkKind};
use crate::queue::{Io, Side};

// promise 1, 6: mutants/group-nopreflush
// promise 2, 11: mutants/marks-nofua
// promise 3: mutants/flushdisk-left
// promise 3: mutants/flushssd-left
// promise 4: mutants/group-nofua
// promise 4: mutants/write-nofua
// promise 3, 4: mutants/writeback-nofua
// promise 6: mutants/writeback-early
// promise 10: mutants/head-nopreflush
// promise 11: mutants/marks-early
// promise 19: mutants/anew-left
/// The places where core's actions become I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Site {
    Group,
    FlushSsd,
    FlushDisk,
    Marks,
    Note,
    Pages,
    Head,
    /// A write in place over data that is dirty already.
    Home,
    /// Data of a write that goes to the SSD alone.
    WriteBack,
    /// Data for the SSD of a write that goes to both.
    Copy,
    /// Data for the SSD of a read that missed.
    Fill,
    /// The read of dirty data from the SSD for a cleaning.
    Fetch,
    /// The write of that data to the disk.
    Clean,
    /// The read of the disk for a read that missed.
    Miss,
    /// The read of the disk for the rest of a quarter.
    Rest,
    /// A write to the disk.
    Write,
    /// A discard, or zeroes.
    Discard,
    /// The new index after a life that ended in bypass. Without it the old index is read, and its clean copies are
    /// dropped.
    Anew,
}

/// What goes wrong at a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// The action is left out.
    Left,
    /// Core is told that the action is done before it is.
    Early,
    /// The action loses the flush before it.
    NoPreflush,
    /// The write loses its FUA, so its data may stay in the volatile cache.
    NoFua,
}

/// A bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flaw {
    /// The place.
    pub site: Site,
    /// What goes wrong there.
    pub wrong: Wrong,
}

const SITES: [Site; 18] = [
    Site::Group,
    Site::FlushSsd,
    Site::FlushDisk,
    Site::Marks,
    Site::Note,
    Site::Pages,
    Site::Head,
    Site::Home,
    Site::WriteBack,
    Site::Copy,
    Site::Fill,
    Site::Fetch,
    Site::Clean,
    Site::Miss,
    Site::Rest,
    Site::Write,
    Site::Discard,
    Site::Anew,
];

impl Site {
    /// The site of the ledger's own I/O.
    pub fn of_work(kind: WorkKind) -> Option<Site> {
        Some(match kind {
            WorkKind::Group => Site::Group,
            WorkKind::FlushSsd => Site::FlushSsd,
            WorkKind::FlushDisk => Site::FlushDisk,
            WorkKind::Marks => Site::Marks,
            WorkKind::Note => Site::Note,
            WorkKind::Pages => Site::Pages,
            WorkKind::Head => Site::Head,
            WorkKind::Trim | WorkKind::Step => return None,
        })
    }

    /// The site of a request's I/O. `alone`: the request does not go to the disk.
    pub fn of_request(kind: ReqKind, side: Side, alone: bool) -> Option<Site> {
        Some(match (kind, side) {
            (ReqKind::Write, Side::Ssd) if alone => Site::WriteBack,
            (ReqKind::Write, Side::Ssd) => Site::Copy,
            (ReqKind::Read, Side::Ssd) => Site::Fill,
            (ReqKind::Clean, Side::Ssd) => Site::Fetch,
            (ReqKind::Clean, Side::Origin) => Site::Clean,
            (ReqKind::Read, Side::Origin) => Site::Miss,
            (ReqKind::Write, Side::Origin) => Site::Write,
            (ReqKind::Discard, Side::Origin) => Site::Discard,
            _ => return None,
        })
    }

    fn wrongs(self) -> &'static [Wrong] {
        use Wrong::{Early, Left, NoFua, NoPreflush};
        match self {
            Site::Group => &[Left, Early, NoPreflush, NoFua],
            Site::Head => &[Left, Early, NoPreflush, NoFua],
            Site::Anew => &[Left],
            Site::Marks | Site::Write | Site::WriteBack => &[Left, Early, NoFua],
            // A start that finds no note believes nothing.
            Site::Note => &[Early, NoFua],
            _ => &[Left, Early],
        }
    }
}

impl Flaw {
    /// All flaws.
    pub fn all() -> impl Iterator<Item = Flaw> {
        let of = |site: Site| site.wrongs().iter().map(move |&wrong| Flaw { site, wrong });
        SITES.into_iter().flat_map(of)
    }

    /// The name of the flaw, as `--flaw` takes it.
    pub fn name(self) -> String {
        format!("{:?}-{:?}", self.site, self.wrong).to_lowercase()
    }

    /// Words by which power cuts must find the flaw. Without a flush or FUA a cut loses data. The other flaws also
    /// break rules that hold at any time, in several ways, so no words are asked for.
    pub fn says(self) -> &'static str {
        match (self.site, self.wrong) {
            // The start believes an older note.
            (Site::Note, Wrong::NoFua) => "as the note of its place says",
            // The head before it counts, whose groups were overwritten.
            (Site::Head, Wrong::NoFua) => "the index was found Damaged",
            (_, Wrong::NoPreflush | Wrong::NoFua) => "after the cut it holds",
            (_, Wrong::Left | Wrong::Early) => "",
        }
    }

    /// The flaw with this name.
    pub fn named(name: &str) -> Option<Flaw> {
        Flaw::all().find(|flaw| flaw.name() == name)
    }

    /// The I/O that is left of `io`; `None`: no I/O is left.
    pub fn spoil(self, mut io: Io) -> Option<Io> {
        match self.wrong {
            Wrong::Left => return None,
            Wrong::NoPreflush => io.preflush = false,
            Wrong::NoFua => io.fua = false,
            Wrong::Early => {}
        }
        Some(io)
    }
}

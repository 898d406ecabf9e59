// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs that are not written by hand: wherever an action of core's is carried out, it is left out, left without its flush or
//! FUA, or core is told that it is done before it is.
//!
//! To be told too early is to wait no more; and since the queue then does the action after what core asks for next, it is
//! also to swap the two.

use crate::engine::{ReqKind, WorkKind};
use crate::queue::{Io, Side};

/// Where core's actions become I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Site {
    Group,
    FlushSsd,
    FlushDisk,
    Marks,
    Pages,
    Head,
    /// A write of what is dirty already.
    Home,
    /// Data of a write to the SSD alone.
    WriteBack,
    /// Data of a write to both.
    Copy,
    /// Data of a read that missed.
    Fill,
    /// What is to be cleaned, from the SSD.
    Fetch,
    /// The same to the disk.
    Clean,
    /// A read that misses, from the disk.
    Miss,
    /// A write to the disk.
    Write,
    /// A discard, or zeroes.
    Discard,
    /// A new index after a life that ended in bypass; without it the old one is read, and its clean copies are dropped.
    Anew,
}

/// What is wrong there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Nothing is done.
    Left,
    /// Core is told that it is done before it is.
    Early,
    /// Without the flush before it.
    NoPreflush,
    /// It may stay in the volatile cache.
    NoFua,
}

/// A bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flaw {
    /// Where.
    pub site: Site,
    /// What.
    pub wrong: Wrong,
}

const SITES: [Site; 16] = [
    Site::Group,
    Site::FlushSsd,
    Site::FlushDisk,
    Site::Marks,
    Site::Pages,
    Site::Head,
    Site::Home,
    Site::WriteBack,
    Site::Copy,
    Site::Fill,
    Site::Fetch,
    Site::Clean,
    Site::Miss,
    Site::Write,
    Site::Discard,
    Site::Anew,
];

impl Site {
    /// Of the ledger's own I/O.
    pub fn of_work(kind: WorkKind) -> Site {
        match kind {
            WorkKind::Group => Site::Group,
            WorkKind::FlushSsd => Site::FlushSsd,
            WorkKind::FlushDisk => Site::FlushDisk,
            WorkKind::Marks => Site::Marks,
            WorkKind::Pages => Site::Pages,
            WorkKind::Head => Site::Head,
        }
    }

    /// Of a request's I/O; `alone`: it does not go to the disk.
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
            // What depends on a head is the ring's reuse, and each group flushes before it is written.
            Site::Head => &[Left, Early, NoPreflush],
            Site::Anew => &[Left],
            Site::Marks | Site::Write => &[Left, Early, NoFua],
            _ => &[Left, Early],
        }
    }
}

impl Flaw {
    /// All that there are.
    pub fn all() -> impl Iterator<Item = Flaw> {
        let of = |site: Site| site.wrongs().iter().map(move |&wrong| Flaw { site, wrong });
        SITES.into_iter().flat_map(of)
    }

    /// As `--flaw` wants it.
    pub fn name(self) -> String {
        format!("{:?}-{:?}", self.site, self.wrong).to_lowercase()
    }

    /// Words by which power cuts must find it. Without flush or FUA data is lost by a cut; the other flaws also break rules that
    /// hold at any time, in several ways.
    pub fn says(self) -> &'static str {
        match self.wrong {
            Wrong::NoPreflush | Wrong::NoFua => "after the cut it holds",
            Wrong::Left | Wrong::Early => "",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Flaw> {
        Flaw::all().find(|flaw| flaw.name() == name)
    }

    /// What becomes of `io`; `None`: nothing is done.
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

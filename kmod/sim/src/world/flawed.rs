// SPDX-License-Identifier: GPL-3.0-or-later
//! Spoils the I/O at one site, if the machine has a flaw.

use super::io::{Role, role, token};
use super::{Task, World};
use crate::engine::{ReqKind, WORK_KINDS};
use crate::flaw::{Flaw, Site, Wrong};
use crate::queue::{Io, Kind};

/// Part of the token of an I/O about which core was told already.
const DETACHED: u64 = u64::MAX >> 3;

impl World {
    fn site(&self, io: &Io) -> Option<Site> {
        let id = io.token >> 3;
        match role(io) {
            Role::Work => Site::of_work(WORK_KINDS[id as usize]),
            Role::Home => Some(Site::Home),
            Role::Rest => Some(Site::Rest),
            Role::Span | Role::Extent => {
                let sub = self.subs.get(&id)?;
                Site::of_request(sub.kind, io.side, !sub.to_disk)
            }
            _ => None,
        }
    }

    /// The I/O that goes to the disk in place of `io`; `None`: no I/O goes there.
    pub(super) fn spoiled(&mut self, io: Io) -> Option<Io> {
        let Some(flaw) = self.flaw.filter(|flaw| self.site(&io) == Some(flaw.site)) else {
            return Some(io);
        };
        if matches!(flaw.wrong, Wrong::Left | Wrong::Early) {
            self.later(Task::TellCore { io });
        }
        let io = flaw.spoil(io)?;
        Some(
            if let Flaw {
                wrong: Wrong::Early,
                ..
            } = flaw
            {
                self.detached(io)
            } else {
                io
            },
        )
    }

    /// The same I/O with memory of its own, so that the I/O may go on after the request has ended.
    fn detached(&mut self, mut io: Io) -> Io {
        let id = io.token >> 3;
        if matches!(io.kind, Kind::Read | Kind::Write) {
            let memory = self.memory.allocate(io.count as usize);
            match (io.kind, io.buffer) {
                (Kind::Write, Some(source)) => self.memory.copy(source, (memory, 0), io.count),
                (Kind::Write, None) => {
                    let mut bytes = vec![[0; 512]; io.count as usize];
                    self.engine
                        .work_bytes(WORK_KINDS[id as usize], 0, &mut bytes);
                    for (to, bytes) in self.memory.get_mut(memory).iter_mut().zip(&bytes) {
                        *to = self.bytes.keep(bytes);
                    }
                }
                _ => {}
            }
            io.buffer = Some((memory, 0));
        }
        io.token = token(DETACHED, Role::Detached);
        io
    }

    pub(super) fn is_cleaning(&self, sub: u64) -> bool {
        let clean = |sub: &super::Sub| sub.kind == ReqKind::Clean;
        self.subs.get(&sub).is_some_and(clean)
    }
}

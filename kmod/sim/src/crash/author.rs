// SPDX-License-Identifier: GPL-3.0-or-later
//! Draws small worlds, and what happens in them, at random.

use crate::disk::Luck;
use crate::engine::{Geometry, Mode, Region};
use crate::play::Act;
use crate::streams::WriteStream;
use crate::workload::{Request, Verb, pick};
use crate::world::{Cut, Machine, World};

/// The habits of one life.
struct Habits {
    depth: usize,
    busy: u8,
    writes: u8,
    fua: u8,
    flushes: u8,
    discards: u8,
    cleans: u8,
    drops: u8,
    ticks: u8,
    sizes: u8,
    odd: u8,
    left: u64,
}

/// The author of a run, which draws acts at random.
pub(super) struct Author {
    pub(super) rng: fastrand::Rng,
    frames: Vec<u64>,
    sectors: u64,
    groups: u32,
    /// All requests are of whole blocks of 4 KiB.
    whole: bool,
    writeback: bool,
    /// There are many slots.
    large: bool,
    habits: Habits,
    stream: WriteStream,
    pub(super) mode: Mode,
}

/// Few slots, a short journal, two to four regions of the disk.
pub(super) fn any_machine(rng: &mut fastrand::Rng) -> Machine {
    // Now and then so many slots that a record fills more than a sector, or more than a block.
    let (run_shift, way_shift) = match rng.u8(..64) {
        0 => (5, 2),
        // More than a page of the checkpoint.
        63 => (5, 4),
        1..=6 => (4, 2),
        _ => (rng.u32(0..=2), rng.u32(0..=2)),
    };
    let groups = rng.u32(1..=3);
    // Every fourth SSD has another size than when its cache was made.
    let made_groups = if rng.u8(..4) == 0 {
        rng.u32(1..=4)
    } else {
        groups
    };
    let slots = u64::from(groups) << (run_shift + way_shift);
    let (disk_block, block_sectors) = *pick(rng, &[(1, 1), (1, 1), (1, 1), (8, 8), (1, 8)]);
    let odd = *pick(rng, &[0, 0, 8, 13]) & !(disk_block - 1);
    let mut at = 0;
    let mut region = |blocks: u64| {
        let region = Region {
            start: at,
            length: blocks * 8,
        };
        at += region.length;
        region
    };
    let journal = region(rng.u64(16..=28));
    let checkpoint = region(2 * (1 + slots.div_ceil(511)));
    let intent = region(1);
    let data = Region {
        start: at,
        length: slots * 32,
    };
    let geometry = Geometry {
        origin_sectors: 2048 * rng.u64(1..=3) + odd + 256,
        ssd_sectors: data.start + data.length,
        journal,
        checkpoint,
        intent,
        data,
        block_sectors,
        groups,
        made_groups,
        run_shift,
        way_shift,
        // Three groups are of a time when each checkpoint wrote all pages.
        parts: u32::from(groups != 3),
        ..Geometry::default()
    };
    Machine {
        geometry,
        disk_block,
        mode: any_mode(rng, disk_block >= u64::from(block_sectors)),
        stream: u32::MAX,
        flaw: None,
    }
}

fn any_mode(rng: &mut fastrand::Rng, writeback: bool) -> Mode {
    if writeback && rng.u8(..5) < 3 {
        Mode::WriteBack
    } else {
        *pick(rng, &[Mode::WriteThrough, Mode::WriteAround])
    }
}

impl Author {
    pub(super) fn new(mut rng: fastrand::Rng, machine: &Machine, stream: WriteStream) -> Author {
        let geometry = &machine.geometry;
        let sectors = geometry.origin_sectors;
        let slots = geometry.data.length / 32;
        // Some frames are neighbours, in some regions; one frame is the last of the disk.
        let wanted = rng.u64(1..=(slots * 2).min(60)) as usize;
        let mut frames = vec![(sectors - 1) / 32];
        while frames.len() < wanted.max(2) {
            let first = rng.u64(..sectors / 32);
            let count = rng.u64(1..=4);
            frames.extend((first..first + count).filter(|&frame| frame * 32 < sectors));
        }
        let habits = Habits {
            depth: 1,
            busy: 64,
            writes: 128,
            fua: 16,
            flushes: 16,
            discards: 4,
            cleans: 8,
            drops: 0,
            ticks: 4,
            sizes: 1,
            odd: 32,
            left: 10,
        };
        Author {
            rng,
            frames,
            sectors,
            groups: geometry.groups,
            whole: machine.disk_block == 8,
            writeback: machine.disk_block >= u64::from(geometry.block_sectors),
            large: slots >= 64,
            habits,
            stream,
            mode: machine.mode,
        }
    }

    pub(super) fn any_mode(&mut self) -> Mode {
        any_mode(&mut self.rng, self.writeback)
    }

    /// Draws new habits, and returns the acts that these habits need.
    pub(super) fn new_life(&mut self) -> Vec<Act> {
        self.stream.turn();
        let rng = &mut self.rng;
        self.habits = Habits {
            depth: *pick(rng, &[1, 1, 2, 3, 4, 8]),
            busy: *pick(rng, &[24, 64, 128]),
            writes: *pick(rng, &[80, 160, 230]),
            fua: *pick(rng, &[0, 0, 16, 128]),
            flushes: *pick(rng, &[0, 8, 24, 80]),
            discards: *pick(rng, &[0, 0, 4, 16]),
            cleans: *pick(rng, &[0, 0, 8, 24, 60]),
            drops: *pick(rng, &[0, 0, 0, 8]),
            ticks: *pick(rng, &[0, 4, 12]),
            sizes: if self.large && rng.bool() {
                3
            } else {
                *pick(rng, &[0, 0, 1, 2])
            },
            odd: *pick(rng, &[0, 0, 32, 128]),
            left: match rng.u8(..8) {
                0..=1 => rng.u64(..10),
                2..=5 => rng.u64(..80),
                6 => rng.u64(..250),
                _ => rng.u64(..700),
            },
        };
        let mut acts = Vec::new();
        if rng.u8(..4) == 0 {
            self.mode = any_mode(rng, self.writeback);
            acts.push(Act::Mode(self.mode));
        }
        if rng.u8(..8) == 0 {
            acts.push(Act::Limit(*pick(rng, &[0, 2, 8, 30, u64::MAX, u64::MAX])));
        }
        let trouble = rng.u8(..24);
        if trouble == 3 && self.writeback {
            // The SSD fails while only writes under way are dirty; these may be recorded already.
            self.mode = Mode::WriteBack;
            acts.push(Act::Pace(0, 0, 0));
            acts.push(Act::Faults(0, 0, 0));
            acts.push(Act::Drain(self.mode));
            (self.habits.writes, self.habits.fua) = (230, 128);
            (self.habits.ticks, self.habits.depth) = (40, 3);
        }
        if trouble == 4 && self.writeback {
            // Some dirty data cannot be read, while the dirty data is to become less, or while there is no room for
            // more.
            self.mode = Mode::WriteBack;
            acts.push(Act::Mode(self.mode));
            acts.push(Act::Limit(*pick(rng, &[0, 0, 2, 8])));
            acts.push(Act::Unreadable(*pick(rng, &[4000, 30000])));
            self.habits.writes = 230;
        }
        let (disk, ssd) = *pick(rng, &[(0, 0), (0, 0), (200, 0), (0, 200)]);
        acts.push(Act::Pace(disk, ssd, *pick(rng, &[0, 0, 32])));
        acts.push(Act::Faults(
            if trouble == 0 { 2000 } else { 0 },
            match trouble {
                1 => 1000,
                3 => 8000,
                _ => 0,
            },
            if trouble == 2 { 64 } else { 0 },
        ));
        acts
    }

    /// The next act.
    pub(super) fn act(&mut self, world: &World) -> Act {
        let rng = &mut self.rng;
        if self.habits.left == 0 {
            return match rng.u8(..32) {
                // Recoveries are cut again and again.
                _ if world.is_starting() && rng.bool() => {
                    Act::Cut(Cut::Power(any_luck(rng), any_luck(rng)))
                }
                0 => Act::Stop(self.mode),
                1..=4 => Act::Cut(Cut::Machine),
                _ => {
                    let luck = any_luck(rng);
                    let other = if rng.bool() { luck } else { any_luck(rng) };
                    Act::Cut(Cut::Power(luck, other))
                }
            };
        }
        if !world.is_starting() || rng.u8(..16) == 0 {
            self.habits.left -= 1;
        } else {
            return Act::Step;
        }
        if world.under_way() < self.habits.depth && rng.u8(..) < self.habits.busy {
            return Act::Submit(self.request());
        }
        if rng.u8(..) < self.habits.cleans {
            return Act::Clean;
        }
        if rng.u8(..) < self.habits.ticks {
            return Act::Tick;
        }
        if rng.u8(..) < self.habits.drops {
            let group = rng.u32(..self.groups + 1);
            return if group < self.groups {
                Act::Forget(group)
            } else {
                Act::ForgetAll
            };
        }
        match rng.u16(..2048) {
            0 => {
                self.mode = any_mode(rng, self.writeback);
                Act::Mode(self.mode)
            }
            1..=2 => Act::Forget(rng.u32(..self.groups)),
            27..=28 => Act::ForgetAll,
            3 if rng.u8(..8) == 0 => Act::SsdDies,
            4..=24 => Act::Disturb,
            25 => Act::Limit(*pick(rng, &[0, 4, u64::MAX])),
            26 if rng.u8(..8) == 0 => Act::Settle,
            _ => Act::Step,
        }
    }

    fn request(&mut self) -> Request {
        if let Some(request) = self.stream.draw() {
            return request;
        }
        let rng = &mut self.rng;
        let mut request = Request {
            verb: Verb::Flush,
            first: 0,
            count: 0,
            restless: false,
        };
        if rng.u8(..) < self.habits.flushes {
            return request;
        }
        request.verb = if rng.u8(..) < self.habits.discards {
            *pick(rng, &[Verb::Discard, Verb::Zeroes])
        } else if rng.u8(..) < self.habits.writes {
            Verb::Write {
                fua: rng.u8(..) < self.habits.fua,
            }
        } else {
            Verb::Read
        };
        let frame = *pick(rng, &self.frames);
        let quarters = match self.habits.sizes {
            0 => 1,
            1 => rng.u64(1..=4),
            2 => rng.u64(1..=16),
            _ => 256,
        };
        request.first = frame * 32 + 8 * rng.u64(..4);
        request.count = quarters * 8;
        if !self.whole && rng.u8(..) < self.habits.odd {
            request.first += rng.u64(..8);
            request.count = rng.u64(1..=request.count);
        }
        if request.first >= self.sectors {
            request.first = (self.sectors - 1) & !7;
        }
        request.count = request.count.min(self.sectors - request.first);
        request.restless = rng.u8(..8) == 0;
        request
    }
}

fn any_luck(rng: &mut fastrand::Rng) -> Luck {
    match rng.u8(..8) {
        0 => Luck::Keep,
        1 => Luck::Lose,
        2..=4 => Luck::Writes(*pick(rng, &[40, 128, 216])),
        _ => Luck::Blocks(*pick(rng, &[20, 128, 236])),
    }
}
